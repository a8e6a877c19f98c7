/**
 * The PMO's watchdog: W2.2f, W2.4–W2.10 and H7.5. One step applies every rule once. Several PMOs may step at the same time: the verbs skip
 * rows that another PMO has locked, and every ending is fenced.
 */
import type { Clock } from '@bellwether/base'
import type { Kernel } from '../kernel/kernel.js'
import { releaseMax, releaseParked } from '../kernel/verbs/accounts/accounts.js'
import { expireApprovals, expireMax } from '../kernel/verbs/approvals/approvals.js'
import {
  endOverBudget,
  reap,
  reapMax,
  resetFutureTimes,
  markIdleAgents,
  retryDispatched,
  sweepMax,
  sweepQueued,
  wakePending,
  type GuardVerdict,
  type ReapSettings,
} from '../kernel/verbs/watchdog/watchdog.js'
import { watchdogStep } from '../kernel/watchdog.js'

export interface GuardSettings extends ReapSettings {
  readonly watchdogIntervalSeconds: number
  readonly pendingWakeupSeconds: number
  readonly pendingWakeupSkipSeconds: number
}

export interface Guard {
  /** Applies every rule once and returns the verdicts. */
  step(): Promise<readonly GuardVerdict[]>
}

export interface GuardOptions {
  readonly kernel: Kernel
  readonly clock: Clock
  readonly settings: GuardSettings
}

export function openGuard({ kernel, clock, settings }: GuardOptions): Guard {
  const { db, ids } = kernel
  // True at the start, because the clock may have been set back before; stays true while the check fails.
  let futureUnchecked = true

  async function checkFuture(): Promise<[]> {
    if (futureUnchecked) await resetFutureTimes(db)
    futureUnchecked = false
    return []
  }

  async function markIdle(): Promise<[]> {
    await markIdleAgents(db)
    return []
  }

  const none = async (): Promise<[]> => []

  const step = watchdogStep<GuardVerdict>({
    kernel,
    clock,
    intervalSeconds: settings.watchdogIntervalSeconds,
    rules: (watch) => {
      futureUnchecked ||= watch.clockSetBack
      // One rule looks at all heads for the others. If it fails, each of them looks itself.
      let looked = { unstarted: true, idle: true }
      const reapAll = async () => {
        const { verdicts, ...seen } = await reap(db, ids, settings, watch)
        looked = seen
        return verdicts
      }
      // Rules that end or lease turns use up their rows and repeat while full; repeating an announcement would change nothing.
      return [
        { run: checkFuture },
        // Early in the step, because the watch is valid for a short time only.
        { run: reapAll, fullAt: reapMax },
        { run: () => expireApprovals(db, ids), fullAt: expireMax },
        { run: () => endOverBudget(db, ids, watch), fullAt: sweepMax },
        { run: () => releaseParked(db, ids), fullAt: releaseMax },
        { run: () => sweepQueued(db, settings.watchdogIntervalSeconds), fullAt: sweepMax },
        { run: () => (looked.unstarted ? retryDispatched(db, settings.dispatchedRetrySeconds) : none()) },
        { run: () => wakePending(db, settings.pendingWakeupSeconds, settings.pendingWakeupSkipSeconds) },
        { run: () => (looked.idle ? markIdle() : none()) },
      ]
    },
  })
  return { step }
}
