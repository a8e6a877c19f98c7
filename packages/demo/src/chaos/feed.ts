/**
 * Follows the events of the project from the start of the run to its end, through all restarts of the server. Every turn that ended
 * must appear in it.
 */
import type { Clock } from '@bellwether/base'
import type { DemoClient } from '../client.js'

export interface Feed {
  /** How often the end of each turn was received. */
  readonly ends: ReadonlyMap<string, number>
  /** Positions that the server could not continue from. */
  readonly resets: number
  /** The time from an event to its receipt, with the time of receipt. */
  readonly delays: readonly { readonly atMs: number; readonly delayMs: number }[]
  readonly ended: Promise<void>
}

export function followFeed(client: DemoClient, clock: Clock, signal: AbortSignal): Feed {
  const ends = new Map<string, number>()
  const delays: { atMs: number; delayMs: number }[] = []
  const seen = { resets: 0 }
  async function read(): Promise<void> {
    const stream = client.follow('GET /projects/:project/events', { query: { kind: 'task' }, signal })
    for await (const { event, data } of stream) {
      if (event === 'reset') seen.resets += 1
      if (event !== 'task' || !('agent_turn_id' in data) || data.agent_turn_id === null) continue
      ends.set(data.agent_turn_id, (ends.get(data.agent_turn_id) ?? 0) + 1)
      const atMs = clock.wallMs()
      delays.push({ atMs, delayMs: atMs - Date.parse(data.created_at) })
    }
  }
  return {
    ends,
    delays,
    get resets() {
      return seen.resets
    },
    ended: read(),
  }
}
