/**
 * Sends messages with pg_notify on its own connection. One round trip runs at a time; messages that arrive during it wait in
 * a bounded queue and go in the next one, identical messages once. Nothing throws. The bell encodes the messages.
 */
import type { Clock, Log, Random } from '@bellwether/base'
import { keepConnected } from '../connections/connection-keeper.js'
import type { DedicatedClient } from '../connections/postgres.js'
import { openDedicatedClient } from '../connections/postgres.js'

// 5,000 distinct messages of about 300 bytes are 1.5 MB; the rest is dropped, and polling finds the work.
const waitingMax = 5_000

export interface Sender {
  /** Resolves after one try to send; at once if there is no connection (the messages then wait for one). */
  send(messages: readonly string[]): Promise<void>
  /** Sends one message that is not a ring; true if the server accepted it. */
  sendProbe(message: string): Promise<boolean>
  settled(): Promise<void>
  drop(count: number): void
  counts(): { sent: number; dropped: number; failed: number; trips: number; connected: boolean }
  close(): Promise<void>
}

export function notifySender(options: { url: string; log: Log; clock: Clock; random: Random }): Sender {
  const { log } = options
  const waiting = new Set<string>()
  const counts = { sent: 0, dropped: 0, failed: 0, trips: 0 }
  let running: Promise<void> | undefined
  let next: Promise<void> | undefined
  let closing = false

  const keeper = keepConnected<DedicatedClient>({
    ...options,
    what: 'bell sender (PostgreSQL)',
    async open() {
      const client = await openDedicatedClient(options.url, 'bellwether bell sender')
      // A ring may be lost, so its commit need not wait for the disk.
      await client.query('set synchronous_commit = off')
      return client
    },
    onOpen: () => void trip(),
  })

  async function deliver(client: DedicatedClient, messages: readonly string[]): Promise<boolean> {
    try {
      await client.query("select pg_notify('bw', x) from unnest($1::text[]) x", [messages])
      counts.trips += 1
      return true
    } catch (error) {
      if (!closing) log.warn({ err: error, messages: messages.length }, 'rings lost while sending to PostgreSQL')
      return false
    }
  }

  async function empty(): Promise<void> {
    const client = keeper.current()
    if (client === undefined || waiting.size === 0) return
    const messages = [...waiting]
    waiting.clear()
    if (await deliver(client, messages)) counts.sent += messages.length
    else counts.failed += messages.length
  }

  /** The round trip that sends everything that is waiting now. */
  function trip(): Promise<void> {
    const start = (): Promise<void> => {
      running = empty().finally(() => {
        running = undefined
      })
      return running
    }
    if (running === undefined) return start()
    next ??= running.then(() => {
      next = undefined
      return start()
    })
    return next
  }

  return {
    async send(messages) {
      for (const message of messages) {
        if (waiting.size < waitingMax || waiting.has(message)) waiting.add(message)
        else counts.dropped += 1
      }
      if (keeper.current() !== undefined) await trip()
    },
    async sendProbe(message) {
      const client = keeper.current()
      return client !== undefined && (await deliver(client, [message]))
    },
    settled: () => keeper.settled(),
    drop(count) {
      counts.dropped += count
    },
    counts: () => ({ ...counts, connected: keeper.current() !== undefined }),
    async close() {
      if (keeper.current() !== undefined) await trip()
      closing = true
      await keeper.close()
    },
  }
}
