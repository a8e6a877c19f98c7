/**
 * The worker's watchdog: W2.1–W2.3. It injects recovery messages, gives silent workers' rows back, and feeds turns whose
 * worker died between receipt and resume to this one. It never ends a turn and emits no task event (W2.2b).
 */
import { keepVigil } from '../kernel/vigil.js'
import { databaseNow, expireWaits, reclaim, requeueExpiredResumeLedgers, resendCommands } from '../kernel/watch.js'
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
      await db.query({
        name: 'bw_sign_in',
        text: 'select state.sign_in($1, $2, $3)',
        values: [workerId, workerTarget, options.settings.concurrency],
      })
      await kernel.ring(
        await reclaim(db, workerTarget, settings.inboxProcessingTimeoutSeconds, settings.maxAttempts, watch),
      )
      await kernel.ring(await expireWaits(db, ids, workerTarget, watch))
      await resendCommands(db, workerTarget, settings.watchdogIntervalSeconds)
      await requeueExpiredResumeLedgers(db)
      const max = options.settings.concurrency - worker.running.size
      if (max <= 0) return
      worker.start(
        await kernel.reconcile({ workerTarget, workerId, max, resumeLeaseSeconds: settings.resumeLeaseSeconds }),
      )
    },
  }
}
