/**
 * Sends chunks on PostgreSQL notify, for an installation without NATS. A separate channel spares other listeners. The rate is
 * low on purpose, because every notification is a transaction in the one database: a process sends at most 80 messages of
 * 6 kB per second; the rest is dropped and counted.
 */
import { type Clock, type Log, objectOf, parseJson, type Random, systemClock, systemRandom } from '@bellwether/base'
import { matches } from '@bellwether/protocol'
import { isSubject, messageMaxBytes } from '../bell/ring.js'
import { keepConnected, type ConnectionKeeper } from '../connections/connection-keeper.js'
import { openDedicatedClient, type DedicatedClient } from '../connections/postgres.js'
import { openChunkStream, type Subscriber } from './chunk-stream.js'
import { readChunk, type Chunks } from './chunks.js'

export interface NotifyChunksOptions {
  readonly url: string
  /** For LISTEN; must lead to the server itself. Default: `url`. */
  readonly directUrl?: string
  readonly log: Log
  readonly clock?: Clock
  readonly random?: Random
}

const channel = 'bw_chunk'
const waitMs = 250
// With subject and ids a message stays below PostgreSQL's limit of 8,000 bytes.
const textMaxBytes = 6_000
const batchMax = 20

export function notifyChunks(options: NotifyChunksOptions): Chunks {
  const { log, clock = systemClock, random = systemRandom } = options
  const subscribers = new Set<Subscriber>()
  let sender: ConnectionKeeper<DedicatedClient> | undefined
  let listener: ConnectionKeeper<DedicatedClient> | undefined

  /** Called on first use: a worker that only sends has one connection, and one that does neither has none. */
  const connect = (what: string, url: string, prepare: (client: DedicatedClient) => Promise<void>) =>
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

  function receive(message: string): void {
    const { s: subject, c } = objectOf(parseJson(message))
    const chunk = readChunk(c)
    if (typeof subject !== 'string' || chunk === undefined) return
    for (const { pattern, onChunk } of subscribers) if (matches(pattern, subject)) onChunk(chunk, subject)
  }

  return openChunkStream({
    kind: 'notify',
    subscribers,
    clock,
    log,
    waitMs,
    textMaxBytes,
    batchMax,
    async send(chunks) {
      // A chunk may be lost, so its commit need not wait for the disk.
      sender ??= connect('chunks (PostgreSQL)', options.url, (one) => one.query('set synchronous_commit = off'))
      await sender.settled()
      const client = sender.current()
      if (client === undefined) return false
      const messages = chunks
        .filter(({ subject }) => isSubject(subject))
        .map(({ subject, chunk }) => JSON.stringify({ s: subject, c: chunk }))
        .filter((message) => Buffer.byteLength(message) <= messageMaxBytes)
      await client.query(`select pg_notify('${channel}', x) from unnest($1::text[]) x`, [messages])
      return true
    },
    async start() {
      listener ??= connect('chunk listener (PostgreSQL)', options.directUrl ?? options.url, async (client) => {
        client.onNotification(receive)
        await client.query(`listen ${channel}`)
      })
      await listener.settled()
    },
    disconnect: () => Promise.all([sender?.close(), listener?.close()]),
  })
}
