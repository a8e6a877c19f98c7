/**
 * Reads new events of the outbox once for all followers. A follower gets every event after its cursor once, in the outbox's order. The
 * newest events are cached in bounded memory; a follower that is further behind reads the database. Without followers nothing is read.
 * A bell shortens the wait for the next read.
 */
import { onAbort, type Clock, type Log, makeWake } from '@bellwether/base'
import { InvalidInput, Terminal } from '@bellwether/protocol'
import { readEvents, outboxEnd, type OutboxEvent } from '../kernel/verbs/events.js'
import type { Queryable } from '../ports/database/database.js'
import { loop } from '../ports/loop.js'

export interface Follower {
  /** Throws if the cursor is malformed, and `cursor_reset` if the database has not reached it: it was restored to an older state. */
  check(cursor: string): Promise<void>
  /** At most `max` events after the cursor. Throws `cursor_reset` if retention has removed some of them. */
  since(cursor: string, max: number): Promise<readonly OutboxEvent[]>
  /** Resolves when there are events after `mark`, or when the signal aborts. */
  next(mark: number, signal: AbortSignal): Promise<void>
  mark(): number
  /** Resolves with true when the turn ends, with false when the signal aborts. */
  ended(agentTurnId: string, signal: AbortSignal): Promise<boolean>
  /** Calls `listener` with each turn that ends, until `stop`. */
  onEnd(listener: (agentTurnId: string) => void): void
  stop(): void
}

export interface Tail {
  /** Resolves when the tail has a position: it reads every event that becomes visible after that. */
  follow(): Promise<Follower>
  /** The cursor after all visible events. */
  now(): Promise<string>
  /** Reads at once. */
  wake(): void
  run(signal: AbortSignal): Promise<void>
}

export interface TailOptions {
  readonly db: Queryable
  readonly clock: Clock
  readonly log: Log
  /** How often it reads without a bell. */
  readonly pollMs?: number
}

// A few megabytes: a follower that is a few seconds behind costs no query.
const cachedMax = 5_000
const pageMax = 1_000
// Short enough to seem immediate to a person; each read uses an index.
const pollDefaultMs = 200
// Without new events it reads once per second; the bell announces the next one.
const idleFactor = 5

interface Position {
  readonly era: bigint
  readonly id: bigint
}

const cursorPattern = /^(\d{1,20}):(\d{1,19})$/
// The maximum of an xid8, and of a bigint.
const last = { era: 2n ** 64n - 1n, id: 2n ** 63n - 1n } as const

function positionOf(cursor: string): Position {
  const [, era = '', id = ''] = cursorPattern.exec(cursor) ?? []
  const position = { era: BigInt(era), id: BigInt(id) }
  if (era !== '' && position.era <= last.era && position.id <= last.id) return position
  throw new InvalidInput(`${JSON.stringify(cursor.slice(0, 80))} is not an event cursor`, {
    code: 'invalid_cursor',
    hint: 'use the id of the last event that you read, or 0:0 for the beginning',
  })
}

const isAfter = (a: Position, b: Position) => a.era > b.era || (a.era === b.era && a.id > b.id)

