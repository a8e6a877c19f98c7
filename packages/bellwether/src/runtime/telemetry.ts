/** Composes what a process of the house tells about itself: what its settings ask for, on the house's own database and bell. */
import { type Log, systemClock } from '@bellwether/base'
import type { Settings } from '../settings/schema.js'
import type { Metrics } from '../telemetry/metrics.js'
import { startTelemetry, type Telemetry, type TelemetryOptions } from '../telemetry/telemetry.js'
import type { House } from './runtime.js'

export interface HouseTelemetryOptions extends Pick<TelemetryOptions, 'worker' | 'signal'> {
  readonly house: House
  readonly settings: Settings
  readonly log: Log
  /** Traces are told by the PMO: it is always there, and one of them is enough. */
  readonly traces: boolean
  readonly env: Readonly<Record<string, string | undefined>>
}

/** What every OpenTelemetry program understands; the setting of our own comes first. */
const endpointVariable = 'OTEL_EXPORTER_OTLP_ENDPOINT'

export function startHouseTelemetry(options: HouseTelemetryOptions): Promise<Telemetry> {
  const { house, settings, traces, env } = options
  const { otlp_endpoint: given, trace_percent: percent, metrics_port: metricsPort } = settings.telemetry
  const inherited = env[endpointVariable]
  const endpoint = given ?? (inherited === '' ? undefined : inherited)
  return startTelemetry({
    ...options,
    db: house.kernel.db,
    clock: systemClock,
    bell: () => house.bellStatus(),
    endpoint: traces ? endpoint : undefined,
    ratio: percent / 100,
    metricsPort,
  })
}

/** Numbers for the server's own /metrics. */
export async function openHouseMetrics(house: House, log: Log): Promise<Metrics> {
  const { openMetrics } = await import('../telemetry/metrics.js')
  return openMetrics({ db: house.kernel.db, clock: systemClock, log, bell: () => house.bellStatus() })
}
