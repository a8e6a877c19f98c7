/**
 * Counts ended turns and interventions for the Trends page, and samples queue and workers. Every call is one transaction of bounded
 * size; calls of several PMOs exclude each other, and each turn is counted once, whichever of them dies.
 */
import type { Queryable } from '../../../ports/database/database.js'
import { depthMax, workerGoneSeconds } from '../../reads/gauges.js'

// About 600 ended turns: one call takes some tens of milliseconds.
export const countMax = 2_000
// Keeps one call under 50 ms.
const pruneMax = 5_000

export interface CountedTrends {
  /** Rows of the outbox; less than `countMax`: nothing is left. */
  readonly events: number
  readonly turns: number
  readonly interventions: number
  /** The time of the last event; null: there was none. */
  readonly until: Date | null
}

/** Undefined: another PMO counts. */
export async function countTrends(db: Queryable, max = countMax): Promise<CountedTrends | undefined> {
  const [row] = await db.query<CountedTrends>({
    name: 'bw_count_trends',
    text: 'select * from state.count_trends($1)',
    values: [max],
  })
  return row
}

/** Takes the sample of this minute; false: it is taken. */
export async function sampleTrends(db: Queryable): Promise<boolean> {
  const [row] = await db.query<{ sampled: boolean }>({
    name: 'bw_sample_trends',
    text: 'select state.sample_trends($1, $2) as sampled',
    values: [workerGoneSeconds, depthMax],
  })
  return row?.sampled === true
}

/** Removes old buckets and returns how many; the caller repeats the call until it returns 0. */
export async function pruneTrends(db: Queryable, days: number): Promise<number> {
  const [row] = await db.query<{ rows: number }>({
    name: 'bw_prune_trends',
    text: 'select state.prune_trends($1, $2) as rows',
    values: [days, pruneMax],
  })
  return row?.rows ?? 0
}
