/**
 * Exports every ended turn to a collector. It reads the database, so that turns of killed workers, turns that a watchdog ended, and
 * workers in other languages are included. The cursor moves only after the collector accepted the spans: they are exported at least
 * once, under the same ids. No turn waits for the export. If several processes export, all but one stand by.
 */
import { type Clock, defined, type Log } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { resourceFromAttributes } from '@opentelemetry/resources'
import type { ReadableSpan, SpanExporter } from '@opentelemetry/sdk-trace-node'
import { readEnded, readEndedTurns } from '../kernel/reads/ended-turns.js'
import { moveCursor, openCursor } from '../kernel/verbs/events.js'
import type { Queryable } from '../ports/database/database.js'
import { loop } from '../ports/loop.js'
import { spansOf } from './spans.js'
import { withTimeout } from '../ports/retry.js'

export interface TracesOptions {
  readonly db: Queryable
  readonly clock: Clock
  /** The collector's base, as OTEL_EXPORTER_OTLP_ENDPOINT has it: `/v1/traces` is added. */
  readonly endpoint: string
  readonly headers?: Readonly<Record<string, string>>
  /** The share of traces that is exported, from 0 to 1. */
  readonly ratio?: number | undefined
}

export interface Traces {
  /** Exports the turns that ended since the last step; returns the number of spans. */
  step(): Promise<number>
  close(): Promise<void>
}

// A collector is usually close; a slow export is retried later.
const exportMs = 10_000
// A span is about 1 kB of JSON; collectors accept 4 MB.
const spansMax = 1_000
// The name of this reader's position in the outbox.
const cursorName = 'traces'
// ExportResultCode.SUCCESS, from a package that is not needed otherwise.
const succeeded = 0
// Turns per read: at most 50,000 spans, about 50 MB.
const turnsMax = 50

export function openTraces(options: TracesOptions): Traces {
  const { db, clock, ratio = 1 } = options
  const resource = resourceFromAttributes({ 'service.name': 'bellwether' })
  const exporter: SpanExporter = new OTLPTraceExporter({
    url: tracesUrl(options.endpoint),
    timeoutMillis: exportMs,
    ...defined({ headers: options.headers && { ...options.headers } }),
  })
  /** The cursor after the last step of this process. Another value means that another process is exporting. */
  let lastCursor: string | undefined

  async function exportTurns(turns: readonly string[]): Promise<number> {
    const spans = spansOf(await readEndedTurns(db, turns), resource, ratio)
    for (let from = 0; from < spans.length; from += spansMax) await send(spans.slice(from, from + spansMax))
    return spans.length
  }

  async function send(spans: ReadableSpan[]): Promise<void> {
    const taken = new Promise<void>((resolve, reject) => {
      exporter.export(spans, ({ code, error }: { readonly code: number; readonly error?: Error }) => {
        if (code === succeeded) resolve()
        else reject(new Retryable('The collector did not accept the spans', { code: 'collector_away', cause: error }))
      })
    })
    await withTimeout(clock, exportMs * 2, 'exporting spans', taken)
  }

  return {
    async step() {
      let exported = 0
      for (;;) {
        const from = await openCursor(db, cursorName)
        if (lastCursor !== undefined && lastCursor !== from) {
          lastCursor = from
          return exported
        }
        const { turns, last, full } = await readEnded(db, from)
        for (let at = 0; at < turns.length; at += turnsMax)
          exported += await exportTurns(turns.slice(at, at + turnsMax))
        lastCursor = last ?? from
        if (last === undefined || !(await moveCursor(db, cursorName, from, last)) || !full) return exported
      }
    },
    close: () => withTimeout(clock, exportMs, 'closing the exporter', exporter.shutdown()),
  }
}

function tracesUrl(endpoint: string): string {
  const base = endpoint.replace(/\/+$/, '')
  return base.endsWith('/v1/traces') ? base : `${base}/v1/traces`
}

// A trace is read after the turn; one second is soon enough.
const pollMs = 1_000

export async function runTraces(
  options: TracesOptions & { readonly log: Log; readonly signal: AbortSignal },
): Promise<void> {
  const { clock, log, signal } = options
  const traces = openTraces(options)
  await loop({ name: 'traces', intervalMs: pollMs, clock, log, signal }, () => traces.step())
  await traces.step().catch((error: unknown) => log.warn({ err: error }, 'last turns were not exported'))
  await traces.close().catch((error: unknown) => log.warn({ err: error }, 'trace exporter did not close in time'))
}
