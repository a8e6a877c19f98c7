/**
 * Reads the outbox and keeps the positions of its readers. A cursor is the pair (era, event_id) as text, "era:event_id"; it is also the
 * SSE `Last-Event-ID`. Readers skip nothing and repeat nothing, in whatever order transactions commit (hazard 4).
 */
import { hasCode } from '@bellwether/base'
import { InvalidInput, Terminal } from '@bellwether/protocol'
import type { EventRow } from '@bellwether/protocol/http'
import type { Queryable } from '../../ports/database/database.js'

export interface OutboxEvent extends Readonly<EventRow> {
  readonly cursor: string
  readonly project_id: string
}

export const beginning = '0:0'

const cursorPattern = /^(\d{1,20}):(\d{1,19})$/

export async function readEvents(db: Queryable, cursor: string, limit: number): Promise<OutboxEvent[]> {
  const parts = cursorPattern.exec(cursor)
  if (parts === null) {
    throw new InvalidInput(`Invalid event cursor ${JSON.stringify(cursor.slice(0, 80))}`, {
      code: 'invalid_cursor',
      hint: `use the id of the last event that you received, or ${beginning} for the beginning`,
    })
  }
  try {
    const rows = await db.query<Omit<OutboxEvent, 'cursor'> & { xid: string }>({
      name: 'bw_read_events',
      text: 'select * from state.read_events($1::text::xid8, $2, $3)',
      values: [parts[1], parts[2], limit],
    })
    return rows.map(({ xid, ...event }) => ({ ...event, cursor: `${xid}:${event.event_id}` }))
  } catch (error) {
    throw cursorReset(error)
  }
}

/** The same error, with a name if retention has removed the events after the cursor. */
function cursorReset(error: unknown): unknown {
  if (!hasCode(error, 'BW004')) return error
  const hint = 'read the current state, then read events from the beginning'
  return new Terminal(error.message, { code: 'cursor_reset', cause: error, hint })
}

export interface FailedTurn extends Pick<OutboxEvent, 'project_id' | 'agent_turn_id' | 'payload'> {
  readonly created_at: string
}

export interface FailurePage {
  readonly cursor_from: string
  readonly cursor_to: string
  readonly failures: readonly FailedTurn[]
}

/** The turns that failed after the stored position of the reader, of at most `max` rows of the outbox. Undefined: nothing is new. */
export async function readFailures(db: Queryable, name: string, max: number): Promise<FailurePage | undefined> {
  try {
    const [page] = await db.query<FailurePage>({
      name: 'bw_read_failures',
      text: 'select * from state.read_failures($1, $2)',
      values: [name, max],
    })
    return page
  } catch (error) {
    throw cursorReset(error)
  }
}

export interface OutboxEnd {
  /** The cursor of the last event that can be read now: where a reader without history begins. */
  readonly readable: string
  /** The cursor of the newest committed event. No reader has a later one, unless the database was restored to an older state. */
  readonly newest: string
}

export async function outboxEnd(db: Queryable): Promise<OutboxEnd> {
  const [row] = await db.query<OutboxEnd>({ name: 'bw_outbox_end', text: 'select * from state.outbox_end()' })
  if (row === undefined) throw new Error('The database returned no end of the outbox')
  return row
}

/** The stored position of a reader. */
export async function readCursor(db: Queryable, name: string): Promise<string | undefined> {
  const [row] = await db.query<{ cursor: string }>({
    text: "select xid::text || ':' || event_id as cursor from state.event_cursors where name = $1",
    values: [name],
  })
  return row?.cursor
}

/** The position after the last event that retention removed: where a new reader begins. */
export async function oldestCursor(db: Queryable): Promise<string> {
  return (await readCursor(db, 'pruned')) ?? beginning
}

/** The stored position of a reader; a new reader starts at the present, without the history. */
export async function openCursor(db: Queryable, name: string): Promise<string> {
  const stored = await readCursor(db, name)
  if (stored !== undefined) return stored
  await advanceCursor(db, name, (await outboxEnd(db)).readable)
  const created = await readCursor(db, name)
  if (created === undefined) throw new Error(`Cannot store the event cursor "${name}"`)
  return created
}

/** Stores a reader's position, unless the stored one is already further. */
export async function advanceCursor(db: Queryable, name: string, cursor: string): Promise<void> {
  await db.query({
    name: 'bw_advance_cursor',
    text: `insert into state.event_cursors as c (name, xid, event_id, updated_at)
      values ($1, split_part($2, ':', 1)::xid8, split_part($2, ':', 2)::bigint, state.now())
      on conflict (name) do update set xid = excluded.xid, event_id = excluded.event_id,
        updated_at = excluded.updated_at
      where (excluded.xid, excluded.event_id) > (c.xid, c.event_id)`,
    values: [name, cursor],
  })
}

/** Moves a reader's position from one cursor to the next. False: another process has moved it in between. */
export async function moveCursor(db: Queryable, name: string, from: string, to: string): Promise<boolean> {
  const rows = await db.query({
    text: `update state.event_cursors set xid = split_part($3, ':', 1)::xid8, event_id = split_part($3, ':', 2)::bigint,
        updated_at = state.now()
      where name = $1 and xid = split_part($2, ':', 1)::xid8 and event_id = split_part($2, ':', 2)::bigint
      returning name`,
    values: [name, from, to],
  })
  return rows.length === 1
}

/**
 * Makes this process the only sender of a reader whose order matters, until the lease ends. False: another process is. `holder` is a
 * number that only this process has.
 */
export async function leaseReader(db: Queryable, name: string, holder: number, leaseSeconds: number): Promise<boolean> {
  const rows = await db.query({
    text: `insert into state.event_cursors as c (name, xid, event_id, updated_at)
      values ($1, '0', $2, state.now())
      on conflict (name) do update set event_id = excluded.event_id, updated_at = excluded.updated_at
      where c.event_id = excluded.event_id or c.updated_at < excluded.updated_at - make_interval(secs => $3)
      returning name`,
    values: [`${name}:sender`, holder, leaseSeconds],
  })
  return rows.length === 1
}
