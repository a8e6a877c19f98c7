/**
 * Chunks on core NATS: published on their own subject, kept by nobody. Always: while the server is away, or does not read, they are
 * dropped and counted, never piled up in the client; a new connection listens again by itself.
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

// Words that come within a twentieth of a second look like one to a reader.
const waitMs = 50
const textMaxBytes = 4_096
// One flush confirms them all: 1 MB, well below what the client may buffer.
const parcelsMax = 256
const flushMs = 5_000
// A forged message may be as large as the server allows; ours are not.
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
  const link = keepNatsConnected({ servers: options.servers, name, log, clock, random, onOpen })

  function onOpen(session: NatsSession): void {
    for (const ear of subscribers) subscribe(session, ear)
  }

  function subscribe(session: NatsSession, ear: Subscriber): void {
    ear.subscription = session.nats.subscribe(ear.pattern, {
      callback(error, message) {
        if (error !== null) return log.warn({ err: error, pattern: ear.pattern }, 'a subscription to chunks failed')
        const small = message.data.length <= parseMaxBytes
        const chunk = small ? readChunk(parseJson(Buffer.from(message.data).toString())) : undefined
        if (chunk !== undefined) hear(ear, chunk, message.subject)
      },
    })
  }

  function hear(ear: Subscriber, chunk: Chunk, subject: string): void {
    try {
      ear.onChunk(chunk, subject)
    } catch (error) {
      log.error({ err: error, pattern: ear.pattern }, 'a listener of chunks threw')
    }
  }

  const pile = openChunkBuffer({
    clock,
    log,
    waitMs,
    textMaxBytes,
    batchMax: parcelsMax,
    async send(parcels) {
      const session = link.current()
      if (session === undefined) return false
      for (const { subject, chunk } of parcels) {
        if (isSubject(subject)) session.nats.publish(subject, JSON.stringify(chunk))
      }
      // The next ones wait until the server has read these: a server that does not read fills no buffer.
      await session.flush(flushMs)
      return true
    },
  })

  return {
    kind: 'nats',
    send: (turn, piece) => pile.add(turn, piece),
    counts: () => pile.counts(),
    async listen(pattern, onChunk) {
      checkPattern(pattern)
      if (closed) throw new InvalidInput('these chunks are closed', { code: 'chunks_closed' })
      const ear: Subscriber = { pattern, onChunk }
      subscribers.add(ear)
      await link.settled()
      const session = link.current()
      if (session !== undefined) {
        if (ear.subscription === undefined || ear.subscription.isClosed()) subscribe(session, ear)
        await session.flush(flushMs).catch((error: unknown) => log.warn({ err: error }, 'NATS did not confirm in time'))
      }
      return {
        async stop() {
          subscribers.delete(ear)
          if (ear.subscription?.isClosed() === false) ear.subscription.unsubscribe()
        },
      }
    },
    async close() {
      closed = true
      await pile.close()
      subscribers.clear()
      await link.close()
    },
  }
}
