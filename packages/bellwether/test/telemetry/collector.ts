/** A real OTLP receiver: accepts JSON on /v1/traces and stores every span by its id. */
import { createServer } from 'node:http'
import { listen } from '../support/servers/listen.js'

export interface SeenSpan {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly status: { readonly code?: number; readonly message?: string }
  readonly attributes: Readonly<Record<string, unknown>>
  readonly events: readonly string[]
}

export interface Collector {
  readonly url: string
  /** By id; a span that is exported twice appears once. */
  readonly spans: ReadonlyMap<string, SeenSpan>
  readonly requests: () => number
  /** What it answers from now on. */
  answer(code: number): void
  of(agentTurnId: string): SeenSpan[]
  close(): Promise<void>
}

interface Wire {
  readonly resourceSpans: readonly {
    readonly scopeSpans: readonly {
      readonly spans: readonly (Omit<SeenSpan, 'attributes' | 'events'> & {
        readonly attributes: readonly { readonly key: string; readonly value: Readonly<Record<string, unknown>> }[]
        readonly events?: readonly { readonly name: string }[]
      })[]
    }[]
  }[]
}

export async function startCollector(): Promise<Collector> {
  const spans = new Map<string, SeenSpan>()
  let requests = 0
  let code = 200
  const server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('end', () => {
      requests += 1
      const good = request.url === '/v1/traces' && request.headers['content-type'] === 'application/json'
      if (good && code === 200) take(JSON.parse(Buffer.concat(parts).toString()) as Wire)
      response.writeHead(good ? code : 400, { 'content-type': 'application/json' }).end('{}')
    })
  })
  function take(wire: Wire): void {
    for (const span of wire.resourceSpans.flatMap((one) => one.scopeSpans).flatMap((one) => one.spans)) {
      const attributes = Object.fromEntries(span.attributes.map(({ key, value }) => [key, Object.values(value)[0]]))
      spans.set(span.spanId, { ...span, attributes, events: (span.events ?? []).map((event) => event.name) })
    }
  }
  const port = await listen(server)
  return {
    url: `http://127.0.0.1:${port}`,
    spans,
    requests: () => requests,
    answer: (next) => void (code = next),
    of: (agentTurnId) => {
      const own = [...spans.values()].filter((span) => span.attributes['bellwether.agent_turn_id'] === agentTurnId)
      const ids = new Set(own.map((span) => span.spanId))
      const below = (span: SeenSpan): boolean =>
        ids.has(span.parentSpanId ?? '') && span.name !== 'turn' && Boolean(ids.add(span.spanId))
      // Steps come before their tool calls.
      return [...own, ...[...spans.values()].filter((span) => !own.includes(span) && below(span))]
    },
    close: async () => {
      const closed = new Promise((resolve) => server.close(resolve))
      server.closeAllConnections()
      await closed
    },
  }
}
