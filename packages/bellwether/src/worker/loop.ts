/** Runs a worker: waits for the bell or the poll and steps, beats, and runs the watchdog. After its signal aborts, it drains and ends. */
import { onAbort, makeWake } from '@bellwether/base'
import { subjects } from '@bellwether/protocol'
import type { Bell } from '../ports/bell/bell.js'
import { signOut } from '../kernel/verbs/roster.js'
import { loop } from '../ports/loop.js'
import { openWatchdog, type WatchdogSettings } from './watchdog.js'
import type { WorkerOptions } from './scope.js'
import { openWorker, type Worker } from './worker.js'

export interface LoopSettings extends WatchdogSettings {
  readonly pollSeconds: number
  readonly beatSeconds: number
  readonly drainSeconds: number
}

// A head that another transaction has locked is free again within milliseconds; a shorter pause gains nothing.
const againMs = 5

export interface RunningWorker {
  readonly worker: Worker
  /** Resolves when the worker has drained after its signal aborted. `worker.running` then holds the turns it gave up. */
  readonly ended: Promise<void>
}

export async function runWorker(
  options: WorkerOptions & { readonly bell: Bell; readonly signal: AbortSignal; readonly loop: LoopSettings },
): Promise<RunningWorker> {
  const { bell, clock, log, signal, workerId, workerTarget, loop: settings } = options
  const worker = openWorker(options)
  const watchdog = openWatchdog({ ...options, worker, watchdog: settings })
  const wake = makeWake(clock)
  const listening = await bell.listen(subjects.anyWakeup(workerTarget), () => {
    worker.notice()
    wake.now()
  })
  const detach = options.kernel.attach(worker)

  async function claimAll(): Promise<void> {
    while (!signal.aborted) {
      await worker.room()
      const { started, again } = await worker.step()
      if (!again) return
      if (started === 0) await clock.sleep(againMs, signal)
    }
  }

  const common = { clock, log, signal }
  // Beats continue while the worker drains, so that no other worker reclaims a turn that still runs.
  const drained = new AbortController()
  const beating = loop(
    { ...common, name: 'beat', intervalMs: settings.beatSeconds * 1_000, signal: drained.signal },
    () => worker.beat(),
  )
  const loops = Promise.all([
    loop({ ...common, name: 'claim', intervalMs: settings.pollSeconds * 1_000 }, claimAll, wake),
    loop(
      { ...common, name: 'worker watchdog', steady: true, intervalMs: settings.watchdogIntervalSeconds * 1_000 },
      () => watchdog.step(),
    ),
  ])
  onAbort(signal, () => {
    detach()
    worker.stopClaiming()
  })
  return {
    worker,
    ended: loops.then(async () => {
      await listening.stop()
      await signOut(options.kernel.db, workerId).catch((error: unknown) =>
        log.warn({ err: error }, 'worker not signed out'),
      )
      await worker.drain(settings.drainSeconds * 1_000)
      drained.abort()
      await beating
    }),
  }
}
