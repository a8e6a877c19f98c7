/**
 * Alerts of the board and the PMO: a log line, a counter and a message to a webhook. Raising an alert never throws and never waits.
 * Messages are sent one after the other, with the timeout and retries of external messages; a message that cannot be sent is
 * logged and counted.
 */
import { type Clock, defined, type Log, type Random } from '@bellwether/base'
import { retryCall, type CallPolicy } from '../../ports/retry.js'
import type { PostJson } from '../../ports/webhook.js'
import { iso } from '../tasks/task-fields.js'

const alertKinds = [
  'replay_mismatch',
  'lock_contention',
  'stale_locks',
  'maintenance_failed',
  'person_reminder',
  'person_gave_up',
  'escalated',
  'turn_unknown',
  'no_worker',
] as const
export type AlertKind = (typeof alertKinds)[number]

export interface Alert {
  readonly kind: AlertKind
  readonly text: string
  readonly taskId?: string
  readonly details?: Readonly<Record<string, unknown>>
}

export interface Alerts {
  raise(alert: Alert): void
  /** By kind, and `unsent` for messages that could not be sent; for metrics. */
  readonly counts: ReadonlyMap<AlertKind | 'unsent', number>
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
  readonly webhook?: { readonly url: string; readonly post: PostJson }
}

// Bounds the memory while the webhook is down; the log has every alert, and the newest matter most.
const queueMax = 100

export function makeAlerts(options: AlertOptions): Alerts {
  const { clock, log, webhook } = options
  // Counts start at 0: a metric that first appears with its first alert shows no increase.
  const counts = new Map<AlertKind | 'unsent', number>([...alertKinds, 'unsent' as const].map((kind) => [kind, 0]))
  const count = (kind: AlertKind | 'unsent') => counts.set(kind, (counts.get(kind) ?? 0) + 1)
  const queue: object[] = []
  let sending: Promise<void> = Promise.resolve()
  let busy = false

  async function drain(url: string, post: PostJson): Promise<void> {
    for (let message = queue.shift(); message !== undefined; message = queue.shift()) {
      const body = message
      try {
        await retryCall(
          options.calls,
          { kind: 'external_message', name: 'calling the alert webhook' },
          (signal) => post(url, body, signal),
          { clock, random: options.random, log, ...defined({ signal: options.signal }) },
        )
      } catch (error) {
        count('unsent')
        log.error({ err: error, alert: body }, 'cannot send an alert')
      }
    }
    busy = false
  }

  return {
    counts,
    raise(alert) {
      count(alert.kind)
      log.warn({ alert: alert.kind, taskId: alert.taskId, ...alert.details }, alert.text)
      if (webhook === undefined) return
      if (queue.length === queueMax) {
        queue.shift()
        count('unsent')
      }
      queue.push({ ...alert, ...defined({ root: options.root }), at: iso(clock.wallMs()) })
      if (busy) return
      busy = true
      sending = drain(webhook.url, webhook.post)
    },
    settled: () => sending,
  }
}
