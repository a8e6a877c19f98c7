/**
 * Tells a collector of every turn that has ended, from the database and not from the memory of whoever did it: a worker that was killed
 * leaves no hole, a turn that a watchdog ended is told like any other, and workers in other languages need nothing. Always:
 * the position moves only after the collector took the spans, so that they are told at least once, under the same ids; no turn
 * waits for it. Several processes may do it: who sees another one at work stands by.
 */
import type { Clock, Log } from '@bellwether/base'
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
  /** The part of the traces that is told, from 0 to 1. */
  readonly ratio?: number | undefined
  readonly serviceName?: string
}

export interface Traces {
  /** Tells what has ended since the last step; answers how many spans went. */
  step(): Promise<number>
  close(): Promise<void>
}

// A collector is near; one that takes longer is asked again later.
const exportMs = 10_000
// A span is about a kilobyte as JSON: collectors take 4 MB.
const spansMax = 1_000
// The name of this reader's position in the outbox.
const cursorName = 'traces'
// Its name is in a package that we do not otherwise need.
const succeeded = 0
// Turns whose rows are read at once: 50,000 spans, some 50 MB, when each of them is as long as it may be.
const turnsMax = 50

export function openTraces(options: TracesOptions): Traces {
  const { db, clock, ratio = 1 } = options
  const resource = resourceFromAttributes({ 'service.name': options.serviceName ?? 'bellwether' })
  const exporter: SpanExporter = new OTLPTraceExporter({
    url: tracesUrl(options.endpoint),
    timeoutMillis: exportMs,
    ...(options.headers === undefined ? {} : { headers: { ...options.headers } }),
  })
  /** Where this process left it; anything else means that another one is at work. */
  let left: string | undefined

  async function tell(turns: readonly string[]): Promise<number> {
    const spans = spansOf(await readEndedTurns(db, turns), resource, ratio)
    for (let from = 0; from < spans.length; from += spansMax) await send(spans.slice(from, from + spansMax))
    return spans.length
  }

  async function send(spans: ReadableSpan[]): Promise<void> {
    const taken = new Promise<void>((resolve, reject) => {
      exporter.export(spans, ({ code, error }: { readonly code: number; readonly error?: Error }) => {
        if (code === succeeded) resolve()
        else reject(new Retryable('the collector did not take the spans', { code: 'collector_away', cause: error }))
      })
    })
    await withTimeout(clock, exportMs * 2, 'telling the collector', taken)
  }

  return {
    async step() {
      let told = 0
      for (;;) {
        const from = await openCursor(db, cursorName)
        if (left !== undefined && left !== from) {
          left = from
          return told
        }
        const { turns, last, full } = await readEnded(db, from)
        for (let at = 0; at < turns.length; at += turnsMax) told += await tell(turns.slice(at, at + turnsMax))
        left = last ?? from
        if (last === undefined || !(await moveCursor(db, cursorName, from, last)) || !full) return told
      }
    },
    close: () => withTimeout(clock, exportMs, 'closing the exporter', exporter.shutdown()),
  }
}

function tracesUrl(endpoint: string): string {
  const base = endpoint.replace(/\/+$/, '')
  return base.endsWith('/v1/traces') ? base : `${base}/v1/traces`
}

// People look at a trace after the fact; a second later is soon enough.
const lookMs = 1_000

export async function runTraces(
  options: TracesOptions & { readonly log: Log; readonly signal: AbortSignal },
): Promise<void> {
  const { clock, log, signal } = options
  const traces = openTraces(options)
  await loop({ name: 'traces', intervalMs: lookMs, clock, log, signal }, () => traces.step())
  await traces
    .step()
    .catch((error: unknown) => log.warn({ err: error }, 'the last turns were not told to the collector'))
  await traces.close().catch((error: unknown) => log.warn({ err: error }, 'the exporter did not close in time'))
}
