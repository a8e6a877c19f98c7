/** Starts the metrics and traces of a process as its settings ask, on the database and bell of its runtime. */
import { type Log, systemClock } from '@bellwether/base'
import type { Metrics } from '../../telemetry/metrics-page.js'
import { startTelemetry, type Telemetry, type TelemetryOptions } from '../../telemetry/telemetry.js'
import type { PartContext } from '../process.js'
import type { Runtime } from '../runtime.js'
import type { BoardPart } from './shared.js'

export interface ProcessTelemetryOptions
  extends PartContext, Pick<TelemetryOptions, 'worker' | 'alerts' | 'lockTimeouts'> {
  /** Whether this process may export traces. The PMO does: every installation has one, and one exporter is enough. */
  readonly traces: boolean
}

/** The variable that every OpenTelemetry program reads; our own setting takes precedence. */
const endpointVariable = 'OTEL_EXPORTER_OTLP_ENDPOINT'

export function startProcessTelemetry(options: ProcessTelemetryOptions): Promise<Telemetry> {
  const { runtime, settings, traces, env } = options
  const { otlp_endpoint: configured, trace_percent: percent, metrics_port: metricsPort } = settings.telemetry
  const inherited = env[endpointVariable]
  const endpoint = configured ?? (inherited === '' ? undefined : inherited)
  return startTelemetry({
    ...options,
    db: runtime.kernel.db,
    clock: systemClock,
    bell: () => runtime.bellStatus(),
    endpoint: traces ? endpoint : undefined,
    ratio: percent / 100,
    metricsPort,
  })
}

/** The metrics that the server's own /metrics shows. */
export async function openProcessMetrics(runtime: Runtime, log: Log, board: BoardPart | undefined): Promise<Metrics> {
  const { openMetrics } = await import('../../telemetry/metrics.js')
  const { db } = runtime.kernel
  return openMetrics({ db, clock: systemClock, log, bell: () => runtime.bellStatus(), ...boardCounters(board) })
}

/** What a process with a board counts itself. */
export function boardCounters(board: BoardPart | undefined): Pick<TelemetryOptions, 'alerts' | 'lockTimeouts'> {
  return board === undefined ? {} : { alerts: () => board.alerts.counts, lockTimeouts: () => board.contention.timeouts }
}
