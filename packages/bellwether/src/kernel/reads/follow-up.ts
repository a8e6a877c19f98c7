/** Reads what a follow-up takes from the turn that it continues: agent, session, place of work, and the turn as its parent. */
import { defined } from '@bellwether/base'
import { Terminal } from '@bellwether/protocol'
import type { TurnRow } from '@bellwether/protocol/http'
import type { Queryable } from '../../ports/database/database.js'
import type { NewTurn } from '../verbs/turn/enqueue.js'

export async function readFollowUp(db: Queryable, turn: TurnRow): Promise<NewTurn> {
  if (turn.ended_at === null)
    throw new Terminal(`Turn ${turn.agent_turn_id} has not ended`, {
      code: 'turn_not_ended',
      hint: `send it a message: bellwether turn say ${turn.agent_turn_id} "…"`,
    })
  const { agent_turn_id: agentTurnId, agent_id: agentId, project_id: projectId } = turn
  const [row] = await db.query<{ session_id: string | null; worktree: string | null; step_id: string | null }>({
    name: 'bw_read_follow_up',
    text: `select i.payload ->> 'session_id' as session_id, i.payload ->> 'worktree' as worktree,
        (select s.step_id from state.agent_steps s where s.agent_turn_id = $1
          order by s.started_at desc limit 1) as step_id
      from state.turn_row($1) i`,
    values: [agentTurnId],
  })
  const stepId = row?.step_id ?? undefined
  return {
    projectId,
    agentId,
    // A turn without a session is the first one of its own.
    sessionId: row?.session_id ?? `${ownSession}${agentTurnId}`,
    source: { agentId, agentTurnId, ...defined({ stepId }) },
    payload: { continues: agentTurnId, ...defined({ worktree: row?.worktree ?? undefined }) },
    ...defined({ channelId: turn.channel_id ?? undefined }),
  }
}

/** The name of the session that a turn without one begins, before the id of the turn. */
export const ownSession = 'turn-'
