/**
 * When a part that ended is started again. Pure: given when it ended before, it says how long to wait. A part that fails now and
 * then comes back at once; one that fails again and again waits longer each time; one that never gets anywhere is put in
 * quarantine, is said to be there, and is tried again much later: a night is long, and its cause may pass.
 */
import { backoffMs, type Backoff } from '../ports/retry.js'

export interface RestartRules {
  /** Endings older than this are forgiven. */
  readonly windowMs: number
  /** This many endings within the window are a crash loop. */
  readonly loopAfter: number
  readonly backoff: Backoff
  readonly quarantineMs: number
}

export const usualRules: RestartRules = {
  windowMs: 60_000,
  loopAfter: 6,
  backoff: { mode: 'exponential', baseMs: 200, multiplier: 2, maxMs: 10_000, jitterPct: 0 },
  quarantineMs: 300_000,
}

export interface Restart {
  readonly afterMs: number
  readonly quarantined: boolean
}

/** `endedMs`: when it ended, this time included, on one clock; the newest last. */
export function restartOf(endedMs: readonly number[], rules: RestartRules = usualRules): Restart {
  const now = endedMs.at(-1) ?? 0
  const recent = endedMs.filter((at) => now - at < rules.windowMs).length
  if (recent >= rules.loopAfter) return { afterMs: rules.quarantineMs, quarantined: true }
  return { afterMs: backoffMs(rules, recent), quarantined: false }
}
