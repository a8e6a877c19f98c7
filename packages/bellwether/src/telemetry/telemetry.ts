/**
 * Starts the telemetry of a process: traces to a collector and metrics on a port. Without settings it loads and opens nothing. A failure
 * of telemetry never stops the process or delays its shutdown.
 */
import type { Clock, Log } from '@bellwether/base'
import { Terminal } from '@bellwether/protocol'
import type { Queryable } from '../ports/database/database.js'
import type { MetricsOptions } from './metrics-page.js'
import type { MetricsServer } from './metrics-server.js'

export interface TelemetryOptions extends Pick<MetricsOptions, 'bell' | 'worker' | 'alerts' | 'lockTimeouts'> {
  readonly db: Queryable
  readonly clock: Clock
  readonly log: Log
  readonly signal: AbortSignal
  /** The collector. One exporting process is enough; several do no harm. */
  readonly endpoint?: string | undefined
  readonly ratio?: number | undefined
  /** The port of /metrics. */
  readonly metricsPort?: number | undefined
}

export interface Telemetry {
  /** The URL of /metrics, if it is served. */
  readonly metricsUrl: string | undefined
  /** Call it before the database is closed. */
  close(): Promise<void>
}

export async function startTelemetry(options: TelemetryOptions): Promise<Telemetry> {
  const { endpoint, metricsPort, log } = options
  // Runs as long as the process; awaited in `close`.
  const traces = endpoint === undefined ? undefined : exportTraces(endpoint, options)
  const server = metricsPort === undefined ? undefined : await openMetricsServer(metricsPort, options)
  if (server !== undefined) log.info({ url: server.url }, 'serving metrics')
  return {
    metricsUrl: server?.url,
    async close() {
      await server?.close()
      await traces
    },
  }
}

async function exportTraces(endpoint: string, options: TelemetryOptions): Promise<void> {
  const { log } = options
  try {
    const { runTraces } = await import('./traces.js')
    log.info({}, 'exporting traces')
    await runTraces({ ...options, endpoint })
  } catch (error) {
    log.error({ err: error, hint: 'the endpoint must be a URL, as http://host:4318' }, 'trace export failed to start')
  }
}

/** Several processes of one machine share the settings; all but the first run without /metrics. */
async function openMetricsServer(port: number, options: TelemetryOptions): Promise<MetricsServer | undefined> {
  try {
    const [{ openMetrics }, { serveMetrics }] = await Promise.all([
      import('./metrics.js'),
      import('./metrics-server.js'),
    ])
    return await serveMetrics(await openMetrics(options), port)
  } catch (error) {
    if (!(error instanceof Terminal)) throw error
    options.log.warn({ err: error, hint: error.hint }, 'metrics are not served by this process')
    return undefined
  }
}
