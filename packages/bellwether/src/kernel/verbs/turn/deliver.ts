/**
 * Deliver: the normal end of a turn. `already` means that an earlier call with the same fence succeeded (an in-doubt commit); `stale` means
 * that another worker holds the turn.
 */
import { InvalidInput, outcomes, type Outcome } from '@bellwether/protocol'
import type { Queryable } from '../../../ports/database/database.js'
import type { Ids } from '../../../ports/ids.js'
import { cardMaxBytes, plainText, storable } from '../../content.js'
import { column, jsonColumn } from '../../columns.js'
import { callVerb, fenceKey, type Fence, type FenceRow, type Verdict } from '../../verdict.js'

export interface Delivery extends Fence {
  readonly status: Exclude<Outcome, 'canceled'>
  readonly error?: string
  /** Text, or values for the task's result_fields. */
  readonly content:
    | { readonly text: string }
    | { readonly fields: readonly { readonly name: string; readonly value: unknown }[] }
}

/** `all_ended`: every delivery of the call ended its turn. */
export type DeliverVerdict = Verdict<
  'all_ended' | 'ended' | 'already' | 'stale' | 'refused' | 'leased',
  { readonly missing: readonly string[] | null } | null
>

export type DeliverResult =
  | { readonly what: 'ended' | 'already' | 'stale' }
  | { readonly what: 'refused'; readonly missing: readonly string[] }

const deliverable: readonly string[] = outcomes.filter((outcome) => outcome !== 'canceled')

export interface DeliveryRow extends FenceRow {
  readonly status: string
  readonly error: string | undefined
  readonly card_id: string
  /** JSON text. */
  readonly content: string
}

export function deliveryRow(ids: Ids, delivery: Delivery): DeliveryRow {
  const content = storable(delivery.content, 'the deliverable', cardMaxBytes)
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
    content,
  }
}

export async function deliver(db: Queryable, rows: readonly DeliveryRow[]): Promise<DeliverVerdict[]> {
  return callVerb(db, {
    name: 'bw_deliver',
    text: 'select * from state.deliver($1, $2, $3, $4, $5, $6, $7, $8)',
    values: [
      column(rows, (row) => row.project_id),
      column(rows, (row) => row.agent_id),
      column(rows, (row) => row.agent_turn_id),
      column(rows, (row) => row.turn_epoch),
      column(rows, (row) => row.status),
      column(rows, (row) => row.error),
      column(rows, (row) => row.card_id),
      jsonColumn(rows, (row) => row.content),
    ],
  })
}

const ended: DeliverResult = { what: 'ended' }

/** The results of a batch, in the order of its rows. */
export function delivered(rows: readonly FenceRow[], verdicts: readonly DeliverVerdict[]): DeliverResult[] {
  if (verdicts[0]?.what === 'all_ended') return rows.map(() => ended)
  const byFence = new Map<string, DeliverVerdict>()
  for (const verdict of verdicts) if (verdict.what !== 'leased') byFence.set(fenceKey(verdict), verdict)
  return rows.map((row) => resultOf(row, byFence))
}

function resultOf(row: FenceRow, verdicts: ReadonlyMap<string, DeliverVerdict>): DeliverResult {
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
