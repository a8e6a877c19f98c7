/** Maps the sections of the settings to the options of the worker, the PMO and the tool host. */
import type { KernelLimits } from '../../kernel/verbs/roster.js'
import type { PmoOptions } from '../../pmo/loop.js'
import type { Settings } from '../../settings/schema.js'
import type { LoopSettings } from '../../worker/loop.js'
import type { WorkerSettings } from '../../worker/scope.js'
import type { ToolHostSettings } from '../../worker/tools/host.js'

// Tools mostly wait for the network, so more of them than turns may run at the same time.
const toolConcurrencyMin = 32

export function workerSettings({ worker }: Settings, concurrency = worker.concurrency): WorkerSettings {
  return {
    concurrency,
    suspendTimeoutSeconds: worker.suspend_timeout_seconds,
    resumeLeaseSeconds: worker.resume_lease_seconds,
    inboxProcessingTimeoutSeconds: worker.inbox_processing_timeout_seconds,
    hydrateMaxBytes: worker.hydrate_max_bytes,
    parkAfterSeconds: worker.park_after_seconds,
    maxHoldSeconds: worker.max_hold_seconds,
  }
}

export function workerLoopSettings({ worker }: Settings): Omit<LoopSettings, 'drainSeconds'> {
  return {
    pollSeconds: worker.poll_seconds,
    beatSeconds: worker.beat_seconds,
    watchdogIntervalSeconds: worker.watchdog_interval_seconds,
    inboxProcessingTimeoutSeconds: worker.inbox_processing_timeout_seconds,
    maxDeaths: worker.max_deaths,
    resumeLeaseSeconds: worker.resume_lease_seconds,
  }
}

export function toolHostSettings({ worker }: Settings): ToolHostSettings {
  return {
    concurrency: Math.max(toolConcurrencyMin, worker.concurrency),
    pollSeconds: worker.poll_seconds,
    beatSeconds: worker.beat_seconds,
    silentSeconds: worker.inbox_processing_timeout_seconds,
  }
}

export function pmoSettings({ pmo, worker }: Settings): PmoOptions['settings'] {
  return {
    watchdogIntervalSeconds: pmo.watchdog_interval_seconds,
    dispatchedRetrySeconds: pmo.dispatched_retry_seconds,
    dispatchedTimeoutSeconds: pmo.dispatched_timeout_seconds,
    pendingWakeupSeconds: pmo.pending_wakeup_seconds,
    pendingWakeupSkipSeconds: pmo.pending_wakeup_skip_seconds,
    activeReapSeconds: pmo.active_reap_seconds,
    suspendedReapSeconds: pmo.suspended_reap_seconds,
    maxQueueSeconds: pmo.max_queue_seconds,
    inboxProcessingTimeoutSeconds: worker.inbox_processing_timeout_seconds,
    maxDeaths: worker.max_deaths,
    retentionDays: pmo.retention_days,
    trendRetentionDays: pmo.trend_retention_days,
    relayPollMs: pmo.relay_poll_seconds * 1_000,
  }
}

/** The limits that the PMO stores in the database, where the kernel's verbs read them. */
export function kernelLimits({ pmo }: Settings): KernelLimits {
  return { turnDeadlineSeconds: pmo.turn_deadline_seconds, maxRecursionDepth: pmo.max_recursion_depth }
}
