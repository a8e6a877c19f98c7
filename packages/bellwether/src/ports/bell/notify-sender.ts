/**
 * Sends messages with pg_notify on its own connection. One round trip runs at a time, and one starts per interval; messages that arrive
 * until then wait in a bounded queue and go together, of those with the same key one. A message that was sent never replaces a later
 * one. Nothing throws. The bell encodes the messages.
 */
import { hasCode, type Clock, type Log, type Random } from '@bellwether/base'
import { keepConnected } from '../connections/connection-keeper.js'
import type { DedicatedClient } from '../connections/postgres.js'
import { openDedicatedClient } from '../connections/postgres.js'

// 5,000 distinct messages of about 300 bytes are 1.5 MB; the rest is dropped, and polling finds the work.
const waitingMax = 5_000
// The first message goes at once. Under load, a listening process is woken at most 200 times per second by each sender.
const intervalMs = 5

const severalText = "select pg_notify('bw', x) from unnest($1::text[]) x"

interface Message {
  /** Of the waiting messages with this key, one is sent. */
  readonly key: string
  readonly text: string
}

export interface Sender {
  /** Resolves after one try to send; at once if there is no connection (the messages then wait for one). */
  send(messages: readonly Message[]): Promise<void>
  /** Sends one message that is not a ring; true if the server accepted it. */
  sendProbe(message: string): Promise<boolean>
  settled(): Promise<void>
  drop(count: number): void
  counts(): { sent: number; coalesced: number; dropped: number; failed: number; trips: number; connected: boolean }
  close(): Promise<void>
}

/** The server does not know the statement, or another client's statement has its name. */
const isUnprepared = (error: unknown): boolean => hasCode(error, '26000', '42P05')

export function notifySender(options: { url: string; log: Log; clock: Clock; random: Random }): Sender {
  const { log, clock } = options
  const waiting = new Map<string, string>()
  const counts = { sent: 0, coalesced: 0, dropped: 0, failed: 0, trips: 0 }
  let running: Promise<void> | undefined
  let next: Promise<void> | undefined
  let closing = false
  let nextMs = 0
  // Parsing and planning take half of the server's CPU time for a ring. Undefined behind a pooler that drops prepared statements.
  let statementName: string | undefined = 'ring'

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
      // One message is the common case, and its statement has no set to expand.
      if (messages.length === 1) await client.query("select pg_notify('bw', $1)", [...messages], statementName)
      else await client.query(severalText, [messages], statementName && `${statementName}s`)
      counts.trips += 1
      return true
    } catch (error) {
      if (statementName !== undefined && isUnprepared(error)) {
        statementName = undefined
        return deliver(client, messages)
      }
      if (!closing) log.warn({ err: error, messages: messages.length }, 'rings lost while sending to PostgreSQL')
      return false
    }
  }

  async function empty(): Promise<void> {
    const client = keeper.current()
    if (client === undefined || waiting.size === 0) return
    const messages = [...waiting.values()]
    waiting.clear()
    if (await deliver(client, messages)) counts.sent += messages.length
    else counts.failed += messages.length
  }

  async function spaced(): Promise<void> {
    const waitMs = nextMs - clock.monotonicMs()
    if (waitMs > 0) await clock.sleep(waitMs)
    nextMs = clock.monotonicMs() + intervalMs
    await empty()
  }

  /** The round trip that sends everything that is waiting now. */
  function trip(): Promise<void> {
    const start = (): Promise<void> => {
      running = spaced().finally(() => {
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
      for (const { key, text } of messages) {
        if (waiting.has(key)) counts.coalesced += 1
        else if (waiting.size < waitingMax) waiting.set(key, text)
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
