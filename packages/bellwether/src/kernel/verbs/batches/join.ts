/**
 * Join: follows batches to their end and answers their parents. The answer of a closed batch does not change, so any process may give it any
 * number of times. The PMO decides when to call these verbs.
 */
import type { Queryable } from '../../../ports/database/database.js'
import type { Ids } from '../../../ports/ids.js'
import { call, callWith } from '../../verdict.js'
import type { ReportVerdict } from '../tools/report.js'
import type { StopVerdict } from '../turn/stop.js'
import { sweepMax } from '../watchdog/watchdog.js'

/** Sends the parents of closed batches one receipt each. */
export async function answerBatches(db: Queryable, ids: Ids, batchIds: readonly string[]): Promise<ReportVerdict[]> {
  const items = batchIds.map((batchId) => ({ batch_id: batchId, inbox_id: ids.next(), card_id: ids.next() }))
  return call(db, 'answer_batches', items)
}

/** An action that a batch needs, or (`look`) how long until the next batch is due. */
export interface Due {
  readonly what: 'answer' | 'stop' | 'dispatch' | 'look' | 'open' | 'settled'
  readonly batch_id: string
  readonly project_id: string
  readonly turns: readonly string[] | null
  readonly due_in_ms: number | null
}

// One call counts this many batches of 1,000 tasks in well under one second.
export const batchesMax = 50

/** Looks at the batches that are due, and at those that a worker has rung for. */
export async function collectBatches(db: Queryable, ids: Ids, rung: readonly string[]): Promise<Due[]> {
  const edgeIds = Array.from({ length: batchesMax }, () => ids.next())
  return callWith<Due>(db, 'collect_batches', edgeIds, rung)
}

export async function retireAgents(db: Queryable, batchIds: readonly string[]): Promise<void> {
  await db.query({ name: 'bw_retire_agents', text: 'select state.retire_agents($1)', values: [batchIds] })
}

/** Stops the children that a closed batch no longer needs. */
export async function stopChildren(db: Queryable, ids: Ids, due: Due): Promise<StopVerdict[]> {
  const items = (due.turns ?? [])
    .slice(0, sweepMax)
    .map((agentTurnId) => ({
      project_id: due.project_id,
      agent_turn_id: agentTurnId,
      inbox_id: ids.next(),
      card_id: ids.next(),
      stopped_by: `batch ${due.batch_id}`,
      reason: 'its batch is over',
    }))
  return call(db, 'stop', items)
}
