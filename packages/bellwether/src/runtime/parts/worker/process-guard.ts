/** The guardian of a worker process, with the times and names that executors of processes need. It starts with the first process. */
import { createHash } from 'node:crypto'
import type { Clock, Log } from '@bellwether/base'
import { openGuardian, type Guardian } from '../../../ports/processes/guardian.js'
import { readSelf, type Self } from '../../../ports/processes/proc.js'
import { workerTokens } from '../../../ports/processes/token.js'
import type { Settings } from '../../../settings/schema.js'

export interface ProcessGuard {
  readonly guardian: Guardian
  readonly installation: string
  readonly self: Self
  /** How long a beat keeps the processes of a turn running. */
  readonly ttlMs: number
  /** The time between SIGTERM and SIGKILL. */
  readonly graceMs: number
}

export function openProcessGuard(clock: Clock, log: Log, settings: Settings): ProcessGuard {
  const { ttlMs, graceMs } = guardianTimes(settings)
  const installation = installationId(settings.database.url ?? '')
  const self = readSelf()
  const guardian = openGuardian({ clock, log, ttlMs, graceMs, workerTokens: workerTokens({ installation, ...self }) })
  return { guardian, installation, self, ttlMs, graceMs }
}

/** What the standby thread needs to renew the timers of the guardian. */
export const standbyGuard = ({ guardian, installation, self, ttlMs }: ProcessGuard) => ({
  channel: guardian.channel,
  ttlMs,
  tokens: { installation, ...self },
})

/**
 * The guardian must freeze a turn's processes before another worker or the PMO may take over the turn. A beat renews the
 * timer for 60 % of that time; the rest is for a guardian that must be replaced first, and for slow machines. SIGTERM may take up to 15 %.
 */
function guardianTimes({ worker, pmo }: Pick<Settings, 'worker' | 'pmo'>): { ttlMs: number; graceMs: number } {
  const silenceMs = Math.min(worker.inbox_processing_timeout_seconds, pmo.active_reap_seconds) * 1_000
  return { ttlMs: silenceMs * 0.6, graceMs: Math.min(2_000, silenceMs * 0.15) }
}

/** The same for every process on the same database; does not contain the password. */
function installationId(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  const address = parsed === undefined ? url : `${parsed.hostname}:${parsed.port || '5432'}${parsed.pathname}`
  return createHash('sha256').update(address).digest('hex').slice(0, 12)
}
