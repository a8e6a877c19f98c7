/** Stop: ends an active turn or cancels a queued one; the verb decides which under the head's lock (T3.6, hazard 9). */
import { token } from '@bellwether/protocol'
import type { Queryable } from '../../../ports/database/database.js'
import type { Ids } from '../../../ports/ids.js'
import { plainText } from '../../content.js'
import { call, type Verdict } from '../../verdict.js'

export interface Stopping {
  readonly projectId: string
  readonly agentTurnId: string
  /** Who stops it and why, for the deliverable. */
  readonly stoppedBy?: string
  readonly reason?: string
}

export type StopResult = 'ended' | 'already' | 'unknown_turn'
export type StopVerdict = Verdict<StopResult | 'leased'>

export async function stop(
  db: Queryable,
  ids: Ids,
  stopping: Stopping,
): Promise<{ result: StopResult; verdicts: StopVerdict[] }> {
  const verdicts = await call<StopVerdict>(db, 'stop', [
    {
      project_id: token(stopping.projectId, 'project'),
      agent_turn_id: plainText(stopping.agentTurnId, 'agent_turn_id'),
      inbox_id: ids.next(),
      card_id: ids.next(),
      stopped_by: stopping.stoppedBy === undefined ? undefined : plainText(stopping.stoppedBy, 'stopped_by', 200),
      reason: stopping.reason === undefined ? undefined : plainText(stopping.reason, 'reason', 2_000),
    },
  ])
  for (const { agent_turn_id: agentTurnId, what } of verdicts)
    if (agentTurnId === stopping.agentTurnId && what !== 'leased') return { result: what, verdicts }
  throw new Error(`state.stop returned no verdict for turn ${stopping.agentTurnId}`)
}
