/**
 * Server-sent events: follows a source of events for one reader. A slow reader is waited for and never buffered for; a
 * reader that disconnects aborts the signal, and a stream ends when its key does. Its route decides where a stream starts and what it carries.
 */
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { linkAbort, type Clock, type Log } from '@bellwether/base'
import type { FastifyReply } from 'fastify'
import { makeShares } from './shares.js'

export interface StreamEvent {
  readonly id: string
  readonly event: string
  readonly data: unknown
}

/** The position of one reader in a source of events. */
export interface Stream {
  /** The next events in order; `more`: ask again at once; `end`: there will be no others. */
  next(
    signal: AbortSignal,
  ): Promise<{ readonly events: readonly StreamEvent[]; readonly more: boolean; readonly end?: boolean }>
  /** Resolves when there may be more events, or when the signal fires. */
  wait(signal: AbortSignal): Promise<void>
  /** Where a reader that reconnects continues; sent with each ping. */
  readonly position?: string
  close?(): void
}

export interface StreamPorts {
  readonly clock: Clock
  readonly log: Log
  /** Ends all streams when the server stops. */
  readonly signal: AbortSignal
}

const pingMs = 15_000 // well below the silence after which proxies close a connection
const readersMax = 512 // each is a connection that looks at every event
// A team that uses one key, with several pages per person; a fleet of workers shares one key and may use most places.
const readersPerKey = { person: 128, worker: 448 } as const

/** Serves the readers of one route. `open` runs before the response starts, so that its errors become problems. */
export function serveStream(name: string, { clock, log, signal }: StreamPorts) {
  const places = makeShares(`readers of the ${name}`, readersMax, 5_000)
  return async (reply: FastifyReply, open: () => Stream | Promise<Stream>): Promise<FastifyReply> => {
    const { grant } = reply.request
    const leave = places.take(grant.keyId, 1, grant.role === 'worker' ? readersPerKey.worker : readersPerKey.person)
    let stream: Stream | undefined
    try {
      stream = await open()
      reply.hijack()
      await follow(stream, reply.raw, { stopping: signal, clock, isLive: () => grant.isLive() })
    } catch (error) {
      if (!reply.sent) throw error
      log.error({ err: error, stream: name }, 'event stream failed')
      reply.raw.destroy()
    } finally {
      stream?.close?.()
      leave()
    }
    return reply
  }
}

interface Reader {
  readonly stopping: AbortSignal
  readonly clock: Clock
  /** Asked before each event and each ping. */
  readonly isLive: () => boolean
}

async function follow(stream: Stream, response: ServerResponse, { stopping, clock, isLive }: Reader): Promise<void> {
  const reader = linkAbort(stopping)
  const disconnected = () => reader.abort()
  response.once('close', disconnected)
  response.once('error', disconnected)
  response.writeHead(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-store',
    connection: 'keep-alive',
    'x-accel-buffering': 'no',
    // Hooks do not see a hijacked response.
    'x-content-type-options': 'nosniff',
    'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  })
  const { signal } = reader
  async function write(text: string): Promise<void> {
    if (!isLive()) disconnected()
    if (signal.aborted || response.write(text)) return
    await once(response, 'drain', { signal }).catch((error: unknown) => {
      if (!signal.aborted) throw error
    })
  }
  await write(': hello\n\n')
  let pingedMs = clock.monotonicMs()
  while (!signal.aborted) {
    const { events, more, end = false } = await stream.next(signal)
    for (const { id, event, data } of events)
      await write(`id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`)
    if (end) break
    if (more) continue
    const quiet = linkAbort(signal)
    await Promise.race([stream.wait(quiet.signal), clock.sleep(pingMs, quiet.signal)])
    quiet.abort()
    if (clock.monotonicMs() - pingedMs < pingMs) continue
    pingedMs = clock.monotonicMs()
    // Browsers resume from the id of a ping; parsers that report only events with data read it from the comment.
    const { position } = stream
    await write(position === undefined ? ': ping\n\n' : `: ping ${position}\nid: ${position}\n\n`)
  }
  reader.release()
  response.end()
}
