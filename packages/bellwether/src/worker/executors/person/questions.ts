/**
 * What people are being asked right now: the calls that wait for them, the most urgent first. Reads only. Answering one is an
 * ordinary tool result (`kernel.report`), by its `tool_call_id`.
 */
import type { Queryable } from '../../../ports/database/database.js'
import { peopleHost } from './person.js'

export interface OpenQuestion {
  readonly project_id: string
  readonly agent_id: string
  readonly agent_turn_id: string
  readonly tool_call_id: string
  /** to, question, choices, result_fields, refused: as the executor asked it. */
  readonly arguments: Readonly<Record<string, unknown>>
  readonly asked_at: Date
  readonly answer_until: Date | null
}

// More than anybody reads at once; the next ones come when these are answered.
const questionsMax = 500

/** `to`: of one person only. Walks the active turns by their index, not all the waits there ever were. */
export async function openQuestions(db: Queryable, projectId: string, to?: string): Promise<OpenQuestion[]> {
  return db.query<OpenQuestion>({
    name: 'bw_open_questions',
    text: `select h.project_id, h.agent_id, h.active_agent_turn_id as agent_turn_id, w.tool_call_id, c.content -> 'arguments' as arguments,
        w.created_at as asked_at, h.resume_deadline as answer_until
      from state.agent_state_head h
      join state.turn_waiting_tools w on w.agent_turn_id = h.active_agent_turn_id and w.turn_epoch = h.turn_epoch
      join cards.cards c on c.card_id = w.tool_call_card_id
      where h.active_agent_turn_id is not null and h.project_id = $1 and h.status = 'suspended' and h.waiting_tool_count > 0
        and w.wait_status = 'waiting' and w.started_by = $2 and ($3::text is null or c.content -> 'arguments' ->> 'to' = $3)
        and not exists (select from state.agent_inbox r where r.agent_turn_id = w.agent_turn_id and r.correlation_id = w.tool_call_id
          and r.message_type in ('tool_result', 'timeout') offset 0)
      order by h.resume_deadline nulls last, w.tool_call_id limit ${questionsMax}`,
    values: [projectId, peopleHost, to ?? null],
  })
}
