/** Reads what turns wait for, the results of their tool calls, and the interventions of the watchdogs. Reads only, bounded. */
import type { InterventionRow, QuestionRow, ToolResult } from '@bellwether/protocol/http'
import type { Queryable } from '../../ports/database/database.js'
import { askPerson } from '../pmo-tools.js'
import { scanBack } from './scan.js'

/** The results of a turn's latest step that suspended, in the order of its tool calls. */
export async function readResults(db: Queryable, agentTurnId: string): Promise<ToolResult[]> {
  return db.query<ToolResult>({
    name: 'bw_read_results',
    text: `select w.tool_call_id, w.tool_name, w.step_id, w.wait_status, w.after_execution,
        c.content ->> 'status' as status, c.content -> 'result' as result, c.content -> 'error' as error
      from state.turn_waiting_tools w
      join cards.cards c on c.card_id = w.tool_result_card_id
      where w.agent_turn_id = $1 and w.step_id = (
        select l.step_id from state.turn_waiting_tools l where l.agent_turn_id = $1 order by l.wait_seq desc limit 1)
      order by w.tool_call_card_id`,
    values: [agentTurnId],
  })
}

export interface CallOwner {
  /** Whether a person must answer the call. */
  readonly is_question: boolean
  readonly worker_target: string
  /** The API key of the worker that made the call over HTTP. */
  readonly key_id: string | null
}

/** Whose call it is, for the check of who may answer it. */
export async function readCallOwner(
  db: Queryable,
  projectId: string,
  toolCallId: string,
): Promise<CallOwner | undefined> {
  const [owner] = await db.query<CallOwner>({
    name: 'bw_call_owner',
    text: `select w.tool_name = $3 as is_question, h.worker_target, l.key_id
      from state.turn_waiting_tools w cross join lateral state.head(w.project_id, w.agent_id) h
      left join state.lease_tokens l on l.agent_turn_id = w.agent_turn_id
      where w.project_id = $1 and w.tool_call_id = $2`,
    values: [projectId, toolCallId, askPerson],
  })
  return owner
}

/** Oldest first. Scans the turns that wait now, which are few, and not the history. */
export async function readQuestions(db: Queryable, projectId: string, limit: number): Promise<QuestionRow[]> {
  return db.query<QuestionRow>({
    name: 'bw_read_questions',
    text: `select w.tool_call_id, w.agent_id, w.agent_turn_id, c.content -> 'arguments' as arguments,
        w.created_at as asked_at, h.resume_deadline as deadline
      from state.agent_state_head h
      join state.turn_waiting_tools w on w.agent_turn_id = h.active_agent_turn_id and w.turn_epoch = h.turn_epoch
      left join cards.cards c on c.card_id = w.tool_call_card_id
      where h.awake and h.active_agent_turn_id is not null and h.project_id = $1 and h.status = 'suspended'
        and w.wait_status = 'waiting' and w.tool_name = $2
      order by w.wait_seq limit $3`,
    values: [projectId, askPerson, limit],
  })
}

export interface InterventionQuery {
  readonly projectId?: string | undefined
  readonly kind?: string | undefined
  /** Only interventions older than this one. */
  readonly before?: number | undefined
  readonly limit: number
}

/** Newest first. A short page may still have a cursor. */
export async function listInterventions(
  db: Queryable,
  { projectId, kind, before, limit }: InterventionQuery,
): Promise<{ readonly interventions: readonly InterventionRow[]; readonly cursor: number | null }> {
  const { rows, cursor } = await scanBack<InterventionRow & { readonly counted: boolean }>(db, {
    ...{ name: 'bw_list_interventions', table: 'state.interventions', id: 'intervention_id', before, limit },
    where: '($3::text is null or l.project_id = $3) and ($4::text is null or l.kind = $4)',
    values: [projectId ?? null, kind ?? null],
  })
  return { interventions: rows.map(({ counted: _counted, ...row }) => row), cursor }
}
