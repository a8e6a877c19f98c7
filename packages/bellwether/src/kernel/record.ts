/** What a turn writes while it runs: cards into its output box, and its steps. A lost fence writes nothing. */
import type { Queryable } from '../ports/database/database.js'
import type { Ids } from '../ports/ids.js'
import { cardRow, type NewCard } from './cards.js'
import { call, fenceRow, type Fence } from './verdict.js'

export interface Step {
  readonly stepId: string
  readonly phase: string
  readonly status: string
  readonly toolCallIds?: readonly string[]
  readonly metadata?: Readonly<Record<string, unknown>>
  readonly error?: string
}

export interface Writing extends Fence {
  readonly cards?: readonly NewCard[]
  readonly step?: Step
}

export async function record(db: Queryable, ids: Ids, writing: Writing): Promise<'recorded' | 'stale'> {
  const { step } = writing
  const [verdict] = await call(db, 'record', [
    {
      ...fenceRow(writing),
      cards: writing.cards?.map((card) => cardRow(ids, card)),
      step: step && {
        step_id: step.stepId,
        phase: step.phase,
        status: step.status,
        tool_call_ids: step.toolCallIds,
        metadata: step.metadata,
        error: step.error,
      },
    },
  ])
  return verdict?.what === 'recorded' ? 'recorded' : 'stale'
}
