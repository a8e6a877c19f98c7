/** Beat: a worker reports that its turns are alive. A fence that is missing from the answer is lost. */
import type { Activity } from '@bellwether/protocol'
import type { Queryable } from '../../../ports/database/database.js'
import { call, fenceKey, fenceRow, type Fence, type Verdict } from '../../verdict.js'

export interface Beat extends Fence {
  readonly activity?: Activity
  readonly currentTool?: string
}

/** Returns the beats whose fence is still valid. */
export async function beat<One extends Beat>(
  db: Queryable,
  beats: readonly One[],
  workerId: string | null,
): Promise<Set<One>> {
  const rows = beats.map((one) => ({ ...fenceRow(one), activity: one.activity, current_tool: one.currentTool }))
  const verdicts = await call<Verdict<'alive'>>(db, 'beat', rows, workerId)
  const alive = new Set(verdicts.map(fenceKey))
  return new Set(beats.filter((_, position) => alive.has(fenceKey(rows[position]!))))
}
