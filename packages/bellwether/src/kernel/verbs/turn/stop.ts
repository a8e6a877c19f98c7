/** Stop: ends an active turn, cancels a queued one; which of the two is decided under the lock (T3.6, hazard 9). */
import { token } from '@bellwether/protocol'
import type { Queryable } from '../../../ports/database/database.js'
import type { Ids } from '../../../ports/ids.js'
import { plainText } from '../../content.js'
import { call, type Verdict } from '../../verdict.js'

export interface Stopping {
  readonly projectId: string
  readonly agentTurnId: string
  readonly reason?: string
}

export type StopResult = 'ended' | 'already' | 'unknown_turn'

export async function stop(
  db: Queryable,
  ids: Ids,
  stopping: Stopping,
): Promise<{ result: StopResult; verdicts: Verdict[] }> {
  const verdicts = await call(db, 'stop', [
    {
      project_id: token(stopping.projectId, 'project'),
      agent_turn_id: plainText(stopping.agentTurnId, 'agent_turn_id'),
      inbox_id: ids.next(),
      card_id: ids.next(),
      reason: stopping.reason === undefined ? undefined : plainText(stopping.reason, 'reason', 2_000),
    },
  ])
  const mine = verdicts.find((verdict) => verdict.agent_turn_id === stopping.agentTurnId && verdict.what !== 'leased')
  if (mine?.what === 'ended' || mine?.what === 'already' || mine?.what === 'unknown_turn')
    return { result: mine.what, verdicts }
  throw new Error(`stop answered ${mine?.what ?? 'nothing'} for turn ${stopping.agentTurnId}`)
}
