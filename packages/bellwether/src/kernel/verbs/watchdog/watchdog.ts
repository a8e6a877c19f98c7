/**
 * The verbs of the watchdogs. `state.now()` is their clock, the settings are their limits, and the watch says since when the caller has
 * been watching without a gap (W2.10).
 */
import type { Queryable } from '../../../ports/database/database.js'
import type { Ids } from '../../../ports/ids.js'
import { call, callWith, type EndingVerdict, type Verdict } from '../../verdict.js'
import type { Watch } from '../../watch-window.js'
import type { ReportVerdict } from '../tools/report.js'

// Keeps one verb under about 50 ms; the caller repeats it while a sweep is full.
export const sweepMax = 500
// Scanning every active head costs more than ending some of them: one scan ends up to this many turns.
export const reapMax = 2_000

// Longer than the pauses of a busy agent, so that its head is not written twice per turn.
const idleSeconds = 60

export type GuardVerdict = EndingVerdict | Verdict<'retried' | 'woken' | 'skipped'> | ReportVerdict

export interface ReapSettings {
  readonly dispatchedRetrySeconds: number
  readonly dispatchedTimeoutSeconds: number
  readonly maxQueueSeconds: number
  readonly activeReapSeconds: number
  readonly suspendedReapSeconds: number
  readonly inboxProcessingTimeoutSeconds: number
  readonly maxDeaths: number
}

interface Looked {
  /** Whether a turn has been dispatched for `dispatchedRetrySeconds`: then `retryDispatched` has work. */
  readonly unstarted: boolean
  /** Whether an agent has been idle for a while: then `markIdleAgents` has work. */
  readonly idle: boolean
}

export interface Reaped extends Looked {
  readonly verdicts: readonly EndingVerdict[]
}

/**
 * W2.2f, W2.5, W2.6, W2.9 and the last death of W2.1: ends the turns that no worker will end. The look at all heads also tells which other
 * rules have work.
 */
export async function reap(db: Queryable, ids: Ids, settings: ReapSettings, watch: Watch): Promise<Reaped> {
  const [first, ...verdicts] = await db.query<EndingVerdict | Verdict<'looked', Looked>>({
    name: 'bw_reap',
    text: 'select * from state.reap($1::json, $2)',
    values: [
      JSON.stringify({
        dispatched_timeout_seconds: settings.dispatchedTimeoutSeconds,
        max_queue_seconds: settings.maxQueueSeconds,
        active_reap_seconds: settings.activeReapSeconds,
        suspended_reap_seconds: settings.suspendedReapSeconds,
        inbox_processing_timeout_seconds: settings.inboxProcessingTimeoutSeconds,
        dispatched_retry_seconds: settings.dispatchedRetrySeconds,
        idle_seconds: idleSeconds,
        max_deaths: settings.maxDeaths,
        watching_since: watch.since.toISOString(),
        valid_until: watch.validUntil.toISOString(),
      }),
      Array.from({ length: reapMax }, () => ids.next()),
    ],
  })
  // A call that arrives too late does not look.
  const looked = first?.what === 'looked' ? first.detail : { unstarted: true, idle: true }
  return { ...looked, verdicts: verdicts as EndingVerdict[] }
}

// A worker learns at once that its turn crossed the budget, and has this long to end the turn with the results so far.
const budgetGraceSeconds = 10

/** H7.5: ends turns that crossed their budget and whose worker did not end them. */
export const endOverBudget = (db: Queryable, ids: Ids, watch: Watch) =>
  callWith<EndingVerdict>(
    db,
    'end_over_budget',
    budgetGraceSeconds,
    watch.since,
    watch.validUntil,
    Array.from({ length: sweepMax }, () => ids.next()),
  )

/** W2.4 */
export const retryDispatched = (db: Queryable, retrySeconds: number) =>
  callWith<Verdict<'retried'>>(db, 'retry_dispatched', retrySeconds, sweepMax)

/** W2.7 */
export const wakePending = (db: Queryable, wakeupSeconds: number, skipSeconds: number) =>
  callWith<Verdict<'woken' | 'skipped'>>(db, 'wake_pending', wakeupSeconds, skipSeconds, sweepMax)

/** W2.8 */
export const sweepQueued = (db: Queryable, olderThanSeconds: number) =>
  callWith<Verdict<'leased'>>(db, 'sweep_queued', olderThanSeconds, sweepMax)

/** W2.1 */
export const reclaim = (db: Queryable, target: string, timeoutSeconds: number, maxDeaths: number, watch: Watch) =>
  callWith<Verdict<'reclaimed' | 'refused'>>(
    db,
    'reclaim',
    target,
    timeoutSeconds,
    maxDeaths,
    watch.since,
    watch.validUntil,
    sweepMax,
  )

/** Hazard 11: resends commands that no tool host has started. */
export const resendCommands = (db: Queryable, target: string, olderThanSeconds: number) =>
  callWith<Verdict<'resent'>>(db, 'resend_commands', target, olderThanSeconds, sweepMax)

/** W2.2: writes one timeout receipt for each wait that is due. */
export async function expireWaits(db: Queryable, ids: Ids, target: string, watch: Watch): Promise<ReportVerdict[]> {
  const due = await callWith<object>(db, 'due_waits', target, watch.since, sweepMax)
  if (due.length === 0) return []
  return call(
    db,
    'expire_waits',
    due.map((wait) => ({ ...wait, inbox_id: ids.next(), card_id: ids.next() })),
    watch.validUntil,
  )
}

/** W2.3a: returns the number of ledger rows that are pending again. */
export async function requeueExpiredResumeLedgers(db: Queryable): Promise<number> {
  const [row] = await db.query<{ rows: number }>({
    name: 'bw_requeue_ledgers',
    text: 'select state.requeue_expired_resume_ledgers() as rows',
  })
  return row?.rows ?? 0
}

// Idle agents cost sweeps little, so a fleet that becomes idle at once may be marked in several steps.
const idleMax = 5_000

/** Marks agents that have been idle for a while as not awake, so that sweeps no longer read their heads. */
export async function markIdleAgents(db: Queryable): Promise<void> {
  await db.query({
    name: 'bw_mark_idle_agents',
    text: 'select state.mark_idle_agents($1, $2)',
    values: [idleSeconds, idleMax],
  })
}

/** Resets signs of life that lie in the future because the clock was set back. */
export async function resetFutureTimes(db: Queryable): Promise<void> {
  await db.query({ text: 'select state.reset_future_times()' })
}

const pruneMax = 2_000

/** Retention: removes finished rows older than `days`, a bounded number per call, and returns how many it removed. */
export async function prune(db: Queryable, days: number): Promise<number> {
  const [row] = await db.query<{ rows: number }>({
    name: 'bw_prune',
    text: 'select state.prune($1, $2) as rows',
    values: [days, pruneMax],
  })
  return row?.rows ?? 0
}
