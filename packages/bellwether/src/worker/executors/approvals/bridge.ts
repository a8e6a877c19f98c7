/**
 * The MCP server (stdio) that a coding agent starts to ask for permission: one tool, `approve`, whose result is what Claude Code's
 * `--permission-prompt-tool` expects. It forwards each request to the worker over the turn's socket. It can ask for this turn and do
 * nothing else. It never allows by itself. Imports only Node: its one file is copied to where a sandbox shows it.
 */
import { readFileSync } from 'node:fs'
import { createConnection } from 'node:net'
import { createInterface } from 'node:readline'

interface Request {
  readonly id?: string | number
  readonly method?: string
  readonly params?: {
    readonly name?: string
    readonly protocolVersion?: string
    readonly arguments?: { readonly tool_name?: unknown; readonly input?: unknown; readonly tool_use_id?: unknown }
  }
}

const [, , socketPath = '', tokenFile = ''] = process.argv
const token = readFileSync(tokenFile, 'utf8')
const latestVersion = '2025-06-18'
const approveTool = {
  name: 'approve',
  description: 'Asks a person to allow or deny a tool call.',
  inputSchema: {
    type: 'object',
    required: ['tool_name', 'input'],
    properties: { tool_name: { type: 'string' }, input: { type: 'object' }, tool_use_id: { type: 'string' } },
  },
}

const write = (message: object) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
const deny = (message: string) => ({ behavior: 'deny', message })
const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** One connection per request. */
function decide(args: NonNullable<Request['params']>['arguments']): Promise<object> {
  const { tool_name: tool, input } = args ?? {}
  if (typeof tool !== 'string' || !isObject(input))
    return Promise.resolve(deny('Invalid permission request: "tool_name" must be text and "input" an object.'))
  return new Promise((resolve) => {
    const socket = createConnection(socketPath)
    // The worker has died or lost the turn: this process is about to be killed, and does not answer. A denial now would enter the
    // program's session, and the next worker, which resumes the session, could not ask again.
    socket.on('error', (error) => process.stderr.write(`No decision: ${error.message}\n`))
    createInterface({ input: socket }).once('line', (line) => {
      const decision: unknown = JSON.parse(line)
      const isAllowed = isObject(decision) && decision['behavior'] === 'allow'
      // The call runs with exactly the arguments that the person saw.
      resolve(isAllowed ? { behavior: 'allow', updatedInput: input } : (decision as object))
      socket.destroy()
    })
    socket.write(`${JSON.stringify({ token, tool_name: tool, input })}\n`)
  })
}

async function answer({ id, method, params }: Request): Promise<void> {
  if (id === undefined) return
  if (method === 'initialize')
    write({
      id,
      result: {
        protocolVersion: params?.protocolVersion ?? latestVersion,
        capabilities: { tools: {} },
        serverInfo: { name: 'bellwether', version: '1' },
      },
    })
  else if (method === 'ping') write({ id, result: {} })
  else if (method === 'tools/list') write({ id, result: { tools: [approveTool] } })
  else if (method === 'tools/call' && params?.name === approveTool.name) {
    const text = JSON.stringify(await decide(params.arguments))
    write({ id, result: { content: [{ type: 'text', text }] } })
  } else write({ id, error: { code: -32601, message: `Unknown method or tool: ${method} ${params?.name ?? ''}` } })
}

createInterface({ input: process.stdin }).on('line', (line) => {
  let request: Request
  try {
    request = JSON.parse(line) as Request
  } catch (error) {
    write({ id: null, error: { code: -32700, message: `Not JSON: ${String(error)}` } })
    return
  }
  void answer(request).catch((error: unknown) =>
    write({ id: request.id ?? null, error: { code: -32603, message: String(error) } }),
  )
})
