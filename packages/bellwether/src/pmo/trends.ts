/** Keeps the counts of the Trends page up to date: counts what ended, and takes one sample per minute. Logs how a backlog proceeds. */
import type { Clock, Log } from '@bellwether/base'
import { countMax, countTrends, sampleTrends } from '../kernel/verbs/trends/trends.js'
import type { Database } from '../ports/database/database.js'

export interface TrendCounter {
  /** Counts everything that has ended, and samples the present if the minute has no sample yet. */
  step(): Promise<void>
}

export interface TrendCounterOptions {
  readonly db: Database
  readonly clock: Pick<Clock, 'monotonicMs'>
  readonly log: Log
  readonly signal: AbortSignal
}

const progressEveryMs = 10_000

export function openTrendCounter({ db, clock, log, signal }: TrendCounterOptions): TrendCounter {
  return {
    async step() {
      await sampleTrends(db)
      const startMs = clock.monotonicMs()
      let reportedMs = startMs
      let turns = 0
      while (!signal.aborted) {
        const counted = await countTrends(db)
        turns += counted?.turns ?? 0
        const nowMs = clock.monotonicMs()
        const isDone = counted === undefined || (counted.events < countMax && counted.interventions < countMax)
        if (isDone && reportedMs > startMs) log.info({ turns, ms: nowMs - startMs }, 'trends are up to date')
        if (isDone) return
        if (nowMs - reportedMs < progressEveryMs) continue
        reportedMs = nowMs
        log.info({ turns, until: counted.until }, 'counting ended turns for trends')
      }
    },
  }
}
