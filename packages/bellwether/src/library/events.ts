/** Events of the library: the outbox of a project as an async iterable, in order and without gaps. */
import { linkAbort, type Clock } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import type { Follower, Tail } from '../http/tail.js'
import type { OutboxEvent } from '../kernel/verbs/events.js'

/** One event: `task` (a turn ended), `state` (an agent's head changed), `step` (a step of a turn), `command` (a tool call). */
export interface BellwetherEvent {
  /** The position of the event; pass it as `after` to continue here. */
  readonly cursor: string
  readonly kind: OutboxEvent['kind']
  readonly turnId: string | null
  readonly payload: Readonly<Record<string, unknown>>
  readonly createdAt: Date
}

export interface EventOptions {
  /** Only these kinds. Default: all. */
  readonly kinds?: readonly OutboxEvent['kind'][]
  /** Only events of this turn. */
  readonly turnId?: string
  /** Continue after this cursor. Default: events from now on. `0:0` is the oldest stored event. */
  readonly after?: string
  /** Ends the iteration. */
  readonly signal?: AbortSignal
}

const pageMax = 500
const retryMs = 1_000

/** Events count from the moment when `positioned` resolves, not from the first `next`. */
export function readEventsOf(
  tail: Tail,
  clock: Clock,
  projectId: string,
  closing: AbortSignal,
  options: EventOptions,
): { readonly events: AsyncIterableIterator<BellwetherEvent>; readonly positioned: Promise<void> } {
  const { kinds, turnId, after } = options
  const start = begin(tail, after)
  const settled = () => undefined // the iteration reports an error
  const isWanted = (event: OutboxEvent) =>
    event.project_id === projectId &&
    (kinds === undefined || kinds.includes(event.kind)) &&
    (turnId === undefined || event.agent_turn_id === turnId)

  async function* iterate(): AsyncGenerator<BellwetherEvent> {
    const { follower, cursor: first } = await start
    let cursor = first
    const over = linkAbort(closing, options.signal)
    try {
      while (!over.signal.aborted) {
        const mark = follower.mark()
        const page = await follower.since(cursor, pageMax).catch(async (error: unknown) => {
          if (!(error instanceof Retryable)) throw error
          await clock.sleep(retryMs, over.signal)
          return undefined
        })
        for (const event of page ?? []) {
          cursor = event.cursor
          if (isWanted(event)) yield eventOf(event)
          if (over.signal.aborted) return
        }
        if (page !== undefined && page.length < pageMax) await follower.next(mark, over.signal)
      }
    } finally {
      over.abort()
      follower.stop()
    }
  }
  return { events: iterate(), positioned: start.then(settled, settled) }
}

async function begin(tail: Tail, after: string | undefined): Promise<{ follower: Follower; cursor: string }> {
  const follower = await tail.follow()
  try {
    if (after !== undefined) await follower.check(after)
    return { follower, cursor: after ?? (await tail.now()) }
  } catch (error) {
    follower.stop()
    throw error
  }
}

const eventOf = (event: OutboxEvent): BellwetherEvent => ({
  cursor: event.cursor,
  kind: event.kind,
  turnId: event.agent_turn_id,
  payload: event.payload,
  createdAt: event.created_at,
})
