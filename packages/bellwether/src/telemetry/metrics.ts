/**
 * Metrics for Prometheus. A scrape always succeeds; while the database is unavailable it shows the last values. Scrapes share a bounded
 * number of database reads. Labels have bounded sets of values, with the rest as `other`; agents, turns and tools are never labels.
 * Every process counts the whole fleet from the database, so scrape one process or take the maximum.
 */
import { openFleetCounts, type FleetCounts } from './fleet-counts.js'
import type { FleetCounter, Metrics, MetricsOptions } from './metrics-page.js'

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
