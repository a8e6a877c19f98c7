/**
 * The end of the outbox, read once for everybody who follows it. Always: an event is told in the outbox's order, never skipped and
 * never twice to the same cursor; what is kept in memory is bounded, and whoever is further behind reads the database; nobody
 * follows, nothing is read. The bell only makes it look sooner.
 */
import type { Clock, Log } from '@bellwether/base'
import { InvalidInput, Terminal } from '@bellwether/protocol'
import { readEvents, visibleXid, type OutboxEvent } from '../kernel/verbs/events.js'
import type { Queryable } from '../ports/database/database.js'
import { loop, makeWake } from '../ports/loop.js'

export interface Following {
  /** Throws for what is no cursor; and `cursor_reset` for one that this database has not come to: it was put back to an older state. */
  check(cursor: string): Promise<void>
  /** Everything after the cursor, at most `max`; throws `cursor_reset` where retention has removed some of it. */
  since(cursor: string, max: number): Promise<readonly OutboxEvent[]>
  /** Resolves once there is something after what `mark` had seen, or when the signal fires. */
  next(mark: number, signal: AbortSignal): Promise<void>
  mark(): number
  /** Resolves with true when this turn's end is seen, with false when the signal fires. */
  ended(agentTurnId: string, signal: AbortSignal): Promise<boolean>
  stop(): void
}

export interface Tail {
  /** Resolves once the tail stands at a place: every event that becomes visible from then on is seen. */
  follow(): Promise<Following>
  /** The cursor after everything that can be seen now. */
  now(): Promise<string>
  /** Look at once. */
  wake(): void
  run(signal: AbortSignal): Promise<void>
}

export interface TailOptions {
  readonly db: Queryable
  readonly clock: Clock
  readonly log: Log
  /** How often it looks when nothing wakes it. */
  readonly pollMs?: number
}

// A few megabytes: a reader that is a few seconds behind costs no query.
const keptMax = 5_000
const pageMax = 1_000
// What a person takes for "at once", for one indexed read.
const pollDefaultMs = 200

interface Place {
  readonly xid: bigint
  readonly id: bigint
}

const cursorPattern = /^(\d{1,20}):(\d{1,19})$/
// The last of an xid8, and of a bigint.
const last = { xid: 2n ** 64n - 1n, id: 2n ** 63n - 1n } as const

function placeOf(cursor: string): Place {
  const [, xid = '', id = ''] = cursorPattern.exec(cursor) ?? []
  const place = { xid: BigInt(xid), id: BigInt(id) }
  if (xid !== '' && place.xid <= last.xid && place.id <= last.id) return place
  throw new InvalidInput(`${JSON.stringify(cursor.slice(0, 80))} is not an event cursor`, {
    code: 'invalid_cursor',
    hint: 'use the id of the last event that you saw, or 0:0 for the beginning',
  })
}

const isAfter = (a: Place, b: Place) => a.xid > b.xid || (a.xid === b.xid && a.id > b.id)

export function openTail({ db, clock, log, pollMs = pollDefaultMs }: TailOptions): Tail {
  const wake = makeWake(clock)
  /** Everything visible in (from, to], in order. */
  let kept: { readonly event: OutboxEvent; readonly place: Place }[] = []
  let from: Place | undefined
  let to = ''
  let marks = 0
  let followers = 0
  let placed: Promise<void> | undefined
  const nexts = new Set<() => void>()
  const ends = new Map<string, Set<() => void>>()

  async function now(): Promise<string> {
    return `${await visibleXid(db)}:${last.id}`
  }

  async function place(): Promise<void> {
    const cursor = await now()
    kept = []
    from = placeOf(cursor)
    to = cursor
  }

  function add(events: readonly OutboxEvent[]): void {
    for (const event of events) kept.push({ event, place: placeOf(event.cursor) })
    to = events.at(-1)!.cursor
    const over = kept.length - keptMax
    if (over > 0) {
      from = kept[over - 1]!.place
      kept.splice(0, over)
    }
    marks += 1
    for (const event of events)
      if (event.kind === 'task' && event.agent_turn_id !== null)
        for (const end of ends.get(event.agent_turn_id) ?? []) end()
    for (const next of nexts) next()
  }

  async function look(): Promise<void> {
    while (followers > 0 && from !== undefined) {
      const startedAt = to
      const events = await readEvents(db, to, pageMax).catch(async (error: unknown) => {
        // Retention overtook us: those who follow find out by their own cursors.
        if ((error as { code?: unknown }).code !== 'cursor_reset') throw error
        await place()
        return []
      })
      // The tail may have been placed anew while this was read.
      if (events.length > 0 && to === startedAt) add(events)
      if (events.length < pageMax) return
    }
  }

  async function since(cursor: string, max: number): Promise<readonly OutboxEvent[]> {
    const after = placeOf(cursor)
    if (from === undefined || isAfter(from, after)) return readEvents(db, cursor, max)
    let low = 0
    for (let high = kept.length; low < high;) {
      const middle = (low + high) >> 1
      if (isAfter(kept[middle]!.place, after)) high = middle
      else low = middle + 1
    }
    return kept.slice(low, low + max).map(({ event }) => event)
  }

  async function check(cursor: string): Promise<void> {
    if (!isAfter(placeOf(cursor), placeOf(await now()))) return
    throw new Terminal('this cursor is ahead of the database', { code: 'cursor_reset' })
  }

  /** Until `settle` is called or the signal fires; what was registered is always taken away. */
  function waiting<T>(
    signal: AbortSignal,
    aborted: T,
    register: (settle: (value: T) => void) => () => void,
  ): Promise<T> {
    return new Promise((resolve) => {
      if (signal.aborted) return resolve(aborted)
      const settle = (value: T) => {
        signal.removeEventListener('abort', abort)
        forget()
        resolve(value)
      }
      const abort = () => settle(aborted)
      const forget = register(settle)
      signal.addEventListener('abort', abort, { once: true })
    })
  }

  return {
    now,
    wake: () => wake.now(),
    run: (signal) => loop({ name: 'the tail of the events', intervalMs: pollMs, clock, log, signal }, look, wake),
    async follow() {
      followers += 1
      // Nobody was here: what was kept is old.
      if (followers === 1) placed = place()
      try {
        await placed
      } catch (error) {
        followers -= 1
        throw error
      }
      let open = true
      return {
        check,
        since,
        mark: () => marks,
        next: (mark, signal) =>
          marks !== mark
            ? Promise.resolve()
            : waiting<void>(signal, undefined, (settle) => {
                const next = () => settle()
                nexts.add(next)
                return () => nexts.delete(next)
              }),
        ended: (agentTurnId, signal) =>
          waiting(signal, false, (settle) => {
            const all = ends.get(agentTurnId) ?? new Set()
            const end = () => settle(true)
            ends.set(agentTurnId, all.add(end))
            return () => {
              all.delete(end)
              if (all.size === 0) ends.delete(agentTurnId)
            }
          }),
        stop() {
          if (open) followers -= 1
          open = false
          if (followers > 0) return
          kept = []
          from = undefined
        },
      }
    },
  }
}
