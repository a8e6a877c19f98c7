/**
 * What a process tells the outside about itself, as its settings ask for: traces to a collector, numbers on a port. Without settings it
 * opens nothing, loads nothing and costs nothing. Always: telling never stops a process, nor keeps it from stopping.
 */
import type { Clock, Log } from '@bellwether/base'
import { Terminal } from '@bellwether/protocol'
import type { Queryable } from '../ports/database/database.js'
import type { MetricsOptions } from './metrics.js'
import type { MetricsServer } from './metrics-server.js'

export interface TelemetryOptions extends Pick<MetricsOptions, 'bell' | 'worker'> {
  readonly db: Queryable
  readonly clock: Clock
  readonly log: Log
  readonly signal: AbortSignal
  /** Absent: no traces. One process of the house is enough, and several do no harm. */
  readonly endpoint?: string | undefined
  readonly ratio?: number | undefined
  /** Absent: no port. */
  readonly metricsPort?: number | undefined
}

export interface Telemetry {
  /** Where /metrics is, when it is anywhere. */
  readonly metricsUrl: string | undefined
  /** To be called before the database is closed. */
  close(): Promise<void>
}

export async function startTelemetry(options: TelemetryOptions): Promise<Telemetry> {
  const { endpoint, metricsPort, log } = options
  // Not awaited before the end: it runs as long as the process does.
  const traces = endpoint === undefined ? undefined : tracesTo(endpoint, options)
  const server = metricsPort === undefined ? undefined : await metricsOn(metricsPort, options)
  if (server !== undefined) log.info({ url: server.url }, 'numbers for Prometheus are served')
  return {
    metricsUrl: server?.url,
    async close() {
      await server?.close()
      await traces
    },
  }
}

async function tracesTo(endpoint: string, options: TelemetryOptions): Promise<void> {
  const { log } = options
  try {
    const { runTraces } = await import('./traces.js')
    log.info({}, 'turns are told to the collector')
    await runTraces({ ...options, endpoint })
  } catch (error) {
    log.error({ err: error, hint: 'an endpoint is a URL, as http://host:4318' }, 'no traces are told')
  }
}

/** Several processes of one machine read the same settings: whoever comes second works without a page of its own. */
async function metricsOn(port: number, options: TelemetryOptions): Promise<MetricsServer | undefined> {
  try {
    const [{ openMetrics }, { serveMetrics }] = await Promise.all([
      import('./metrics.js'),
      import('./metrics-server.js'),
    ])
    return await serveMetrics(await openMetrics(options), port)
  } catch (error) {
    if (!(error instanceof Terminal)) throw error
    options.log.warn({ err: error, hint: error.hint }, 'this process serves no numbers for Prometheus')
    return undefined
  }
}
