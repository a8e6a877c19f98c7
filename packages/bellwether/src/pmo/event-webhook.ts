/**
 * Posts the events of the outbox to a webhook, in cursor order, one page per request. One PMO sends at a time: it renews its lease before each
 * request. The position moves after the receiver accepted a page, so a page may be sent twice but none is skipped. A page that the
 * receiver rejects is sent again until it is accepted or retention removes its events.
 */
import type { Clock, Log, Random } from '@bellwether/base'
import { Terminal } from '@bellwether/protocol'
import type { EventWebhookBody } from '@bellwether/protocol/http'
import {
  leaseReader,
  moveCursor,
  oldestCursor,
  openCursor,
  readEvents,
  type OutboxEvent,
} from '../kernel/verbs/events.js'
import type { Queryable } from '../ports/database/database.js'
import { defaultCallPolicy, retryCall } from '../ports/retry.js'
import type { PostJson } from '../ports/webhook.js'

export interface EventWebhookOptions {
  readonly db: Queryable
  readonly url: string
  readonly post: PostJson
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  readonly signal: AbortSignal
}

export interface EventWebhook {
  /** Sends everything that is readable, unless another PMO is the sender. Returns the number of events that it sent. */
  step(): Promise<number>
}

const name = 'webhook'
// A page is one request: few enough for a small receiver, enough for a busy fleet.
const pageMax = 100
// Longer than a request may take. After the death of a sender, the next one waits for as long.
const leaseSeconds = 15
// The loop retries; it also lets another PMO try.
const calls = { ...defaultCallPolicy, retry: { ...defaultCallPolicy.retry, maxAttempts: 1 } }
// Fits a bigint and a JavaScript number.
const holderMax = 281_474_976_710_656

/** A new webhook begins with the events after this call. */
export async function openEventWebhook({ db, url, post, ...ports }: EventWebhookOptions): Promise<EventWebhook> {
  const holder = Math.floor(ports.random.next() * holderMax)
  /** The last known position; another PMO may have moved it. */
  let cursor: string | undefined = await openCursor(db, name)

  /** The events after a position, and the position after them. */
  async function readPage(from: string): Promise<{ readonly events: readonly OutboxEvent[]; readonly to: string }> {
    try {
      const events = await readEvents(db, from, pageMax)
      return { events, to: events.at(-1)?.cursor ?? from }
    } catch (error) {
      if (!(error instanceof Terminal && error.code === 'cursor_reset')) throw error
      ports.log.error({ err: error, cursor: from }, 'events were removed by retention before the webhook got them')
      return { events: [], to: await oldestCursor(db) }
    }
  }

  async function send(page: readonly OutboxEvent[]): Promise<number> {
    const events = page.filter(({ kind }) => kind !== 'command')
    if (events.length === 0) return 0
    const body: EventWebhookBody = { events }
    const call = { kind: 'external_message', name: 'calling the event webhook' } as const
    await retryCall(calls, call, (signal) => post(url, body, signal), ports)
    return events.length
  }

  return {
    async step() {
      for (let sent = 0; ;) {
        cursor ??= await openCursor(db, name)
        // Without new events nothing is leased.
        if ((await readPage(cursor)).to === cursor) return sent
        cursor = undefined
        if (!(await leaseReader(db, name, holder, leaseSeconds))) return sent
        const from = await openCursor(db, name)
        const { events, to } = await readPage(from)
        sent += await send(events)
        await moveCursor(db, name, from, to)
      }
    },
  }
}
