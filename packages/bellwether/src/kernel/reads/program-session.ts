/** Reads the session that a run of a coding agent's program resumes: that of the turn itself, of its session of turns, or of the turn it continues. */
import type { Queryable } from '../../ports/database/database.js'
import type { Fence } from '../verdict.js'
import type { ProgramSession } from '../verbs/content/store_session.js'

export interface StoredSession extends ProgramSession {
  readonly agentTurnId: string
  /** What the last recorded run of the session used, and what the session had used before it, as the steps say. */
  readonly used: readonly unknown[]
}

interface Row {
  readonly agent_turn_id: string
  readonly program: string
  readonly program_session_id: string
  readonly folder: string
  readonly resumed: boolean
  readonly answered: boolean
  readonly messages_seen: number
  readonly used: unknown
  readonly used_before: unknown
}

export async function readProgramSession(
  db: Queryable,
  { projectId, agentId, agentTurnId }: Fence,
): Promise<StoredSession | undefined> {
  const columns = 's.agent_turn_id, s.program, s.program_session_id, s.folder, s.resumed, s.answered, s.messages_seen'
  const [row] = await db.query<Row>({
    name: 'bw_program_session',
    text: `with turn as (select payload ->> 'session_id' as session_key, payload ->> 'continues' as continues
        from state.turn_row($3))
      select found.*, last.* from (
        select 1 as rank, ${columns} from state.program_sessions s where s.agent_turn_id = $3
        union all
        (select 2, ${columns} from turn t join state.program_sessions s on s.project_id = $1 and s.agent_id = $2
          and s.session_key = t.session_key order by s.stored_at desc limit 1)
        union all
        select 3, ${columns} from turn t join state.program_sessions s on s.agent_turn_id = t.continues
          and s.project_id = $1 and s.agent_id = $2) found
      left join lateral (select p.metadata -> 'usage' as used, p.metadata #> '{session,before}' as used_before
        from state.agent_steps p where p.agent_turn_id = found.agent_turn_id
          and p.metadata #>> '{session,id}' = found.program_session_id
        order by p.started_at desc, p.step_id desc limit 1) last on true
      order by rank limit 1`,
    values: [projectId, agentId, agentTurnId],
  })
  if (row === undefined) return undefined
  const { agent_turn_id, program, program_session_id: programSessionId, folder, resumed, answered, messages_seen } = row
  // Messages are numbered per turn.
  const messagesSeen = agent_turn_id === agentTurnId ? messages_seen : 0
  const used = [row.used_before, row.used].filter((one) => one !== null)
  return { agentTurnId: agent_turn_id, program, programSessionId, folder, resumed, answered, messagesSeen, used }
}
