/**
 * W2.10, the blind judge (hazards 7 and 26): silence counts only while the judge was watching. A watchdog that was paused,
 * lost its database, or saw the clock jump begins to watch anew, and ends nothing until one full timeout has passed under
 * its eyes. Pure: time comes in as arguments.
 */
export interface Watch {
  /** Watching without a gap since then, on the database's clock. */
  readonly since: Date
  /** A verb that reaches the database later than this was asked for before a pause: it must do nothing. */
  readonly validUntil: Date
  /** The clock was set back since the last look. */
  readonly setBack: boolean
}

export interface Vigil {
  look(databaseNow: Date, monotonicMs: number): Watch
}

const gapIntervals = 3

export function keepVigil(intervalSeconds: number): Vigil {
  const gapMs = gapIntervals * intervalSeconds * 1_000
  let since: number | undefined
  let lastDatabaseMs = 0
  let lastMonotonicMs = 0
  return {
    look(databaseNow, monotonicMs) {
      const databaseMs = databaseNow.getTime()
      const passed = monotonicMs - lastMonotonicMs
      const claimed = databaseMs - lastDatabaseMs
      const first = since === undefined
      const setBack = !first && claimed < Math.min(0, passed - gapMs)
      if (since === undefined || passed > gapMs || claimed > gapMs || setBack || claimed < passed - gapMs)
        since = databaseMs
      lastDatabaseMs = databaseMs
      lastMonotonicMs = monotonicMs
      return { since: new Date(since), validUntil: new Date(databaseMs + gapMs), setBack }
    },
  }
}
