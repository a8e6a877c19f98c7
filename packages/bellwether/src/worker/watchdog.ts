/**
 * The worker's watchdog: W2.1–W2.3. It injects recovery messages, gives silent workers' rows back, and feeds turns whose
 * worker died between receipt and resume to this one. It never ends a turn and emits no task event (W2.2b).
 */
import { keepVigil } from '../kernel/watch-window.js'
import {
  databaseNow,
  expireWaits,
  reclaim,
  requeueExpiredResumeLedgers,
  resendCommands,
} from '../kernel/verbs/watchdog/watchdog.js'
import type { WorkerOptions } from './scope.js'
import type { Worker } from './worker.js'

export interface WatchdogSettings {
  readonly watchdogIntervalSeconds: number
  readonly inboxProcessingTimeoutSeconds: number
  readonly maxAttempts: number
  readonly resumeLeaseSeconds: number
}

export interface Watchdog {
  step(): Promise<void>
}

export function openWatchdog(
  options: WorkerOptions & { readonly worker: Worker; readonly watchdog: WatchdogSettings },
): Watchdog {
  const { kernel, clock, workerId, workerTarget, worker, watchdog: settings } = options
  const { db, ids } = kernel
  const vigil = keepVigil(settings.watchdogIntervalSeconds)
  return {
    async step() {
      const watch = vigil.look(await databaseNow(db), clock.monotonicMs())
      const free = () => options.settings.concurrency - worker.running.size
      const rules = [
        () =>
          db.query({
            name: 'bw_sign_in',
            text: 'select state.sign_in($1, $2, $3, $4)',
            values: [workerId, workerTarget, options.settings.concurrency, free()],
          }),
        async () =>
          kernel.ring(
            await reclaim(db, workerTarget, settings.inboxProcessingTimeoutSeconds, settings.maxAttempts, watch),
          ),
        async () => kernel.ring(await expireWaits(db, ids, workerTarget, watch)),
        () => resendCommands(db, workerTarget, settings.watchdogIntervalSeconds),
        () => requeueExpiredResumeLedgers(db),
        async () => {
          const claimant = { workerTarget, workerId, max: free(), resumeLeaseSeconds: settings.resumeLeaseSeconds }
          if (claimant.max > 0) worker.start(await kernel.reconcile(claimant))
        },
      ]
      // One rule that fails is reported, and the others still run.
      const errors: unknown[] = []
      for (const rule of rules) {
        try {
          await rule()
        } catch (error) {
          errors.push(error)
        }
      }
      if (errors.length > 0) throw new AggregateError(errors, `${errors.length} of the watchdog's rules failed`)
    },
  }
}
