/**
 * What a turn knows, read in a fixed order (T6.1): the head under its fence, then the roster, then the cards. No box is read
 * but the turn's own context box and output box (T5.2).
 */
import type { Card } from '../kernel/verbs/cards.js'
import { readBoxes } from '../kernel/verbs/cards.js'
import type { Fence } from '../kernel/verdict.js'
import type { Database } from '../ports/database/database.js'

export interface Hydrated {
  readonly profile: { readonly name: string; readonly spec: Readonly<Record<string, unknown>> } | undefined
  readonly tools: readonly { readonly tool_name: string; readonly description: string; readonly parameters: unknown }[]
  readonly context: readonly Card[]
  /** Rolling memory: what this agent has written so far, this turn included. */
  readonly output: readonly Card[]
}

export async function hydrate(db: Database, fence: Fence): Promise<Hydrated | 'stale'> {
  const [head] = await db.query<{
    profile_id: string | null
    context_box_id: string | null
    output_box_id: string | null
  }>({
    name: 'bw_hydrate_head',
    text: `select profile_id, context_box_id, output_box_id from state.agent_state_head
      where project_id = $1 and agent_id = $2 and active_agent_turn_id = $3 and turn_epoch = $4`,
    values: [fence.projectId, fence.agentId, fence.agentTurnId, fence.turnEpoch],
  })
  if (head === undefined) return 'stale'
  const [profile] = await db.query<NonNullable<Hydrated['profile']>>({
    name: 'bw_hydrate_profile',
    text: 'select name, spec from resource.profiles where project_id = $1 and profile_id = $2',
    values: [fence.projectId, head.profile_id],
  })
  const tools = await db.query<Hydrated['tools'][number]>({
    name: 'bw_hydrate_tools',
    text: 'select tool_name, description, parameters from resource.tools where project_id = $1 order by tool_name limit 1000',
    values: [fence.projectId],
  })
  const context = head.context_box_id === null ? [] : await readBoxes(db, [head.context_box_id])
  const output = head.output_box_id === null ? [] : await readBoxes(db, [head.output_box_id])
  return { profile, tools, context, output }
}
