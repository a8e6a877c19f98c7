/** The calls of tools that the PMO hosts (T3.3e): it reads them with their arguments, and takes a call together with its batch. */
import type { Queryable } from '../../../ports/database/database.js'
import type { Ids } from '../../../ports/ids.js'
import { pmoHost } from '../../pmo-tools.js'
import { callWith, type Fence } from '../../verdict.js'
import { cardProblem } from '../cards.js'
import { forkOfCall, waitSeconds, type NewBatch } from '../batches/fork.js'

export interface PmoCall extends Fence {
  readonly stepId: string
  readonly toolCallId: string
  /** The last part of the subject to which the call was sent. */
  readonly pmoTool: string
  readonly args: unknown
}

interface PmoCallRow {
  readonly project_id: string
  readonly agent_id: string
  readonly agent_turn_id: string
  readonly turn_epoch: number
  readonly step_id: string
  readonly tool_call_id: string
  readonly pmo_tool: string
  readonly arguments: unknown
}

/** Calls that no PMO has taken, oldest first. */
export async function readPmoCalls(db: Queryable, max: number): Promise<PmoCall[]> {
  const rows = await callWith<PmoCallRow>(db, 'pmo_calls', max)
  return rows.map((row) => ({
    projectId: row.project_id,
    agentId: row.agent_id,
    agentTurnId: row.agent_turn_id,
    turnEpoch: row.turn_epoch,
    stepId: row.step_id,
    toolCallId: row.tool_call_id,
    pmoTool: row.pmo_tool,
    args: row.arguments,
  }))
}

/** `gone`: another PMO has taken the call, or no turn waits for it. */
export async function takeCall(db: Queryable, ids: Ids, call: PmoCall, batch: NewBatch): Promise<'taken' | 'gone'> {
  const { projectId, toolCallId, agentTurnId, turnEpoch } = call
  const fork = JSON.stringify(forkOfCall(ids, call, call.stepId, toolCallId, batch))
  const fence = [projectId, toolCallId, agentTurnId, turnEpoch]
  const rows = callWith<{ what: 'taken' | 'gone' }>(db, 'take_call', ...fence, pmoHost, waitSeconds(batch), fork)
  const [row] = await rows.catch(cardProblem)
  return row?.what ?? 'gone'
}
