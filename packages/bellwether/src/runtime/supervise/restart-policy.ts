/**
 * Decides when a part that ended is restarted, from the times at which it ended. Pure. The first restart is immediate, repeated
 * failures wait longer each time, and a crash loop leads to quarantine: the part is retried much later, because its cause may pass.
 */
import { backoffMs, type Backoff } from '../../ports/retry.js'

export interface RestartRules {
  /** Failures older than this are ignored. */
  readonly windowMs: number
  /** This many failures within the window are a crash loop. */
  readonly loopAfter: number
  readonly backoff: Backoff
  readonly quarantineMs: number
}

export const defaultRestartRules: RestartRules = {
  windowMs: 60_000,
  loopAfter: 6,
  backoff: { mode: 'exponential', baseMs: 200, multiplier: 2, maxMs: 10_000, jitterPct: 0 },
  quarantineMs: 300_000,
}

export interface Restart {
  readonly afterMs: number
  readonly quarantined: boolean
}

// More than a crash loop needs.
const rememberedMax = 20

/** Adds a time to the remembered ones, in place, and drops the oldest if there are too many. */
export function remember(endedMs: number[], nowMs: number): readonly number[] {
  endedMs.push(nowMs)
  if (endedMs.length > rememberedMax) endedMs.shift()
  return endedMs
}

/** `endedMs`: when the part ended, the latest time last, all on one monotonic clock. */
export function nextRestart(endedMs: readonly number[], rules: RestartRules = defaultRestartRules): Restart {
  const now = endedMs.at(-1) ?? 0
  const recent = endedMs.filter((at) => now - at < rules.windowMs).length
  if (recent >= rules.loopAfter) return { afterMs: rules.quarantineMs, quarantined: true }
  return { afterMs: backoffMs(rules, recent), quarantined: false }
}
