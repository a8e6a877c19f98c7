/**
 * Everything that a worker outside this house needs to run a turn, read in a fixed order (T6.1): the head under its fence, then
 * the roster, then the cards. Always bounded: an answer is sent whole, so long boxes are cut to their newest cards and say so.
 */
import type { Queryable } from '../../ports/database/database.js'
import { readBoxWithin, type CardsWithin } from './cards.js'
import type { Fence } from '../verdict.js'

export interface Work {
  readonly profile: { readonly profile_id: string; readonly name: string; readonly spec: unknown } | null
  readonly tools: readonly Readonly<Record<string, unknown>>[]
  readonly context: CardsWithin
  readonly output: CardsWithin
}

interface Head {
  readonly profile_id: string | null
  readonly context_box_id: string | null
  readonly output_box_id: string | null
}

const toolsMax = 1_000
const cardsMax = 2_000
const nothing: CardsWithin = { cards: [], truncated: false }

/** `bytesMax`: of each of the two boxes. */
export async function readWork(db: Queryable, fence: Fence, bytesMax: number): Promise<Work | 'stale'> {
  const [head] = await db.query<Head>({
    name: 'bw_work_head',
    text: `select profile_id, context_box_id, output_box_id from state.agent_state_head
      where project_id = $1 and agent_id = $2 and active_agent_turn_id = $3 and turn_epoch = $4`,
    values: [fence.projectId, fence.agentId, fence.agentTurnId, fence.turnEpoch],
  })
  if (head === undefined) return 'stale'
  const [profile] = await db.query<NonNullable<Work['profile']>>({
    name: 'bw_work_profile',
    text: 'select profile_id, name, spec from resource.profiles where project_id = $1 and profile_id = $2',
    values: [fence.projectId, head.profile_id],
  })
  const tools = await db.query<Work['tools'][number]>({
    name: 'bw_work_tools',
    text: `select tool_name, description, parameters, after_execution, options from resource.tools
      where project_id = $1 order by tool_name limit ${toolsMax}`,
    values: [fence.projectId],
  })
  const box = (boxId: string | null) => (boxId === null ? nothing : readBoxWithin(db, boxId, bytesMax, cardsMax))
  const context = await box(head.context_box_id)
  const output = await box(head.output_box_id)
  return { profile: profile ?? null, tools, context, output }
}

export interface TurnOwner {
  readonly projectId: string
  readonly agentId: string
  /** The worker that claimed it last. */
  readonly claimedBy: string | null
}

/** Whose turn this is: what a fence needs besides the epoch. */
export async function turnOwner(db: Queryable, agentTurnId: string): Promise<TurnOwner | undefined> {
  const [row] = await db.query<{ project_id: string; agent_id: string; claimed_by: string | null }>({
    name: 'bw_turn_owner',
    text: 'select project_id, agent_id, claimed_by from state.turn_row($1)',
    values: [agentTurnId],
  })
  return row === undefined ? undefined : { projectId: row.project_id, agentId: row.agent_id, claimedBy: row.claimed_by }
}

/** The turn that a step's name belongs to already; undefined: nobody's yet. */
export async function stepOwner(db: Queryable, stepId: string): Promise<string | undefined> {
  const [row] = await db.query<{ agent_turn_id: string }>({
    name: 'bw_step_owner',
    text: 'select agent_turn_id from state.agent_steps where step_id = $1',
    values: [stepId],
  })
  return row?.agent_turn_id
}

/** `free`: how many more turns it would take now. A full worker that beats is not dead (W2.5). */
export async function signIn(
  db: Queryable,
  workerId: string,
  target: string,
  concurrency: number,
  free: number,
): Promise<void> {
  await db.query({
    name: 'bw_sign_in',
    text: 'select state.sign_in($1, $2, $3, $4)',
    values: [workerId, target, concurrency, free],
  })
}

/** Targets that workers of this kind claimed from within the last day, the newest last: somebody must watch over what they left. */
export async function targetsOf(db: Queryable, workerPrefix: string, limit: number): Promise<string[]> {
  const rows = await db.query<{ worker_target: string }>({
    text: `select worker_target from state.workers where starts_with(worker_id, $1) and seen_at > state.now() - interval '1 day'
      group by worker_target order by max(seen_at) desc limit $2`,
    values: [workerPrefix, limit],
  })
  return rows.map((row) => row.worker_target).toReversed()
}
