/**
 * The verbs of the two watchdogs. They decide nothing about time here: `state.now()` is the clock, the settings are the
 * limits, and the watch says since when the caller has been watching without a gap (W2.10).
 */
import type { Queryable } from '../../../ports/database/database.js'
import type { Ids } from '../../../ports/ids.js'
import { call, type Verdict } from '../../verdict.js'
import type { Watch } from '../../watch-window.js'

// Keeps one verb under about 50 ms; the caller comes again while a sweep is full.
export const sweepMax = 500
// Looking at every active head costs more than ending some: one look ends this many, on heads that nobody else works on.
export const reapMax = 2_000

async function sweep(db: Queryable, verb: string, ...values: readonly unknown[]): Promise<Verdict[]> {
  const places = values.map((_, position) => `$${position + 1}`).join(', ')
  return db.query<Verdict>({ name: `bw_${verb}`, text: `select * from state.${verb}(${places})`, values })
}

export async function databaseNow(db: Queryable): Promise<Date> {
  const [row] = await db.query<{ now: Date }>({ name: 'bw_now', text: 'select state.now() as now' })
  if (row === undefined) throw new Error('the database does not know the time')
  return row.now
}

export interface ReapSettings {
  readonly dispatchedTimeoutSeconds: number
  readonly maxQueueSeconds: number
  readonly activeReapSeconds: number
  readonly suspendedReapSeconds: number
  readonly inboxProcessingTimeoutSeconds: number
  readonly maxAttempts: number
}

/** W2.2f, W2.5, W2.6, W2.9 and the last attempt of W2.1: ends what nobody else will. */
export async function reap(db: Queryable, ids: Ids, settings: ReapSettings, watch: Watch): Promise<Verdict[]> {
  return db.query<Verdict>({
    name: 'bw_reap',
    text: 'select * from state.reap($1::json, $2)',
    values: [
      JSON.stringify({
        dispatched_timeout_seconds: settings.dispatchedTimeoutSeconds,
        max_queue_seconds: settings.maxQueueSeconds,
        active_reap_seconds: settings.activeReapSeconds,
        suspended_reap_seconds: settings.suspendedReapSeconds,
        inbox_processing_timeout_seconds: settings.inboxProcessingTimeoutSeconds,
        max_attempts: settings.maxAttempts,
        watching_since: watch.since.toISOString(),
        valid_until: watch.validUntil.toISOString(),
      }),
      Array.from({ length: reapMax }, () => ids.next()),
    ],
  })
}

/** W2.4 */
export const retryDispatched = (db: Queryable, retrySeconds: number) =>
  sweep(db, 'retry_dispatched', retrySeconds, sweepMax)

/** W2.7 */
export const wakePending = (db: Queryable, wakeupSeconds: number, skipSeconds: number) =>
  sweep(db, 'wake_pending', wakeupSeconds, skipSeconds, sweepMax)

/** W2.8 */
export const sweepQueued = (db: Queryable, olderThanSeconds: number) =>
  sweep(db, 'sweep_queued', olderThanSeconds, sweepMax)

/** W2.1 */
export const reclaim = (db: Queryable, target: string, timeoutSeconds: number, maxAttempts: number, watch: Watch) =>
  sweep(db, 'reclaim', target, timeoutSeconds, maxAttempts, watch.since, watch.validUntil, sweepMax)

/** Hazard 11: commands that no tool host has started. */
export const resendCommands = (db: Queryable, target: string, olderThanSeconds: number) =>
  sweep(db, 'resend_commands', target, olderThanSeconds, sweepMax)

/** W2.2: one timeout report for each wait that is due. */
export async function expireWaits(db: Queryable, ids: Ids, target: string, watch: Watch): Promise<Verdict[]> {
  const due = await db.query<object>({
    name: 'bw_due_waits',
    text: 'select * from state.due_waits($1, $2, $3)',
    values: [target, watch.since, sweepMax],
  })
  if (due.length === 0) return []
  return call(
    db,
    'expire_waits',
    due.map((wait) => ({ ...wait, inbox_id: ids.next(), card_id: ids.next() })),
    watch.validUntil,
  )
}

/** W2.3a */
export async function requeueExpiredResumeLedgers(db: Queryable): Promise<number> {
  const [row] = await db.query<{ rows: number }>({
    name: 'bw_requeue_ledgers',
    text: 'select state.requeue_expired_resume_ledgers() as rows',
  })
  return row?.rows ?? 0
}

/** After the clock was set back: signs of life must not lie in the future. */
export async function forgetFuture(db: Queryable): Promise<void> {
  await db.query({ text: 'select state.forget_future()' })
}

/** Retention: removes finished rows older than `days`, a bounded number a call; answers how many went. */
export async function prune(db: Queryable, days: number): Promise<number> {
  const [row] = await db.query<{ rows: number }>({
    name: 'bw_prune',
    text: 'select state.prune($1, $2) as rows',
    values: [days, 2_000],
  })
  return row?.rows ?? 0
}
