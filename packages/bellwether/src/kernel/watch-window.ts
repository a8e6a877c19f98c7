/**
 * W2.10 (hazards 7 and 26): silence counts only while the watchdog was watching. A watchdog that was paused, lost its database or saw
 * the clock jump starts a new watch window, and ends nothing until one full timeout has passed inside that window. Pure: time is an
 * argument.
 */
export interface Watch {
  /** The start of the watch window, on the database's clock. */
  readonly since: Date
  /** A verb that reaches the database after this instant was called before a pause and must do nothing. */
  readonly validUntil: Date
  /** The clock was set back since the last observation. */
  readonly clockSetBack: boolean
}

export interface WatchWindow {
  observe(databaseNow: Date, monotonicMs: number): Watch
}

/** A watchdog or a worker that missed this many intervals was away. */
export const gapIntervals = 3

export function openWatchWindow(intervalSeconds: number): WatchWindow {
  const gapMs = gapIntervals * intervalSeconds * 1_000
  let since: number | undefined
  let lastDatabaseMs = 0
  let lastMonotonicMs = 0
  return {
    observe(databaseNow, monotonicMs) {
      const databaseMs = databaseNow.getTime()
      const monotonicPassed = monotonicMs - lastMonotonicMs
      const databasePassed = databaseMs - lastDatabaseMs
      const clockSetBack = since !== undefined && databasePassed < Math.min(0, monotonicPassed - gapMs)
      const hasGap = monotonicPassed > gapMs || databasePassed > gapMs || databasePassed < monotonicPassed - gapMs
      if (since === undefined || hasGap || clockSetBack) since = databaseMs
      lastDatabaseMs = databaseMs
      lastMonotonicMs = monotonicMs
      return { since: new Date(since), validUntil: new Date(databaseMs + gapMs), clockSetBack }
    },
  }
}
