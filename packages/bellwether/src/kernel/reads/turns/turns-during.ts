/**
 * Reads which turns of a project ran during a span of time, and when each of them only waited for people. Bounded: it scans the turns created
 * last before the end of the span.
 */
import type { Queryable } from '../../../ports/database/database.js'

export interface OverlappingTurn {
  readonly agent_turn_id: string
  readonly agent_id: string
  readonly started_at: Date
  readonly ended_at: Date | null
  /** Waits for a person or a held account while no tool ran. Seconds since 1970. */
  readonly idle: readonly (readonly [from: number, to: number])[]
}

// Index entries: a few milliseconds.
const scanMax = 2_000

/** Turn ids begin with the time of their creation (UUIDv7): no turn that was created after `to` can have run before it. */
export async function readTurnsDuring(
  db: Queryable,
  projectId: string,
  from: Date,
  to: Date,
): Promise<readonly OverlappingTurn[]> {
  return db.query<OverlappingTurn>({
    name: 'bw_turns_during',
    text: `with scanned as materialized (
        select i.agent_turn_id, i.agent_id, i.project_id, i.started_at, i.ended_at from state.agent_inbox i
        where i.message_type in ('turn', 'ui_action') and i.agent_turn_id < $4
        order by i.agent_turn_id desc limit ${scanMax}
      )
      select s.agent_turn_id, s.agent_id, s.started_at, s.ended_at, (
        select coalesce(json_agg(json_build_array(extract(epoch from lower(r)), extract(epoch from upper(r)))), '[]')
        from (
          select unnest(range_agg(w.span) filter (where w.is_idle)
            - coalesce(range_agg(w.span) filter (where not w.is_idle), '{}')) as r
          from (
            select coalesce(w.started_by in ('person', 'people', 'account'), false) as is_idle,
              tstzrange(w.created_at, greatest(w.created_at, coalesce(c.created_at, s.ended_at, state.now()))) as span
            from state.turn_waiting_tools w left join cards.cards c on c.card_id = w.tool_result_card_id
            where w.agent_turn_id = s.agent_turn_id) w) ranges) as idle
      from scanned s
      where s.project_id = $1 and s.started_at <= $3 and (s.ended_at is null or s.ended_at >= $2)`,
    values: [projectId, from, to, idsUpTo(to)],
  })
}

const timeDigits = 12

/** Sorts after every UUIDv7 of this millisecond. */
function idsUpTo(at: Date): string {
  const hex = at.getTime().toString(16).padStart(timeDigits, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8)}~`
}
