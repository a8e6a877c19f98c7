/** The turns that a turn descends from, and those that descend from it. */
import { z } from '../../deferred.js'
import { outcomes } from '../../vocabulary.js'
import { list, time } from '../shapes.js'

const turnRelations = ['enqueued', 'delegate', 'fork_join', 'follow_up', 'fork'] as const

export const relatedTurn = z.object({
  agent_turn_id: z.string(),
  agent_id: z.string().nullable(),
  status: z.string().nullable().describe('null: the turn is no longer stored'),
  outcome: z.enum(outcomes).nullable(),
  relation: z
    .enum(turnRelations)
    .describe(
      'how the later of the two turns began: `enqueued`, by the tools `delegate` or `fork_join`, as a `follow_up`, or as a `fork`',
    ),
})
const childFields = relatedTurn.extend({
  error: z.string().nullable(),
  created_at: time.nullable(),
  started_at: time.nullable(),
  ended_at: time.nullable(),
})
export interface ChildTurn extends z.output<typeof childFields> {
  readonly children: readonly ChildTurn[]
}
export interface ChildTurnRow extends z.input<typeof childFields> {
  readonly children: readonly ChildTurnRow[]
}
export const childTurn: z.ZodType<ChildTurn, ChildTurnRow> = childFields
  .extend({ children: z.lazy(() => list(childTurn)).describe('its own children, up to five levels') })
  .meta({ id: 'ChildTurn' }) as unknown as z.ZodType<ChildTurn, ChildTurnRow>
