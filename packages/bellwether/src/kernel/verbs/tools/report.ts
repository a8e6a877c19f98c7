/** Report: a tool, or a watchdog in its place, sends the receipt for a call. A receipt that no turn waits for is ignored. */
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
  /** If present, the receipt counts only for this turn and epoch. */
  readonly fence?: Pick<Fence, 'agentTurnId' | 'turnEpoch'>
}

export type ReportResult = 'reported' | 'ignored' | 'unknown_tool_call'
export type ReportVerdict = Verdict<ReportResult>

export async function report(
  db: Queryable,
  ids: Ids,
  receipts: readonly Receipt[],
): Promise<{ results: ReportResult[]; verdicts: ReportVerdict[] }> {
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
  const verdicts = await call<ReportVerdict>(db, 'report', rows)
  const byRow = new Map(verdicts.map((verdict) => [verdict.inbox_id, verdict]))
  const results = rows.map((row) => {
    const verdict = byRow.get(row.inbox_id)
    if (verdict !== undefined) return verdict.what
    throw new InvalidInput(`The kernel did not accept the receipt for tool call "${row.tool_call_id}"`, {
      code: 'report_failed',
    })
  })
  return { results, verdicts }
}
