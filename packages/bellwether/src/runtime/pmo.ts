/** The PMO on an open house: the limits that the verbs read are set, then its loops run until they are told to stop. */
import { type Log, systemClock } from '@bellwether/base'
import { setLimits } from '../kernel/verbs/roster.js'
import { runPmo } from '../pmo/loop.js'
import type { Settings } from '../settings/schema.js'
import type { House } from './runtime.js'
import { startHouseTelemetry } from './telemetry.js'

export interface PmoPartOptions {
  readonly house: House
  readonly settings: Settings
  readonly log: Log
  readonly signal: AbortSignal
  readonly env: Readonly<Record<string, string | undefined>>
  readonly onReady?: (facts: Readonly<Record<string, unknown>>) => void
}

// A tool command waits this long for the relay at worst; an idle look costs one indexed read.
const relayPollMs = 100

export async function runPmoPart({ house, settings, log, signal, env, onReady }: PmoPartOptions): Promise<number> {
  const { pmo, worker } = settings
  await setLimits(house.kernel.db, {
    turnDeadlineSeconds: pmo.turn_deadline_seconds,
    maxRecursionDepth: pmo.max_recursion_depth,
  })
  const running = runPmo({
    kernel: house.kernel,
    bell: house.bell,
    stream: house.stream(),
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
  const telemetry = await startHouseTelemetry({ house, settings, log, signal, traces: true, env })
  onReady?.({ ready: true, role: 'pmo', bell: house.bell.kind, pid: process.pid })
  log.info({ bell: house.bell.kind }, 'the PMO is ready')
  await running
  await telemetry.close()
  return 0
}
