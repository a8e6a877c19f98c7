/**
 * Reads server-sent events. Always: one object an event, with the id at which a reader goes on; a stream that says nothing for a
 * minute is taken for lost, since the server speaks every 15 seconds; an event has a bound.
 */
import type { Clock } from '@bellwether/base'
import { Retryable, Terminal } from '@bellwether/protocol'

export interface ServerEvent {
  readonly id: string | undefined
  readonly event: string
  readonly data: Readonly<Record<string, unknown>>
}

// Four times what lies between two signs of life.
const silenceMs = 60_000
// A card has 1 MiB at most, and a page of changes is smaller than this.
const eventCharsMax = 16 * 1024 * 1024

export async function* readEvents(
  body: ReadableStream<Uint8Array> | null,
  clock: Clock,
  signal: AbortSignal,
): AsyncGenerator<ServerEvent> {
  if (body === null) return
  const reader = body.getReader()
  const decoder = new TextDecoder()
  let left = ''
  try {
    for (;;) {
      const piece = await next(reader, clock, signal)
      if (piece === undefined) return
      left = `${left}${decoder.decode(piece, { stream: true })}`.replaceAll('\r\n', '\n')
      const blocks = left.split('\n\n')
      left = blocks.pop() ?? ''
      if (left.length > eventCharsMax) throw new Terminal('an event is too large', { code: 'answer_too_large' })
      for (const block of blocks) {
        const event = eventIn(block)
        if (event !== undefined) yield event
      }
    }
  } finally {
    // Of a connection that has broken already, which is what the loop has said.
    await reader.cancel().catch(() => undefined)
  }
}

/** Undefined at the end, ours or the server's. */
async function next(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  clock: Clock,
  signal: AbortSignal,
): Promise<Uint8Array | undefined> {
  const heard = new AbortController()
  const silent = clock.sleep(silenceMs, heard.signal).then((): never => {
    throw new Retryable('the stream has gone silent', { code: 'server_away' })
  })
  try {
    const { value, done } = await Promise.race([reader.read(), silent])
    return done ? undefined : value
  } catch (error) {
    if (signal.aborted) return undefined
    if (error instanceof Retryable) throw error
    throw new Retryable('the stream was cut', { code: 'server_away', cause: error })
  } finally {
    heard.abort()
  }
}

function eventIn(block: string): ServerEvent | undefined {
  const found = { id: undefined as string | undefined, event: 'message', data: [] as string[] }
  for (const line of block.split('\n')) {
    const [, name, value = ''] = /^(\w+): ?(.*)$/s.exec(line) ?? []
    if (name === 'id') found.id = value
    else if (name === 'event') found.event = value
    else if (name === 'data') found.data.push(value)
  }
  if (found.data.length === 0) return undefined
  try {
    const data = JSON.parse(found.data.join('\n')) as Readonly<Record<string, unknown>>
    return { id: found.id, event: found.event, data }
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw new Terminal('the stream holds what is no event of Bellwether', { code: 'not_bellwether', cause: error })
  }
}
