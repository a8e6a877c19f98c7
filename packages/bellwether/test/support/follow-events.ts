/**
 * A reader of a project's events as a browser is one: it follows the stream, and when the line breaks it comes back with the id of
 * the last event that it saw. Always: every event that came is kept, in the order in which it came.
 */
import { systemClock } from '@bellwether/base'
import { until } from './until.js'

export interface SeenEvent {
  readonly id: string
  readonly event: string
  readonly data: { readonly agent_turn_id?: string | null }
}

export interface EventReader {
  readonly seen: readonly SeenEvent[]
  /** How often it had to come back. */
  readonly returns: number
  /** The turns that have ended. */
  readonly ended: ReadonlySet<string>
  /** Resolves when this many turns more have ended. */
  progress(turns: number, withinMs?: number): Promise<void>
  stop(): Promise<void>
}

const backMs = 50

export function followEvents(url: string, headers: Readonly<Record<string, string>>): EventReader {
  const over = new AbortController()
  const seen: SeenEvent[] = []
  const ended = new Set<string>()
  let [last, returns] = ['0:0', 0]

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
    const response = await fetch(url, { headers: { ...headers, 'last-event-id': last }, signal: over.signal })
    if (!response.ok || response.body === null) return
    const decoder = new TextDecoder()
    let text = ''
    for await (const chunk of response.body) {
      text += decoder.decode(chunk as Uint8Array, { stream: true })
      // What is not whole when the line breaks comes again.
      for (let at = text.indexOf('\n\n'); at >= 0; at = text.indexOf('\n\n')) {
        take(text.slice(0, at))
        text = text.slice(at + 2)
      }
    }
  }

  const reading = (async () => {
    while (!over.signal.aborted) {
      await read().catch(() => undefined) // cut, or not there yet: it comes back
      if (over.signal.aborted) return
      returns += 1
      await systemClock.sleep(backMs, over.signal)
    }
  })()

  return {
    seen,
    get returns() {
      return returns
    },
    ended,
    async progress(turns, withinMs = 30_000) {
      const wanted = ended.size + turns
      await until(`${turns} more turns end`, async () => (ended.size >= wanted ? true : undefined), withinMs)
    },
    async stop() {
      over.abort()
      await reading
    },
  }
}