export function openTail({ db, clock, log, pollMs = pollDefaultMs }: TailOptions): Tail {
  const wake = makeWake(clock)
  /** All visible events in (from, to], in order. */
  let cached: { readonly event: OutboxEvent; readonly position: Position }[] = []
  let from: Position | undefined
  let to = ''
  let marks = 0
  let followers = 0
  let positioned: Promise<void> | undefined
  const waiters = new Set<() => void>()
  const endWaiters = new Map<string, Set<() => void>>()
  const endListeners = new Set<(agentTurnId: string) => void>()

  async function now(): Promise<string> {
    return (await outboxEnd(db)).readable
  }

  async function reposition(): Promise<void> {
    const cursor = await now()
    cached = []
    from = positionOf(cursor)
    to = cursor
  }

  function add(events: readonly OutboxEvent[]): void {
    for (const event of events) cached.push({ event, position: positionOf(event.cursor) })
    to = events.at(-1)!.cursor
    const over = cached.length - cachedMax
    if (over > 0) {
      from = cached[over - 1]!.position
      cached.splice(0, over)
    }
    marks += 1
    for (const event of events)
      if (event.kind === 'task' && event.agent_turn_id !== null) {
        for (const end of endWaiters.get(event.agent_turn_id) ?? []) end()
        for (const listener of endListeners) listener(event.agent_turn_id)
      }
    for (const next of waiters) next()
  }

  async function readNew(): Promise<'quiet' | 'read'> {
    let result: 'quiet' | 'read' = 'quiet'
    while (followers > 0 && from !== undefined) {
      const startedAt = to
      const events = await readEvents(db, to, pageMax).catch(async (error: unknown) => {
        // Retention removed events that were not read yet: each follower finds out by its own cursor.
        if ((error as { code?: unknown }).code !== 'cursor_reset') throw error
        await reposition()
        return []
      })
      // The tail may have got a new position during the read.
      if (events.length > 0 && to === startedAt) add(events)
      if (events.length > 0) result = 'read'
      if (events.length < pageMax) return result
    }
    return result
  }

  async function since(cursor: string, max: number): Promise<readonly OutboxEvent[]> {
    const after = positionOf(cursor)
    if (from === undefined || isAfter(from, after)) return readEvents(db, cursor, max)
    let low = 0
    for (let high = cached.length; low < high;) {
      const middle = (low + high) >> 1
      if (isAfter(cached[middle]!.position, after)) high = middle
      else low = middle + 1
    }
    return cached.slice(low, low + max).map(({ event }) => event)
  }

  async function check(cursor: string): Promise<void> {
    if (!isAfter(positionOf(cursor), positionOf((await outboxEnd(db)).newest))) return
    throw new Terminal('The cursor is ahead of the database', { code: 'cursor_reset' })
  }

  /** Resolves when `settle` is called or the signal aborts, and then always unregisters. */
  function waitFor<T>(
    signal: AbortSignal,
    aborted: T,
    register: (settle: (value: T) => void) => () => void,
  ): Promise<T> {
    return new Promise((resolve) => {
      if (signal.aborted) return resolve(aborted)
      const settle = (value: T) => {
        release()
        unregister()
        resolve(value)
      }
      const unregister = register(settle)
      const release = onAbort(signal, () => settle(aborted))
    })
  }

  return {
    now,
    wake: () => wake.now(),
    run: (signal) =>
      loop(
        { name: 'read new events', intervalMs: pollMs, quietMaxMs: pollMs * idleFactor, clock, log, signal },
        readNew,
        wake,
      ),
    async follow() {
      followers += 1
      // The first follower: the cache is out of date.
      if (followers === 1) positioned = reposition()
      try {
        await positioned
      } catch (error) {
        followers -= 1
        throw error
      }
      let open = true
      const listeners = new Set<(agentTurnId: string) => void>()
      return {
        check,
        since,
        mark: () => marks,
        next: (mark, signal) =>
          marks !== mark
            ? Promise.resolve()
            : waitFor<void>(signal, undefined, (settle) => {
                const next = () => settle()
                waiters.add(next)
                return () => waiters.delete(next)
              }),
        ended: (agentTurnId, signal) =>
          waitFor(signal, false, (settle) => {
            const all = endWaiters.get(agentTurnId) ?? new Set()
            const end = () => settle(true)
            endWaiters.set(agentTurnId, all.add(end))
            return () => {
              all.delete(end)
              if (all.size === 0) endWaiters.delete(agentTurnId)
            }
          }),
        onEnd(listener) {
          listeners.add(listener)
          endListeners.add(listener)
        },
        stop() {
          for (const listener of listeners) endListeners.delete(listener)
          if (open) followers -= 1
          open = false
          if (followers > 0) return
          cached = []
          from = undefined
        },
      }
    },
  }
}
