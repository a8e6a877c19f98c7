/**
 * The stage: what a fleet meets outside, on this machine's loopback and without a network. An OpenAI-compatible server whose models
 * keep to a script, and HTTP tools that answer, hang or limp. Always: only who knows this run's key is answered; `close` cuts what
 * is still open, so that nothing waits for a tool that hangs.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Clock, Log, Random } from '@bellwether/base'
import { stageVariables } from '../cast.js'
import type { Played, Prop } from './props.js'
import { scripts, type Talk } from './scripts.js'
import { spoken } from './speech.js'

export interface Stage {
  /** What the workers must find in their environment. */
  readonly env: Readonly<Record<string, string>>
  close(): Promise<void>
}

export interface StageOptions {
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  readonly tool: (name: string, prop: Prop) => Promise<Played>
}

// A conversation of the demo is a few kilobytes; a body of a megabyte is a mistake.
const bodyMax = 1_048_576

interface ChatBody {
  readonly model: string
  readonly messages: readonly { readonly role: string; readonly content?: unknown }[]
}

export async function openStage({ clock, random, log, tool }: StageOptions): Promise<Stage> {
  const key = Buffer.from(random.bytes(24)).toString('base64url')
  const server = createServer((request, response) => {
    serve(request, response).catch((error: unknown) => {
      log.warn({ err: error, url: request.url }, 'the stage could not answer')
      response.destroy()
    })
  })

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const hungUp = new AbortController()
    response.once('close', () => hungUp.abort())
    if (request.headers.authorization !== `Bearer ${key}`) return reply(response, 401, { error: { message: 'no key' } })
    const body: unknown = JSON.parse((await bodyOf(request)) || '{}')
    if (request.url === '/v1/chat/completions') return chat(body as ChatBody, response, hungUp.signal)
    const name = /^\/tools\/([a-z0-9-]+)$/.exec(request.url ?? '')?.[1]
    if (name === undefined) return reply(response, 404, { error: { message: 'nothing is here' } })
    const toolCallId = String(request.headers['idempotency-key'] ?? '')
    const played = await tool(name, { args: body as Prop['args'], toolCallId, signal: hungUp.signal })
    // No answer at all: the caller's own timeout is what ends it.
    if (played !== undefined) reply(response, played.status, played.body)
  }

  async function chat({ model, messages }: ChatBody, response: ServerResponse, signal: AbortSignal): Promise<void> {
    const script = Object.hasOwn(scripts, model) ? scripts[model] : undefined
    if (script === undefined) return reply(response, 404, { error: { message: `there is no script ${model}` } })
    const line = script(talkOf(messages), random)
    await clock.sleep(line.afterMs ?? 0, signal)
    if (signal.aborted) return
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const piece of spoken(model, line)) response.write(piece)
    response.end()
  }

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    env: { [stageVariables.url]: `${url}/v1`, [stageVariables.tools]: `${url}/tools`, [stageVariables.key]: key },
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
    if (bytes > bodyMax) throw new Error('the body is too long for the stage')
    chunks.push(chunk as Buffer)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function talkOf(messages: ChatBody['messages']): Talk {
  const words = (content: unknown) => (typeof content === 'string' ? content : JSON.stringify(content ?? ''))
  return {
    said: messages.filter((message) => message.role === 'assistant').length,
    result: words(messages.findLast((message) => message.role === 'tool')?.content),
    task: words(messages.find((message) => message.role === 'user')?.content),
  }
}
