/**
 * A model provider with the HTTP APIs of OpenAI and Anthropic and real streams, which misbehaves as the test scripts it. It records
 * every request with its time and whether the caller hung up. `close` cuts open connections.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { listen } from '../servers/listen.js'

export interface FakeAnswer {
  readonly text?: string
  readonly thought?: string
  readonly calls?: readonly {
    readonly name: string
    readonly args: unknown
    readonly id?: string
    readonly signature?: string
  }[]
  readonly finish?: string
  /** Null: the response has no usage. */
  readonly usage?: { readonly input: number; readonly output: number } | null
  /** Cuts the connection after this many text chunks. */
  readonly cutAfter?: number
  /** Sends nothing more after this many text chunks, and keeps the connection open. */
  readonly stallAfter?: number
  /** The stream ends without a finish reason. */
  readonly noFinish?: boolean
  /** The pause between two text chunks. */
  readonly everyMs?: number
  /** Responds after this promise. */
  readonly after?: Promise<void>
  /** Never responds. */
  readonly hang?: boolean
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

export interface FakeRequest {
  readonly atMs: number
  readonly path: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: {
    readonly model: string
    readonly messages: readonly { readonly role: string; readonly content: unknown; readonly tool_calls?: unknown }[]
    readonly tools?: readonly unknown[]
    readonly max_tokens?: number
    readonly system?: unknown
  }
  hungUp: boolean
}

type Behaviour = (request: FakeRequest, number: number) => FakeAnswer

export interface FakeProvider {
  readonly url: string
  readonly requests: FakeRequest[]
  behave(behaviour: Behaviour): void
  close(): Promise<void>
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

export async function openFakeProvider(): Promise<FakeProvider> {
  const requests: FakeRequest[] = []
  let behaviour: Behaviour = () => ({ text: 'hello' })
  const server = createServer((request, response) => {
    void serve(request, response).catch((error: unknown) => response.destroy(error as Error))
  })

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let text = ''
    for await (const piece of request) text += String(piece)
    const seen: FakeRequest = {
      atMs: performance.now(),
      path: request.url ?? '',
      headers: request.headers,
      body: JSON.parse(text) as FakeRequest['body'],
      hungUp: false,
    }
    requests.push(seen)
    response.setMaxListeners(0)
    response.on('close', () => (seen.hungUp = !response.writableEnded))
    const answer = behaviour(seen, requests.length)
    if (answer.hang === true) return
    await answer.after
    if (answer.status !== undefined) {
      response.writeHead(answer.status, { 'content-type': 'application/json', ...answer.headers })
      response.end(answer.body ?? JSON.stringify({ error: { message: `status ${answer.status}` } }))
      return
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const events = seen.path.endsWith('/messages') ? anthropicEvents(answer) : openaiEvents(answer)
    let texts = 0
    for (const { event, isText } of events) {
      if (isText && answer.cutAfter !== undefined && texts >= answer.cutAfter) {
        await pause(20) // so that what was written is sent
        response.destroy()
        return
      }
      if (isText && answer.stallAfter !== undefined && texts >= answer.stallAfter) return
      if (isText) texts += 1
      if (isText && answer.everyMs !== undefined) await pause(answer.everyMs)
      if (response.destroyed) return
      if (!response.write(event)) await new Promise((resolve) => response.once('drain', resolve).once('close', resolve))
    }
    response.end()
  }

  const port = await listen(server)
  return {
    url: `http://127.0.0.1:${port}/v1`,
    requests,
    behave: (next) => void (behaviour = next),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

interface Event {
  readonly event: string
  readonly isText: boolean
}

function* pieces(text: string): Iterable<string> {
  const size = Math.max(8, Math.ceil(text.length / 200))
  for (let at = 0; at < text.length; at += size) yield text.slice(at, at + size)
}

function* openaiEvents(answer: FakeAnswer): Iterable<Event> {
  const line = (delta: object | undefined, more: object = {}, isText = false): Event => {
    const choices = delta === undefined ? [] : [{ index: 0, delta, finish_reason: null, ...more }]
    const body = { id: 'x', object: 'chat.completion.chunk', created: 1, model: 'm', choices, ...(delta ? {} : more) }
    return { event: `data: ${JSON.stringify(body)}\n\n`, isText }
  }
  yield line({ role: 'assistant', content: '' })
  for (const piece of pieces(answer.thought ?? '')) yield line({ reasoning_content: piece }, {}, true)
  for (const piece of pieces(answer.text ?? '')) yield line({ content: piece }, {}, true)
  for (const [index, call] of (answer.calls ?? []).entries()) {
    const id = call.id ?? `call_${index}`
    const extra =
      call.signature === undefined ? {} : { extra_content: { google: { thought_signature: call.signature } } }
    yield line({
      tool_calls: [{ index, id, type: 'function', function: { name: call.name, arguments: '' }, ...extra }],
    })
    for (const piece of pieces(argumentsOf(call.args)))
      yield line({ tool_calls: [{ index, function: { arguments: piece } }] })
  }
  if (answer.noFinish !== true) {
    yield line({}, { finish_reason: answer.finish ?? (answer.calls === undefined ? 'stop' : 'tool_calls') })
    const { input, output } = answer.usage ?? { input: 10, output: 5 }
    if (answer.usage !== null)
      yield line(undefined, {
        usage: { prompt_tokens: input, completion_tokens: output, total_tokens: input + output },
      })
  }
  yield { event: 'data: [DONE]\n\n', isText: false }
}

function* anthropicEvents(answer: FakeAnswer): Iterable<Event> {
  const { input, output } = answer.usage ?? { input: 10, output: 5 }
  const event = (type: string, more: object, isText = false): Event => ({
    event: `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`,
    isText,
  })
  const message = { id: 'm', type: 'message', role: 'assistant', model: 'm', content: [], stop_reason: null }
  yield event('message_start', {
    message: { ...message, stop_sequence: null, usage: { input_tokens: input, output_tokens: 1 } },
  })
  let index = 0
  if (answer.text !== undefined) {
    yield event('content_block_start', { index, content_block: { type: 'text', text: '' } })
    for (const piece of pieces(answer.text))
      yield event('content_block_delta', { index, delta: { type: 'text_delta', text: piece } }, true)
    yield event('content_block_stop', { index })
    index += 1
  }
  for (const call of answer.calls ?? []) {
    const id = call.id ?? `toolu_${index}`
    yield event('content_block_start', { index, content_block: { type: 'tool_use', id, name: call.name, input: {} } })
    for (const piece of pieces(argumentsOf(call.args)))
      yield event('content_block_delta', { index, delta: { type: 'input_json_delta', partial_json: piece } })
    yield event('content_block_stop', { index })
    index += 1
  }
  if (answer.noFinish === true) return
  const reason = answer.finish ?? (answer.calls === undefined ? 'end_turn' : 'tool_use')
  yield event('message_delta', {
    delta: { stop_reason: reason, stop_sequence: null },
    usage: { output_tokens: output },
  })
  yield event('message_stop', {})
}

const argumentsOf = (args: unknown) => (typeof args === 'string' ? args : JSON.stringify(args))
