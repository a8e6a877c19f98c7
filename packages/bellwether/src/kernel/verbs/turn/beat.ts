/** Beats: a worker's turns are alive. What is not answered is lost. */
import type { Activity } from '@bellwether/protocol'
import type { Queryable } from '../../../ports/database/database.js'
import { call, fenceRow, type Fence } from '../../verdict.js'

export interface Beat extends Fence {
  readonly activity?: Activity
  readonly currentTool?: string
}

/** The turn ids whose fence still holds. */
export async function beat(db: Queryable, beats: readonly Beat[], workerId: string | null): Promise<Set<string>> {
  const rows = beats.map((one) => ({ ...fenceRow(one), activity: one.activity, current_tool: one.currentTool }))
  const verdicts = await call(db, 'beat', rows, workerId)
  return new Set(verdicts.map((verdict) => verdict.agent_turn_id))
}
