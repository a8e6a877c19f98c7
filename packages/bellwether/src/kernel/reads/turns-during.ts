/** Reads which other turns of a project ran during a span of time. Bounded: it scans the turns created last before the end of the span. */
import type { Queryable } from '../../ports/database/database.js'

export interface OverlappingTurn {
  readonly agent_turn_id: string
  readonly agent_id: string
  readonly started_at: Date
  readonly ended_at: Date | null
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
      select agent_turn_id, agent_id, started_at, ended_at from scanned
      where project_id = $1 and started_at <= $3 and (ended_at is null or ended_at >= $2)`,
    values: [projectId, from, to, idsUpTo(to)],
  })
}

const timeDigits = 12

/** Sorts after every UUIDv7 of this millisecond. */
function idsUpTo(at: Date): string {
  const hex = at.getTime().toString(16).padStart(timeDigits, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8)}~`
}
