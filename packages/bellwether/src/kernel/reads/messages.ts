/** Reads the messages to a turn: all of them, or whether any waits. */
import type { TurnMessageRow } from '@bellwether/protocol/http'
import type { Queryable } from '../../ports/database/database.js'
import type { TurnMessage } from '../verbs/content/messages.js'

/** In order; a turn has a bounded number. `after`: only later ones. */
export async function readMessages(db: Queryable, agentTurnId: string, after = 0): Promise<TurnMessageRow[]> {
  return db.query<TurnMessageRow>({
    name: 'bw_read_messages',
    text: `select m.seq, m.sender, m.content as text, m.urgent, m.created_at, m.delivered_at
      from state.turn_messages m where m.agent_turn_id = $1 and m.seq > $2 order by m.seq`,
    values: [agentTurnId, after],
  })
}

/** Whether a message waits for the agent, and whether one of them is urgent. */
export async function readWaiting(
  db: Queryable,
  agentTurnId: string,
): Promise<{ readonly waiting: boolean; readonly urgent: boolean }> {
  const [row] = await db.query<{ waiting: boolean; urgent: boolean }>({
    name: 'bw_read_waiting_messages',
    text: `select count(*) > 0 as waiting, coalesce(bool_or(m.urgent), false) as urgent
      from state.turn_messages m where m.agent_turn_id = $1 and m.delivered_at is null`,
    values: [agentTurnId],
  })
  return row ?? { waiting: false, urgent: false }
}

export const messageOf = ({ seq, sender, text, created_at: createdAt }: TurnMessageRow): TurnMessage => ({
  seq,
  sender,
  text,
  createdAt: new Date(createdAt),
})
