/** Receipts: what a tool (or a watchdog in its place) has to say. One that nobody waits for is acknowledged and changes nothing. */
import { InvalidInput, token, type AfterExecution, type ResultStatus } from '@bellwether/protocol'
import type { Queryable } from '../../../ports/database/database.js'
import type { Ids } from '../../../ports/ids.js'
import { cardMaxBytes, plainText, storable } from '../../content.js'
import { call, type Fence, type Verdict } from '../../verdict.js'

export interface Receipt {
  readonly projectId: string
  readonly toolCallId: string
  readonly status: ResultStatus
  readonly result?: unknown
  readonly error?: { readonly code: string; readonly message?: string }
  readonly afterExecution?: AfterExecution
  /** Given: the receipt counts only for this turn and epoch. */
  readonly fence?: Pick<Fence, 'agentTurnId' | 'turnEpoch'>
}

export type ReportResult = 'reported' | 'ignored' | 'unknown_tool_call'

export async function report(
  db: Queryable,
  ids: Ids,
  receipts: readonly Receipt[],
): Promise<{ results: ReportResult[]; verdicts: Verdict[] }> {
  const rows = receipts.map((receipt) => {
    storable(receipt.result ?? null, `the result of ${receipt.toolCallId.slice(0, 80)}`, cardMaxBytes)
    storable(receipt.error ?? null, `the error of ${receipt.toolCallId.slice(0, 80)}`, cardMaxBytes)
    return {
      project_id: token(receipt.projectId, 'project'),
      tool_call_id: plainText(receipt.toolCallId, 'tool_call_id'),
      message_type: 'tool_result',
      status: receipt.status,
      result: receipt.result ?? null,
      error: receipt.error,
      after_execution: receipt.afterExecution,
      agent_turn_id: receipt.fence?.agentTurnId,
      turn_epoch: receipt.fence?.turnEpoch,
      inbox_id: ids.next(),
      card_id: ids.next(),
    }
  })
  const verdicts = await call(db, 'report', rows)
  const byRow = new Map(verdicts.map((verdict) => [verdict.inbox_id, verdict]))
  const results = rows.map((row) => {
    const what = byRow.get(row.inbox_id)?.what
    if (what === 'reported' || what === 'ignored' || what === 'unknown_tool_call') return what
    throw new InvalidInput(`the receipt for ${row.tool_call_id} was not taken`, { code: 'report_failed' })
  })
  return { results, verdicts }
}
