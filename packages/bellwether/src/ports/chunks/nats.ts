/**
 * Sends chunks on core NATS without storing them. While the server is unavailable or does not read, chunks are dropped and
 * counted instead of buffered. Subscriptions are renewed after every reconnection.
 */
import { type Clock, type Log, type Random, systemClock, systemRandom } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { Subscription } from '@nats-io/transport-node'
import { checkPattern, isSubject, parseJson } from '../bell/ring.js'
import { keepNatsConnected, type NatsSession } from '../connections/nats.js'
import { readChunk, type Chunk, type Chunks } from './chunks.js'
import { openChunkBuffer } from './chunk-buffer.js'

export interface NatsChunksOptions {
  readonly servers: string | readonly string[]
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

interface Subscriber {
  readonly pattern: string
  readonly onChunk: (chunk: Chunk, subject: string) => void
  subscription?: Subscription
}

export function natsChunks(options: NatsChunksOptions): Chunks {
  const { log, clock = systemClock, random = systemRandom, name = 'bellwether chunks' } = options
  const subscribers = new Set<Subscriber>()
  let closed = false
  const keeper = keepNatsConnected({ servers: options.servers, name, log, clock, random, onOpen })

  function onOpen(session: NatsSession): void {
    for (const subscriber of subscribers) subscribe(session, subscriber)
  }

  function subscribe(session: NatsSession, subscriber: Subscriber): void {
    subscriber.subscription = session.nats.subscribe(subscriber.pattern, {
      callback(error, message) {
        if (error !== null) return log.warn({ err: error, pattern: subscriber.pattern }, 'chunk subscription failed')
        const small = message.data.length <= parseMaxBytes
        const chunk = small ? readChunk(parseJson(Buffer.from(message.data).toString())) : undefined
        if (chunk !== undefined) deliver(subscriber, chunk, message.subject)
      },
    })
  }

  function deliver(subscriber: Subscriber, chunk: Chunk, subject: string): void {
    try {
      subscriber.onChunk(chunk, subject)
    } catch (error) {
      log.error({ err: error, pattern: subscriber.pattern }, 'chunk listener threw an error')
    }
  }

  const buffer = openChunkBuffer({
    clock,
    log,
    waitMs,
    textMaxBytes,
    batchMax,
    async send(chunks) {
      const session = keeper.current()
      if (session === undefined) return false
      for (const { subject, chunk } of chunks) {
        if (isSubject(subject)) session.nats.publish(subject, JSON.stringify(chunk))
      }
      // The next batch waits until the server has read this one, so a slow server does not fill the buffer.
      await session.flush(flushMs)
      return true
    },
  })

  return {
    kind: 'nats',
    send: (turn, piece) => buffer.add(turn, piece),
    counts: () => buffer.counts(),
    async listen(pattern, onChunk) {
      checkPattern(pattern)
      if (closed) throw new InvalidInput('The chunk stream is closed', { code: 'chunks_closed' })
      const subscriber: Subscriber = { pattern, onChunk }
      subscribers.add(subscriber)
      await keeper.settled()
      const session = keeper.current()
      if (session !== undefined) {
        if (subscriber.subscription === undefined || subscriber.subscription.isClosed()) subscribe(session, subscriber)
        await session.flush(flushMs).catch((error: unknown) => log.warn({ err: error }, 'NATS did not confirm in time'))
      }
      return {
        async stop() {
          subscribers.delete(subscriber)
          if (subscriber.subscription?.isClosed() === false) subscriber.subscription.unsubscribe()
        },
      }
    },
    async close() {
      closed = true
      await buffer.close()
      subscribers.clear()
      await keeper.close()
    },
  }
}
