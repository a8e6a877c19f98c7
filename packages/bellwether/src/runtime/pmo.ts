/** `bellwether pmo`: stores the limits that the kernel's verbs read, then runs the guard, the relay, joins and retention. */
import { systemClock } from '@bellwether/base'
import { setLimits } from '../kernel/verbs/roster.js'
import { runPmo } from '../pmo/loop.js'
import { startProcessTelemetry } from './parts/telemetry.js'
import { type PartContext, type ProcessOptions, runProcess } from './process.js'

// The longest time a tool command waits for the relay. An idle poll costs one indexed read.
const relayPollMs = 100

export function runPmoProcess(options: ProcessOptions): Promise<number> {
  return runProcess(options, 'pmo', (context) => runPmoPart(context, options.onReady))
}

/** The PMO on an open runtime; resolves after the signal aborts. */
export async function runPmoPart(context: PartContext, onReady?: ProcessOptions['onReady']): Promise<number> {
  const { runtime, settings, log, signal } = context
  const { pmo, worker } = settings
  await setLimits(runtime.kernel.db, {
    turnDeadlineSeconds: pmo.turn_deadline_seconds,
    maxRecursionDepth: pmo.max_recursion_depth,
  })
  const running = runPmo({
    kernel: runtime.kernel,
    bell: runtime.bell,
    stream: runtime.stream(),
    clock: systemClock,
    log,
    signal,
    settings: {
      watchdogIntervalSeconds: pmo.watchdog_interval_seconds,
      dispatchedRetrySeconds: pmo.dispatched_retry_seconds,
      dispatchedTimeoutSeconds: pmo.dispatched_timeout_seconds,
      pendingWakeupSeconds: pmo.pending_wakeup_seconds,
      pendingWakeupSkipSeconds: pmo.pending_wakeup_skip_seconds,
      activeReapSeconds: pmo.active_reap_seconds,
      suspendedReapSeconds: pmo.suspended_reap_seconds,
      maxQueueSeconds: pmo.max_queue_seconds,
      inboxProcessingTimeoutSeconds: worker.inbox_processing_timeout_seconds,
      maxAttempts: worker.max_attempts,
      retentionDays: pmo.retention_days,
      relayPollMs,
    },
  })
  const telemetry = await startProcessTelemetry({ ...context, traces: true })
  onReady?.({ ready: true, role: 'pmo', bell: runtime.bell.kind, pid: process.pid })
  log.info({ bell: runtime.bell.kind }, 'PMO is ready')
  await running
  await telemetry.close()
  return 0
}
