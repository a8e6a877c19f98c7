/**
 * The PMO's watchdog: W2.2f, W2.4–W2.10 and H7.5. One step looks at everything once. Several PMOs may step at the same time: the
 * verbs skip what another one holds, and every ending is fenced. Rules do not depend on each other: one that fails is
 * reported and the others still run.
 */
import type { Clock } from '@bellwether/base'
import { endOverBudget } from '../kernel/verbs/budgets/budgets.js'
import type { Kernel } from '../kernel/kernel.js'
import type { Verdict } from '../kernel/verdict.js'
import { keepVigil } from '../kernel/watch-window.js'
import {
  databaseNow,
  forgetFuture,
  reap,
  reapMax,
  retryDispatched,
  sweepMax,
  sweepQueued,
  wakePending,
  type ReapSettings,
} from '../kernel/verbs/watchdog/watchdog.js'

export interface GuardSettings extends ReapSettings {
  readonly watchdogIntervalSeconds: number
  readonly dispatchedRetrySeconds: number
  readonly pendingWakeupSeconds: number
  readonly pendingWakeupSkipSeconds: number
}

export interface Guard {
  /** One look at everything; answers what was done. */
  step(): Promise<readonly Verdict[]>
}

// A rule that is still full after this many rounds goes on at the next step: one rule must not starve the others.
const roundsMax = 20

export function openGuard({
  kernel,
  clock,
  settings,
}: {
  kernel: Kernel
  clock: Clock
  settings: GuardSettings
}): Guard {
  const { db, ids } = kernel
  const vigil = keepVigil(settings.watchdogIntervalSeconds)
  // The clock may have been set back before we began to watch; and a check that failed is still to be done.
  let futureUnchecked = true

  async function mendClock(): Promise<Verdict[]> {
    if (futureUnchecked) await forgetFuture(db)
    futureUnchecked = false
    return []
  }

  return {
    async step() {
      const watch = vigil.look(await databaseNow(db), clock.monotonicMs())
      futureUnchecked ||= watch.setBack
      const done: Verdict[] = []
      const errors: unknown[] = []
      // Only endings and leases use themselves up and are repeated while full; announcing the same rows twice helps nobody.
      const rules: readonly Rule[] = [
        { run: mendClock },
        // Right after the look: its judgement is valid for a short while only.
        { run: () => reap(db, ids, settings, watch), fullAt: reapMax },
        { run: () => endOverBudget(db, ids, watch), fullAt: sweepMax },
        { run: () => sweepQueued(db, settings.watchdogIntervalSeconds), fullAt: sweepMax },
        { run: () => retryDispatched(db, settings.dispatchedRetrySeconds) },
        { run: () => wakePending(db, settings.pendingWakeupSeconds, settings.pendingWakeupSkipSeconds) },
      ]
      for (const rule of rules) {
        try {
          done.push(...(await carryOut(rule)))
        } catch (error) {
          errors.push(error)
        }
      }
      await kernel.ring(done)
      if (errors.length > 0) throw new AggregateError(errors, `${errors.length} of the watchdog's rules failed`)
      return done
    },
  }
}

interface Rule {
  readonly run: () => Promise<Verdict[]>
  /** Answers with this many are followed by another call; absent: one call a step. */
  readonly fullAt?: number
}

async function carryOut({ run, fullAt = Infinity }: Rule): Promise<Verdict[]> {
  const all: Verdict[] = []
  for (let round = 0; round < roundsMax; round += 1) {
    const verdicts = await run()
    all.push(...verdicts)
    if (verdicts.length < fullAt) break
  }
  return all
}
