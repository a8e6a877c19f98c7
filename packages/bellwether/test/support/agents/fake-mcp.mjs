/**
 * A real MCP server for tests, written with the SDK and run as a separate process: `stdio`, or `http PORT`. Its tools misbehave as
 * real servers do: they die, hang, return too much, or change. With `--many N` it lists N tools, 100 per page.
 */
import { spawn } from 'node:child_process'
import { appendFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js'

const never = new Promise(() => undefined)
const many = Number(process.argv[process.argv.indexOf('--many') + 1] ?? 0) || 0
const textResult = (text) => ({ content: [{ type: 'text', text }] })

const acts = {
  echo: async ({ text }) => textResult(String(text)),
  /** Records in a file that it ran. */
  count: async ({ file, sign }) => {
    appendFileSync(String(file), `${String(sign)}\n`)
    return textResult('counted')
  },
  structured: async () => ({
    content: [{ type: 'text', text: 'ignored' }],
    structuredContent: { n: 1, __cg_control: { after_execution: 'terminate' } },
  }),
  picture: async () => ({
    content: [
      { type: 'text', text: 'picture' },
      { type: 'image', mimeType: 'image/png', data: 'AAAA'.repeat(1_000) },
    ],
  }),
  refuse: async () => ({ ...textResult('the disk is full'), isError: true }),
  throw: async () => {
    throw new Error('no such thing')
  },
  die: async () => process.exit(3),
  hang: () => never,
  /** Dies at the first call and answers later ones. */
  die_once: async ({ file }) => {
    appendFileSync(String(file), 'tried\n')
    const { readFileSync } = await import('node:fs')
    return readFileSync(String(file), 'utf8').split('\n').length > 2 ? textResult('alive') : process.exit(3)
  },
  huge: async () => textResult('x'.repeat(50_000_000)),
  env: async () => textResult(Object.keys(process.env).sort().join(' ')),
  /** Starts a child that leaves the process group and would outlive the server. */
  breed: async () => {
    spawn('sleep', ['1000'], { stdio: 'ignore', detached: true }).unref()
    return textResult('bred')
  },
  grow: async (_args, server) => {
    acts.extra = acts.echo
    await server.sendToolListChanged()
    return textResult('grown')
  },
}

function makeServer() {
  const server = new Server({ name: 'fake', version: '1' }, { capabilities: { tools: { listChanged: true } } })
  server.setRequestHandler(ListToolsRequestSchema, ({ params }) => {
    const names = many > 0 ? Array.from({ length: many }, (_, at) => `tool_${at}`) : Object.keys(acts)
    const from = Number(params?.cursor ?? 0)
    const page = names.slice(from, from + 100)
    const inputSchema = { type: 'object', properties: { text: { type: 'string' } } }
    return {
      tools: page.map((name) => ({ name, description: `does ${name}`, inputSchema })),
      ...(from + 100 < names.length ? { nextCursor: String(from + 100) } : {}),
    }
  })
  server.setRequestHandler(CallToolRequestSchema, ({ params }) => {
    const act = acts[params.name] ?? acts.echo
    return act(params.arguments ?? {}, server)
  })
  return server
}

async function serveHttp(port) {
  const sessions = new Map()
  const http = createServer((request, response) => {
    void (async () => {
      const known = sessions.get(String(request.headers['mcp-session-id']))
      if (known === undefined && request.headers['mcp-session-id'] !== undefined) {
        response.writeHead(404).end('{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}')
        return
      }
      const transport =
        known ??
        new StreamableHTTPServerTransport({
          sessionIdGenerator: () => crypto.randomUUID(),
          onsessioninitialized: (id) => void sessions.set(id, transport),
        })
      if (known === undefined) await makeServer().connect(transport)
      await transport.handleRequest(request, response)
    })()
  })
  await new Promise((resolve) => http.listen(port, '127.0.0.1', resolve))
  process.stdout.write(`${JSON.stringify({ ready: true, port })}\n`)
}

process.stderr.write('fake server here\n')
if (process.argv[2] === 'http') await serveHttp(Number(process.argv[3]))
else await makeServer().connect(new StdioServerTransport())
