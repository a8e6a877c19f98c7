/**
 * Sends letters with pg_notify, on a connection of its own. Always: one round trip at a time; what arrives meanwhile
 * waits and goes together in the next one, identical letters once; the waiting room is bounded; nothing throws. What a
 * letter says is left to the bell.
 */
import type { Clock, Log, Random } from '@bellwether/base'
import { keepConnected } from '../connections/connection-keeper.js'
import type { DedicatedClient } from '../connections/postgres.js'
import { openDedicatedClient } from '../connections/postgres.js'

// 5,000 distinct wakeups of some 300 bytes are 1.5 MB; whoever is behind by more than that is reached by polling.
const waitingMax = 5_000

export interface Sender {
  /** Resolves when the letters have been tried; at once when there is no connection (they then wait for one). */
  send(messages: readonly string[]): Promise<void>
  /** Sends one letter that is no ring; true when it was handed to the server. */
  sendProbe(letter: string): Promise<boolean>
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

  const link = keepConnected<DedicatedClient>({
    ...options,
    what: 'bell sender (PostgreSQL)',
    async open() {
      const client = await openDedicatedClient(options.url, 'bellwether bell sender')
      // A ring only wakes and may be lost: it need not wait for the disk, nor make others wait for it.
      await client.query('set synchronous_commit = off')
      return client
    },
    onOpen: () => void trip(),
  })

  async function deliver(client: DedicatedClient, letters: readonly string[]): Promise<boolean> {
    try {
      await client.query("select pg_notify('bw', x) from unnest($1::text[]) x", [letters])
      counts.trips += 1
      return true
    } catch (error) {
      if (!closing) log.warn({ err: error, letters: letters.length }, 'rings were lost on their way to PostgreSQL')
      return false
    }
  }

  async function empty(): Promise<void> {
    const client = link.current()
    if (client === undefined || waiting.size === 0) return
    const letters = [...waiting]
    waiting.clear()
    if (await deliver(client, letters)) counts.sent += letters.length
    else counts.failed += letters.length
  }

  /** The next round trip that will carry everything waiting now. */
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
    async send(letters) {
      for (const letter of letters) {
        if (waiting.size < waitingMax || waiting.has(letter)) waiting.add(letter)
        else counts.dropped += 1
      }
      if (link.current() !== undefined) await trip()
    },
    async sendProbe(letter) {
      const client = link.current()
      return client !== undefined && (await deliver(client, [letter]))
    },
    settled: () => link.settled(),
    drop(count) {
      counts.dropped += count
    },
    counts: () => ({ ...counts, connected: link.current() !== undefined }),
    async close() {
      if (link.current() !== undefined) await trip()
      closing = true
      await link.close()
    },
  }
}
