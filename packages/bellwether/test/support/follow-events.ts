/**
 * Follows a project's event stream like a browser: after a lost connection it reconnects with the id of the last event. It records
 * every event in the order of arrival.
 */
import { systemClock } from '@bellwether/base'
import { until } from './until.js'

interface SeenEvent {
  readonly id: string
  readonly event: string
  readonly data: { readonly agent_turn_id?: string | null }
}

export interface EventReader {
  readonly seen: readonly SeenEvent[]
  /** The number of reconnects. */
  readonly reconnects: number
  /** The turns that have ended. */
  readonly ended: ReadonlySet<string>
  /** Resolves when this many more turns have ended. */
  progress(turns: number, withinMs?: number): Promise<void>
  stop(): Promise<void>
}

const reconnectMs = 50

export function followEvents(url: string, headers: Readonly<Record<string, string>>): EventReader {
  const stopped = new AbortController()
  const seen: SeenEvent[] = []
  const ended = new Set<string>()
  let [last, reconnects] = ['0:0', 0]

  function take(block: string): void {
    const fields = new Map<string, string>()
    for (const line of block.split('\n')) {
      const at = line.indexOf(': ')
      if (at > 0) fields.set(line.slice(0, at), line.slice(at + 2))
    }
    last = fields.get('id') ?? last
    const event = fields.get('event')
    if (event === undefined) return
    const data = JSON.parse(fields.get('data') ?? '{}') as SeenEvent['data']
    seen.push({ id: last, event, data })
    if (event === 'task') ended.add(String(data.agent_turn_id))
  }

  async function read(): Promise<void> {
    const response = await fetch(url, { headers: { ...headers, 'last-event-id': last }, signal: stopped.signal })
    if (!response.ok || response.body === null) return
    const decoder = new TextDecoder()
    let text = ''
    for await (const chunk of response.body) {
      text += decoder.decode(chunk as Uint8Array, { stream: true })
      // An event that is incomplete when the connection is lost is sent again.
      for (let at = text.indexOf('\n\n'); at >= 0; at = text.indexOf('\n\n')) {
        take(text.slice(0, at))
        text = text.slice(at + 2)
      }
    }
  }

  const reading = (async () => {
    while (!stopped.signal.aborted) {
      await read().catch(() => undefined) // connection lost or refused: it reconnects
      if (stopped.signal.aborted) return
      reconnects += 1
      await systemClock.sleep(reconnectMs, stopped.signal)
    }
  })()

  return {
    seen,
    get reconnects() {
      return reconnects
    },
    ended,
    async progress(turns, withinMs = 30_000) {
      const wanted = ended.size + turns
      await until(`${turns} more turns end`, async () => (ended.size >= wanted ? true : undefined), withinMs)
    },
    async stop() {
      stopped.abort()
      await reading
    },
  }
}
