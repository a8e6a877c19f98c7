/**
 * The worker's watchdog: W2.1–W2.3. It returns the turns of silent workers to pending, writes timeout receipts, and gives this worker the
 * turns whose worker died between receipt and resume. It never ends a turn and emits no task event (W2.2b).
 */
import { signIn } from '../kernel/verbs/roster.js'
import { requeueExpiredResumeLedgers } from '../kernel/verbs/watchdog/watchdog.js'
import { targetRules, watchdogStep, type TargetSettings } from '../kernel/watchdog.js'
import { gapIntervals } from '../kernel/watch-window.js'
import type { WorkerOptions } from './scope.js'
import type { Worker } from './worker.js'

export interface WatchdogSettings extends TargetSettings {
  readonly resumeLeaseSeconds: number
}

export interface Watchdog {
  step(): Promise<unknown>
}

export function openWatchdog(
  options: WorkerOptions & { readonly worker: Worker; readonly watchdog: WatchdogSettings },
): Watchdog {
  const { kernel, clock, workerId, workerTarget, worker, watchdog: settings } = options
  const { db } = kernel
  const { concurrency } = options.settings
  const gapSeconds = gapIntervals * settings.watchdogIntervalSeconds
  let watchingSinceMs: number | undefined

  async function reconcile(): Promise<void> {
    const claimant = { workerTarget, workerId, max: worker.free(), resumeLeaseSeconds: settings.resumeLeaseSeconds }
    if (claimant.max > 0) worker.start(await kernel.reconcile(claimant))
  }

  /** A rule without verdicts to ring for. */
  const silent = (act: () => Promise<unknown>) => ({
    run: async () => {
      await act()
      return []
    },
  })

  const step = watchdogStep({
    kernel,
    clock,
    intervalSeconds: settings.watchdogIntervalSeconds,
    rules: (watch) => {
      // A worker whose watch window has just begun cannot take turns over yet, even if it beats: the PMO gives it a full timeout.
      const isNew = watch.since.getTime() !== watchingSinceMs
      watchingSinceMs = watch.since.getTime()
      return [
        silent(() => signIn(db, workerId, workerTarget, concurrency, worker.free(), isNew ? 0 : gapSeconds)),
        ...targetRules(kernel, workerTarget, settings, watch),
        silent(() => requeueExpiredResumeLedgers(db)),
        silent(reconcile),
      ]
    },
  })
  return { step }
}
