/**
 * Chunks on PostgreSQL notify, for a house without NATS: on a channel of their own, so that only who listens pays for them, and slow
 * by intent: every notification is a transaction of the one database that everything depends on. Always: at most 80 letters of
 * 6 kB a second from one process, however much is said; the rest is dropped and counted.
 */
import { type Clock, type Log, type Random, systemClock, systemRandom } from '@bellwether/base'
import { InvalidInput, matches } from '@bellwether/protocol'
import { checkPattern, isSubject, messageMaxBytes, parseJson, payloadFrom } from '../bell/ring.js'
import { keepConnected, type ConnectionKeeper } from '../connections/connection-keeper.js'
import { openDedicatedClient, type DedicatedClient } from '../connections/postgres.js'
import { readChunk, type Chunk, type Chunks } from './chunks.js'
import { openChunkBuffer } from './chunk-buffer.js'

export interface NotifyChunksOptions {
  readonly url: string
  /** Used for LISTEN; must lead to the server itself. Absent: `url`. */
  readonly directUrl?: string
  readonly log: Log
  readonly clock?: Clock
  readonly random?: Random
}

const channel = 'bw_chunk'
const waitMs = 250
// With its subject and ids a letter stays below the 8,000 bytes that a notification may have.
const textMaxBytes = 6_000
const parcelsMax = 20

interface Ear {
  readonly pattern: string
  readonly onChunk: (chunk: Chunk, subject: string) => void
}

export function notifyChunks(options: NotifyChunksOptions): Chunks {
  const { log, clock = systemClock, random = systemRandom } = options
  const ears = new Set<Ear>()
  let closed = false
  let sender: ConnectionKeeper<DedicatedClient> | undefined
  let listener: ConnectionKeeper<DedicatedClient> | undefined

  /** Opened by the first who needs it: a worker that only talks has one connection, and one that is silent none. */
  const openLink = (what: string, url: string, prepare: (client: DedicatedClient) => Promise<void>) =>
    keepConnected<DedicatedClient>({
      what,
      log,
      clock,
      random,
      async open() {
        const client = await openDedicatedClient(url, 'bellwether chunks')
        try {
          await prepare(client)
        } catch (error) {
          await client.close()
          throw error
        }
        return client
      },
    })

  function hear(letter: string): void {
    const { s: subject, c } = payloadFrom(parseJson(letter))
    const chunk = readChunk(c)
    if (typeof subject !== 'string' || chunk === undefined) return
    for (const ear of ears) {
      if (!matches(ear.pattern, subject)) continue
      try {
        ear.onChunk(chunk, subject)
      } catch (error) {
        log.error({ err: error, pattern: ear.pattern }, 'a listener of chunks threw')
      }
    }
  }

  const pile = openChunkBuffer({
    clock,
    log,
    waitMs,
    textMaxBytes,
    batchMax: parcelsMax,
    async send(parcels) {
      // They may be lost: they need not wait for the disk, nor make others wait for it.
      sender ??= openLink('chunks (PostgreSQL)', options.url, (one) => one.query('set synchronous_commit = off'))
      await sender.settled()
      const client = sender.current()
      if (client === undefined) return false
      const letters = parcels
        .filter(({ subject }) => isSubject(subject))
        .map(({ subject, chunk }) => JSON.stringify({ s: subject, c: chunk }))
        .filter((letter) => Buffer.byteLength(letter) <= messageMaxBytes)
      await client.query(`select pg_notify('${channel}', x) from unnest($1::text[]) x`, [letters])
      return true
    },
  })

  return {
    kind: 'notify',
    send: (turn, piece) => pile.add(turn, piece),
    counts: () => pile.counts(),
    async listen(pattern, onChunk) {
      checkPattern(pattern)
      if (closed) throw new InvalidInput('these chunks are closed', { code: 'chunks_closed' })
      const ear = { pattern, onChunk }
      ears.add(ear)
      listener ??= openLink('listener of chunks (PostgreSQL)', options.directUrl ?? options.url, async (client) => {
        client.onNotification(hear)
        await client.query(`listen ${channel}`)
      })
      await listener.settled()
      return {
        async stop() {
          ears.delete(ear)
        },
      }
    },
    async close() {
      closed = true
      await pile.close()
      ears.clear()
      await Promise.all([sender?.close(), listener?.close()])
    },
  }
}
