/**
 * Metrics for Prometheus. A scrape always succeeds; while the database is unavailable it shows the last values. Scrapes share a bounded
 * number of database reads. Labels have bounded sets of values, with the rest as `other`; agents, turns and tools are never labels.
 * Every process counts the whole fleet from the database, so scrape one process or take the maximum.
 */
import type { Clock, Log } from '@bellwether/base'
import type { BellStatus } from '../ports/bell/ring.js'
import type { Queryable } from '../ports/database/database.js'
import { openFleetCounts, type FleetCounts } from './fleet-counts.js'

export interface MetricsOptions {
  readonly db: Queryable
  readonly clock: Clock
  readonly log: Log
  readonly bell?: () => BellStatus & { readonly kind: string }
  /** For a process that raises alerts: how many, by kind, and `unsent`. */
  readonly alerts?: (() => ReadonlyMap<string, number>) | undefined
  /** For a process with a board: how many writes did not get its lock in time. */
  readonly lockTimeouts?: (() => number) | undefined
  /** For a process that runs turns. */
  readonly worker?: () => { readonly target: string; readonly running: number; readonly concurrency: number }
}

export interface Metrics {
  /** The page at /metrics. Never throws because of the database. */
  text(): Promise<string>
}

/** The counts of the fleet since the start, as soon as the database answers. */
export type FleetCounter = () => Promise<FleetCounts>

export async function openMetrics(options: MetricsOptions): Promise<Metrics> {
  const { db, log } = options
  let counts: FleetCounts | undefined
  const fleetCounts: FleetCounter = async () => (counts ??= await openFleetCounts(db))
  // Counting starts now, so that the first scrape includes turns that ended before it.
  await fleetCounts().catch((error: unknown) =>
    log.warn({ err: error }, 'cannot read metrics from the database; counting starts with the first scrape'),
  )
  let page: Promise<Metrics> | undefined
  return {
    async text() {
      // Most processes are never scraped: the library has 80 files and samples the event loop 100 times per second.
      page ??= import('./metrics-page.js').then(({ makeMetricsPage }) => makeMetricsPage(options, fleetCounts))
      return (await page).text()
    },
  }
}
