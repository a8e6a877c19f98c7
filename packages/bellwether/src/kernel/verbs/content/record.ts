/** Record: a running turn writes cards into its output box, and its steps with what they used. A lost fence writes nothing. */
import type { Queryable } from '../../../ports/database/database.js'
import type { Ids } from '../../../ports/ids.js'
import { cardProblem, cardRow, type NewCard } from '../cards.js'
import { payloadMaxBytes, plainText, storable } from '../../content.js'
import { call, fenceRow, type Fence, type Verdict } from '../../verdict.js'
import { leftOf, type BudgetLeft } from '../budgets/budgets.js'

export interface Step {
  readonly stepId: string
  readonly phase: string
  readonly status: string
  readonly toolCallIds?: readonly string[]
  /** `usage`, `cost_micros` and `frozen_ms` are totals of the step and are charged to the turn's budget. */
  readonly metadata?: Readonly<Record<string, unknown>>
  readonly error?: string
}

export interface Writing extends Fence {
  readonly cards?: readonly NewCard[]
  readonly step?: Step
}

/** `left`: what the turn may still spend, if it has a budget and a step was recorded. */
export type Recorded = { readonly left: BudgetLeft | null } | 'stale'

export async function record(db: Queryable, ids: Ids, writing: Writing): Promise<Recorded> {
  const { step } = writing
  const [verdict] = await call<Verdict<'recorded' | 'stale', Parameters<typeof leftOf>[0]>>(db, 'record', [
    { ...fenceRow(writing), cards: writing.cards?.map((card) => cardRow(ids, card)), step: step && stepRow(step) },
  ]).catch(cardProblem)
  return verdict === undefined || verdict.what === 'stale' ? 'stale' : { left: leftOf(verdict.detail) }
}

function stepRow(step: Step): Record<string, unknown> {
  if (step.metadata !== undefined) storable(step.metadata, 'the metadata of a step', payloadMaxBytes)
  return {
    step_id: plainText(step.stepId, 'step_id'),
    phase: plainText(step.phase, 'phase'),
    status: plainText(step.status, 'status'),
    tool_call_ids: step.toolCallIds?.map((id) => plainText(id, 'tool_call_id')),
    metadata: step.metadata,
    error: step.error === undefined ? undefined : plainText(step.error, 'error', 10_000),
  }
}
