/**
 * Reads server-sent events. A stream without data for a minute counts as lost, because the server pings every 15 seconds;
 * an event has a maximum size.
 */
import type { Clock } from '@bellwether/base'
import { Retryable, Terminal } from '@bellwether/protocol'
import { createParser } from 'eventsource-parser'

export interface ServerEvent {
  /** Where a reader that reconnects continues. */
  readonly id: string | undefined
  readonly event: string
  readonly data: Readonly<Record<string, unknown>>
}

const silenceMs = 60_000 // four pings
// A card has at most 1 MiB, and a page of changes is smaller than this.
const eventCharsMax = 16 * 1024 * 1024

export async function* readEvents(
  body: ReadableStream<Uint8Array> | null,
  clock: Clock,
  signal: AbortSignal,
): AsyncGenerator<ServerEvent> {
  if (body === null) return
  const reader = body.getReader()
  const decoder = new TextDecoder()
  let events: ServerEvent[] = []
  let unfinished = 0
  const parser = createParser({
    onComment: () => (unfinished = 0),
    onEvent({ id, event = 'message', data }) {
      unfinished = 0
      events.push({ id, event, data: parsed(data) })
    },
  })
  try {
    for (;;) {
      const piece = await next(reader, clock, signal)
      if (piece === undefined) return
      unfinished += piece.length
      parser.feed(decoder.decode(piece, { stream: true }))
      if (events.length === 0 && unfinished > eventCharsMax)
        throw new Terminal('An event of the stream is too large', { code: 'response_too_large' })
      yield* events
      events = []
    }
  } finally {
    // The connection may be broken already, which the loop has reported.
    await reader.cancel().catch(() => undefined)
  }
}

/** Undefined at the end of the stream, or when the signal fires. */
async function next(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  clock: Clock,
  signal: AbortSignal,
): Promise<Uint8Array | undefined> {
  const received = new AbortController()
  const silent = clock.sleep(silenceMs, received.signal).then((): never => {
    throw new Retryable('The event stream is silent', { code: 'server_away' })
  })
  try {
    const { value, done } = await Promise.race([reader.read(), silent])
    return done ? undefined : value
  } catch (error) {
    if (signal.aborted) return undefined
    if (error instanceof Retryable) throw error
    throw new Retryable('The event stream was interrupted', { code: 'server_away', cause: error })
  } finally {
    received.abort()
  }
}

function parsed(data: string): ServerEvent['data'] {
  try {
    return JSON.parse(data) as ServerEvent['data']
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw new Terminal('The event stream is not from a Bellwether server', { code: 'not_bellwether', cause: error })
  }
}
