/** Resume: every awaited result is there; the first worker to say so holds the turn. */
import type { AfterExecution, ResultStatus, WaitStatus } from '@bellwether/protocol'
import type { Queryable } from '../../../ports/database/database.js'
import { call, fenceRow, type Fence } from '../../verdict.js'

/** `stepId`: the step whose results the caller has read; a turn that has gone on since is not resumed with old ones. */
export async function resume(
  db: Queryable,
  fence: Fence,
  workerId: string,
  stepId?: string,
): Promise<'resumed' | 'stale'> {
  const [verdict] = await call(db, 'resume', [{ ...fenceRow(fence), step_id: stepId }], workerId)
  return verdict?.what === 'resumed' ? 'resumed' : 'stale'
}

export interface ToolResult {
  readonly tool_call_id: string
  readonly tool_name: string
  readonly step_id: string
  readonly wait_status: WaitStatus
  readonly after_execution: AfterExecution
  readonly status: ResultStatus
  readonly result: unknown
  readonly error: { readonly code: string; readonly message?: string } | null
}

/** The results of a turn's latest step that suspended, in the order of its calls. */
export async function readResults(db: Queryable, agentTurnId: string): Promise<ToolResult[]> {
  return db.query<ToolResult>({
    name: 'bw_read_results',
    text: `select w.tool_call_id, w.tool_name, w.step_id, w.wait_status, w.after_execution, c.content ->> 'status' as status,
        c.content -> 'result' as result, c.content -> 'error' as error
      from state.turn_waiting_tools w
      join cards.cards c on c.card_id = w.tool_result_card_id
      where w.agent_turn_id = $1 and w.step_id = (
        select l.step_id from state.turn_waiting_tools l where l.agent_turn_id = $1 order by l.wait_seq desc limit 1)
      order by w.tool_call_card_id`,
    values: [agentTurnId],
  })
}
