/**
 * Sends chunks on core NATS without storing them. While the server is unavailable or does not read, chunks are dropped and
 * counted instead of buffered. Subscriptions are renewed after every reconnection.
 */
import { type Clock, type Log, parseJson, type Random, systemClock, systemRandom } from '@bellwether/base'
import type { Subscription } from '@nats-io/transport-node'
import { isSubject } from '../bell/ring.js'
import { keepNatsConnected, type NatsAddress, type NatsSession } from '../connections/nats.js'
import { openChunkStream, type Subscriber } from './chunk-stream.js'
import { readChunk, type Chunks } from './chunks.js'

export interface NatsChunksOptions extends NatsAddress {
  readonly log: Log
  readonly name?: string
  readonly clock?: Clock
  readonly random?: Random
}

// Short enough that a reader sees a continuous stream.
const waitMs = 50
const textMaxBytes = 4_096
// One flush confirms a batch: at most 1 MB, well below the client's buffer limit.
const batchMax = 256
const flushMs = 5_000
// Our messages are smaller; a larger one is forged and is not parsed.
const parseMaxBytes = 64 * 1_024

export function natsChunks(options: NatsChunksOptions): Chunks {
  const { log, clock = systemClock, random = systemRandom, name = 'bellwether chunks' } = options
  const subscribers = new Set<Subscriber>()
  const subscriptions = new Map<Subscriber, Subscription>()
  const keeper = keepNatsConnected({ servers: options.servers, tls: options.tls, name, log, clock, random, onOpen })

  function onOpen(session: NatsSession): void {
    for (const subscriber of subscribers) subscribe(session, subscriber)
  }

  function subscribe(session: NatsSession, subscriber: Subscriber): void {
    const { pattern } = subscriber
    const subscription = session.nats.subscribe(pattern, {
      callback(error, message) {
        if (error !== null) return log.warn({ err: error, pattern }, 'chunk subscription failed')
        const small = message.data.length <= parseMaxBytes
        const chunk = small ? readChunk(parseJson(Buffer.from(message.data).toString())) : undefined
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
