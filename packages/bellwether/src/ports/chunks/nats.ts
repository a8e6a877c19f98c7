/**
 * Sends chunks on core NATS without storing them. While the server is unavailable or does not read, chunks are dropped and
 * counted instead of buffered. Subscriptions are renewed after every reconnection.
 */
import { systemClock } from '@bellwether/base'
import type { Subscription } from '@nats-io/transport-node'
import { isSubject } from '../bell/ring.js'
import { jsonOf, keepNatsConnected, type NatsOptions, type NatsSession } from '../connections/nats.js'
import { openChunkStream, type Subscriber } from './chunk-stream.js'
import { readChunk, type Chunks } from './chunks.js'

// Short enough that a reader sees a continuous stream.
const waitMs = 50
const textMaxBytes = 4_096
// One flush confirms a batch: at most 1 MB, well below the client's buffer limit.
const batchMax = 256
const flushMs = 5_000

export function natsChunks(options: NatsOptions): Chunks {
  const { log, clock = systemClock } = options
  const subscribers = new Set<Subscriber>()
  const subscriptions = new Map<Subscriber, Subscription>()
  const keeper = keepNatsConnected({ name: 'bellwether chunks', ...options }, onOpen)

  function onOpen(session: NatsSession): void {
    for (const subscriber of subscribers) subscribe(session, subscriber)
  }

  function subscribe(session: NatsSession, subscriber: Subscriber): void {
    const { pattern } = subscriber
    const subscription = session.nats.subscribe(pattern, {
      callback(error, message) {
        if (error !== null) return log.warn({ err: error, pattern }, 'chunk subscription failed')
        const chunk = readChunk(jsonOf(message))
        if (chunk !== undefined) subscriber.onChunk(chunk, message.subject)
      },
    })
    subscriptions.set(subscriber, subscription)
  }

  return openChunkStream({
    kind: 'nats',
    subscribers,
    clock,
    log,
    waitMs,
    textMaxBytes,
    batchMax,
    async send(chunks) {
      await keeper.settled() // the first chunks of a process must not be lost because it is still connecting
      const session = keeper.current()
      if (session === undefined) return false
      for (const { subject, chunk } of chunks) {
        if (isSubject(subject)) session.nats.publish(subject, JSON.stringify(chunk))
      }
      // The next batch waits until the server has read this one, so a slow server does not fill the buffer.
      await session.flush(flushMs)
      return true
    },
    async start(subscriber) {
      await keeper.settled()
      const session = keeper.current()
      if (session === undefined) return
      if (subscriptions.get(subscriber)?.isClosed() !== false) subscribe(session, subscriber)
      await session.flush(flushMs).catch((error: unknown) => log.warn({ err: error }, 'NATS did not confirm in time'))
    },
    stop(subscriber) {
      const subscription = subscriptions.get(subscriber)
      subscriptions.delete(subscriber)
      if (subscription?.isClosed() === false) subscription.unsubscribe()
    },
    disconnect: () => keeper.close(),
  })
}
