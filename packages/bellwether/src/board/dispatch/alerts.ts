/**
 * Alerts of the board and the PMO, and what needs a person: a log line, a counter and a message. Raising an alert never throws and never
 * waits. Messages are handed over one after the other, with the timeout and retries of external messages: with a database they
 * are stored there and the PMO sends them; without one they are sent at once. One that fails is logged and counted.
 */
import { type Clock, defined, type Log, type Random } from '@bellwether/base'
import { retryCall, type CallPolicy } from '../../ports/retry.js'
import { iso } from '../tasks/task-fields.js'

const alertKinds = [
  'replay_mismatch',
  'lock_contention',
  'stale_locks',
  'maintenance_failed',
  'approval',
  'review',
  'handoff',
  'person_reminder',
  'person_gave_up',
  'escalated',
  'turn_unknown',
  'no_worker',
] as const
type AlertKind = (typeof alertKinds)[number]

export interface Alert {
  readonly kind: AlertKind
  readonly text: string
  readonly taskId?: string
  readonly details?: Readonly<Record<string, unknown>>
  /** The same need has the same key: this process raises it once, and a database keeps one message per key. */
  readonly key?: string
}

/** What is handed over for the channels. */
interface AlertMessage extends Alert {
  /** The task root. */
  readonly root?: string
  readonly at: string
}

export interface Alerts {
  raise(alert: Alert): void
  /** By kind, and `unsent` for messages that could not be sent; for metrics. */
  readonly counts: ReadonlyMap<AlertKind | 'unsent', number>
  /** Counts a stored message that could not be sent later. */
  countUnsent(): void
  /** Resolves when every message so far was sent or dropped. */
  settled(): Promise<void>
}

export interface AlertOptions {
  /** The task root that messages name. */
  readonly root?: string
  readonly clock: Clock
  readonly random: Pick<Random, 'next'>
  readonly log: Log
  readonly calls: CallPolicy
  readonly signal?: AbortSignal
  /** Stores or sends a message. Absent: no channel is configured. */
  readonly send?: (message: AlertMessage, signal: AbortSignal) => Promise<void>
}

// Bounds the memory while messages cannot be handed over; the log has every alert, and the newest matter most.
const queueMax = 100
// More needs than people look at. A key that was forgotten is raised again, and the database keeps its one message.
const keysMax = 10_000

export function makeAlerts(options: AlertOptions): Alerts {
  const { clock, log, send } = options
  // Counts start at 0: a metric that first appears with its first alert shows no increase.
  const counts = new Map<AlertKind | 'unsent', number>([...alertKinds, 'unsent' as const].map((kind) => [kind, 0]))
  const count = (kind: AlertKind | 'unsent') => counts.set(kind, (counts.get(kind) ?? 0) + 1)
  const queue: AlertMessage[] = []
  const keys = new Set<string>()
  let sending: Promise<void> = Promise.resolve()
  let busy = false

  async function drain(post: NonNullable<AlertOptions['send']>): Promise<void> {
    while (queue.length > 0) {
      const message = queue.shift()!
      try {
        await retryCall(
          options.calls,
          { kind: 'external_message', name: 'sending an alert' },
          (signal) => post(message, signal),
          { clock, random: options.random, log, ...defined({ signal: options.signal }) },
        )
      } catch (error) {
        unsent(message)
        log.error({ err: error, alert: message }, 'cannot send an alert')
      }
    }
    busy = false
  }

  /** Its key may be raised again. */
  function unsent({ key }: AlertMessage): void {
    count('unsent')
    if (key !== undefined) keys.delete(key)
  }

  return {
    counts,
    raise(alert) {
      if (alert.key !== undefined) {
        if (keys.has(alert.key)) return
        keys.add(alert.key)
        if (keys.size > keysMax) keys.delete(keys.values().next().value!)
      }
      count(alert.kind)
      log.warn({ alert: alert.kind, taskId: alert.taskId, ...alert.details }, alert.text)
      if (send === undefined) return
      if (queue.length === queueMax) unsent(queue.shift()!)
      queue.push({ ...alert, ...defined({ root: options.root }), at: iso(clock.wallMs()) })
      if (busy) return
      busy = true
      sending = drain(send)
    },
    countUnsent: () => void count('unsent'),
    settled: () => sending,
  }
}
