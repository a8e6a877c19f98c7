/**
 * Reading the outbox. The cursor is the pair (xid, event_id) as text, "xid:event_id"; it is also the SSE `Last-Event-ID`.
 * Nothing is skipped and nothing repeated, whatever order transactions commit in (hazard 4).
 */
import { InvalidInput, Terminal } from '@bellwether/protocol'
import type { Queryable } from '../../ports/database/database.js'

export interface OutboxEvent {
  readonly cursor: string
  readonly event_id: number
  readonly project_id: string
  readonly subject: string
  readonly kind: 'task' | 'state' | 'step' | 'command'
  readonly payload: Readonly<Record<string, unknown>>
  readonly agent_turn_id: string | null
  readonly created_at: Date
}

export const beginning = '0:0'

const cursorPattern = /^(\d{1,20}):(\d{1,19})$/

export async function readEvents(db: Queryable, cursor: string, limit: number): Promise<OutboxEvent[]> {
  const parts = cursorPattern.exec(cursor)
  if (parts === null) {
    throw new InvalidInput(`${JSON.stringify(cursor.slice(0, 80))} is not an event cursor`, {
      code: 'invalid_cursor',
      hint: `use the id of the last event that you saw, or ${beginning} for the beginning`,
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
    if (error instanceof Error && 'code' in error && error.code === 'BW004') {
      throw new Terminal(error.message, {
        code: 'cursor_reset',
        cause: error,
        hint: 'read the present state, then start from the beginning',
      })
    }
    throw error
  }
}
