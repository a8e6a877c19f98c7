/** Beat: a worker reports that its turns are alive. A fence that is missing from the answer is lost. */
import type { Activity } from '@bellwether/protocol'
import type { Queryable } from '../../../ports/database/database.js'
import { call, fenceRow, type Fence, type Verdict } from '../../verdict.js'

export interface Beat extends Fence {
  readonly activity?: Activity
  readonly currentTool?: string
}

/** Returns the ids of the turns whose fence is still valid. */
export async function beat(db: Queryable, beats: readonly Beat[], workerId: string | null): Promise<Set<string>> {
  const rows = beats.map((one) => ({ ...fenceRow(one), activity: one.activity, current_tool: one.currentTool }))
  const verdicts = await call<Verdict<'alive'>>(db, 'beat', rows, workerId)
  return new Set(verdicts.map((verdict) => verdict.agent_turn_id))
}
