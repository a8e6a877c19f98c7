/**
 * Deliver: the normal end of a turn. `already` means that an earlier call with the same fence succeeded (an in-doubt commit); `stale` means
 * that another worker holds the turn.
 */
import { InvalidInput, outcomes, type Outcome } from '@bellwether/protocol'
import type { Queryable } from '../../../ports/database/database.js'
import type { Ids } from '../../../ports/ids.js'
import { cardMaxBytes, plainText, storable } from '../../content.js'
import { call, fenceKey, type Fence, type FenceRow, type Verdict } from '../../verdict.js'

export interface Delivery extends Fence {
  readonly status: Exclude<Outcome, 'canceled'>
  readonly error?: string
  /** Text, or values for the task's result_fields. */
  readonly content:
    | { readonly text: string }
    | { readonly fields: readonly { readonly name: string; readonly value: unknown }[] }
}

export type DeliverVerdict = Verdict<
  'ended' | 'already' | 'stale' | 'refused' | 'leased',
  { readonly missing: readonly string[] | null } | null
>

export type DeliverResult =
  | { readonly what: 'ended' | 'already' | 'stale' }
  | { readonly what: 'refused'; readonly missing: readonly string[] }

const deliverable: readonly string[] = outcomes.filter((outcome) => outcome !== 'canceled')

export function deliveryRow(ids: Ids, delivery: Delivery): FenceRow & Record<string, unknown> {
  storable(delivery.content, 'the deliverable', cardMaxBytes)
  if (!deliverable.includes(delivery.status)) {
    throw new InvalidInput(
      `Cannot deliver the turn: "status" must be one of ${deliverable.join(', ')} (got ${JSON.stringify(delivery.status)})`,
      { code: 'invalid_status' },
    )
  }
  return {
    project_id: delivery.projectId,
    agent_id: delivery.agentId,
    agent_turn_id: delivery.agentTurnId,
    turn_epoch: delivery.turnEpoch,
    status: delivery.status,
    error: delivery.error === undefined ? undefined : plainText(delivery.error, 'error'),
    card_id: ids.next(),
    content: delivery.content,
  }
}

export async function deliver(db: Queryable, rows: readonly object[]): Promise<DeliverVerdict[]> {
  return call(db, 'deliver', rows)
}

/** The result of one delivery, from the verdicts of its batch by fence. */
export function delivered(row: FenceRow, verdicts: ReadonlyMap<string, DeliverVerdict>): DeliverResult {
  const verdict = verdicts.get(fenceKey(row))
  switch (verdict?.what) {
    case 'ended':
    case 'already':
    case 'stale':
      return { what: verdict.what }
    case 'refused':
      return { what: 'refused', missing: verdict.detail?.missing ?? [] }
    default:
      throw new Error(`state.deliver returned ${verdict?.what ?? 'no verdict'} for turn ${row.agent_turn_id}`)
  }
}
