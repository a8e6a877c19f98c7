/**
 * The services outside the fleet, on loopback: an OpenAI-compatible server whose models follow a script, and HTTP tools. Only
 * requests with this run's key are served; `close` cuts open connections, so that nothing waits for a tool that hangs.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Clock, Log, Random } from '@bellwether/base'
import { fakeVariables } from '../actors.js'
import { scripts, type Conversation } from './scripts.js'
import { streamAnswer } from './stream.js'
import type { FakeTool, ToolRequest } from './tools.js'

export interface FakeServer {
  /** Environment variables for the workers. */
  readonly env: Readonly<Record<string, string>>
  close(): Promise<void>
}

export interface FakeServerOptions {
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  readonly tool: FakeTool
}

// A conversation of the demo is a few kilobytes.
const bodyMax = 1_048_576

interface ChatBody {
  readonly model: string
  readonly messages: readonly { readonly role: string; readonly content?: unknown }[]
}

export async function openFakeServer({ clock, random, log, tool }: FakeServerOptions): Promise<FakeServer> {
  const key = Buffer.from(random.bytes(24)).toString('base64url')
  const server = createServer((request, response) => {
    serve(request, response).catch((error: unknown) => {
      log.warn({ err: error, url: request.url }, 'fake server could not answer')
      response.destroy()
    })
  })

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const closed = new AbortController()
    response.once('close', () => closed.abort())
    if (request.headers.authorization !== `Bearer ${key}`)
      return reply(response, 401, { error: { message: 'wrong key' } })
    const body: unknown = JSON.parse((await bodyOf(request)) || '{}')
    if (request.url === '/v1/chat/completions') return chat(body as ChatBody, response, closed.signal)
    const name = /^\/tools\/([a-z0-9-]+)$/.exec(request.url ?? '')?.[1]
    if (name === undefined) return reply(response, 404, { error: { message: 'not found' } })
    const toolCallId = String(request.headers['idempotency-key'] ?? '')
    const result = await tool(name, { args: body as ToolRequest['args'], toolCallId, signal: closed.signal })
    // Without an answer, the caller's timeout ends the call.
    if (result !== undefined) reply(response, result.status, result.body)
  }

  async function chat({ model, messages }: ChatBody, response: ServerResponse, signal: AbortSignal): Promise<void> {
    const script = Object.hasOwn(scripts, model) ? scripts[model] : undefined
    if (script === undefined) return reply(response, 404, { error: { message: `unknown model "${model}"` } })
    const answer = script(conversationOf(messages), random)
    await clock.sleep(answer.afterMs ?? 0, signal)
    if (signal.aborted) return
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const chunk of streamAnswer(model, answer)) response.write(chunk)
    response.end()
  }

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    env: { [fakeVariables.url]: `${url}/v1`, [fakeVariables.tools]: `${url}/tools`, [fakeVariables.key]: key },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

function reply(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request) {
    bytes += (chunk as Buffer).length
    if (bytes > bodyMax) throw new Error(`the request body exceeds ${bodyMax} bytes`)
    chunks.push(chunk as Buffer)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function conversationOf(messages: ChatBody['messages']): Conversation {
  const textOf = (content: unknown) => (typeof content === 'string' ? content : JSON.stringify(content ?? ''))
  return {
    answers: messages.filter((message) => message.role === 'assistant').length,
    result: textOf(messages.findLast((message) => message.role === 'tool')?.content),
    task: textOf(messages.find((message) => message.role === 'user')?.content),
  }
}
