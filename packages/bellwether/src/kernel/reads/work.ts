/**
 * Reads what a worker needs to run a turn, in a fixed order (T6.1): the head under its fence, with the roster entry, profile and tools
 * of the agent (T6.2), then the cards: the context that the caller gave, the turn's own cards, and of earlier turns what the agent's
 * memory allows (T9.3). Bounded in bytes, however long the agent's history is: the oldest cards are left out and `truncated` is set.
 */
import type { WorkerTurn } from '@bellwether/protocol/http'
import type { Queryable } from '../../ports/database/database.js'
import type { Fence } from '../verdict.js'
import { readBoxWithin, type BoxBounds, type CardsWithin } from './cards.js'
import { readMemory } from './memory.js'

export type TurnProfile = Readonly<NonNullable<WorkerTurn['profile']>>
export type TurnTool = Readonly<WorkerTurn['tools'][number]>
/** The roster entry of the turn's agent. */
export type TurnAgent = Readonly<NonNullable<WorkerTurn['agent']>>

/** What the head and the roster say about a running turn. */
interface TurnSetup {
  readonly agent: TurnAgent | null
  readonly profile: TurnProfile | null
  readonly tools: readonly TurnTool[]
  readonly context_box_id: string | null
  readonly output_box_id: string | null
  readonly session_id: string | null
  /** Of a fork: its memory ends here. */
  readonly memory_before: Date | null
}

const toolsMax = 1_000

/**
 * One statement, so that head, roster entry, profile and tools come from one snapshot. If the fence was lost, it finds no head and
 * reads nothing else. The profile is the head's, which a lease or a change of the roster sets.
 */
async function readTurnSetup(db: Queryable, fence: Fence): Promise<TurnSetup | 'stale'> {
  const [setup] = await db.query<TurnSetup>({
    name: 'bw_turn_setup',
    text: `with head as materialized (
        select project_id, agent_id, profile_id, context_box_id, output_box_id from state.head($1, $2)
        where active_agent_turn_id = $3 and turn_epoch = $4)
      select h.context_box_id, h.output_box_id,
        f.session_id, f.memory_before,
        (select jsonb_build_object('agent_id', a.agent_id, 'profile_id', a.profile_id, 'worker_target',
            a.worker_target, 'status', a.status, 'memory', a.memory, 'metadata', a.metadata)
          from resource.project_agents a where a.project_id = h.project_id and a.agent_id = h.agent_id) as agent,
        (select jsonb_build_object('profile_id', p.profile_id, 'name', p.name, 'spec', p.spec)
          from resource.profiles p where p.project_id = h.project_id and p.profile_id = h.profile_id) as profile,
        (select coalesce(jsonb_agg(to_jsonb(t) order by t.tool_name), '[]') from (
          select tool_name, description, parameters, after_execution, options from resource.tools
          where project_id = h.project_id order by tool_name limit ${toolsMax}) t) as tools
      from head h cross join lateral (
        select coalesce(i.payload ->> 'session_id', i.payload -> 'forked_from' ->> 'session_id') as session_id,
          (i.payload -> 'forked_from' ->> 'created_at')::timestamptz as memory_before
        from (select) one left join state.turn_row($3) i on true) f`,
    values: [fence.projectId, fence.agentId, fence.agentTurnId, fence.turnEpoch],
  })
  return setup ?? 'stale'
}

export interface Work {
  /** Null if the agent was removed from the roster. */
  readonly agent: TurnAgent | null
  readonly profile: TurnProfile | null
  readonly tools: readonly TurnTool[]
  /** The cards that the caller gave. */
  readonly context: CardsWithin
  /** The cards that this turn has written so far. */
  readonly output: CardsWithin
  readonly sessionId: string | null
  /** Cards of earlier turns. */
  readonly memory: CardsWithin
}

const cardsMax = 2_000
const noCards: CardsWithin = { cards: [], bytes: 0, truncated: false }

/** The setup and the cards of a turn. `bytesMax` bounds the context, and output and memory together. */
export async function readWork(db: Queryable, fence: Fence, bytesMax: number): Promise<Work | 'stale'> {
  const setup = await readTurnSetup(db, fence)
  if (setup === 'stale') return setup
  const {
    agent,
    profile,
    tools,
    context_box_id: contextBoxId,
    output_box_id: outputBoxId,
    session_id: sessionId,
    memory_before: before,
  } = setup
  const bounds = { bytesMax, cardsMax }
  const context = contextBoxId === null ? noCards : await readContext(db, contextBoxId, bounds)
  const turn = fence.agentTurnId
  const output = outputBoxId === null ? noCards : await readBoxWithin(db, outputBoxId, { ...bounds, turn })
  const memory =
    agent === null || agent.memory === 'none'
      ? noCards
      : await readMemory(db, fence, {
          memory: agent.memory,
          sessionId,
          before,
          outputBoxId,
          bytesMax: Math.max(0, bytesMax - output.bytes),
          cardsMax: Math.max(0, cardsMax - output.cards.length),
        })
  return { agent, profile, tools, context, output, sessionId, memory }
}

/** The newest cards of a context box. The cards that say what to do are read in any case, within bounds of their own. */
async function readContext(db: Queryable, boxId: string, bounds: BoxBounds): Promise<CardsWithin> {
  const newest = await readBoxWithin(db, boxId, bounds)
  if (!newest.truncated) return newest
  const tasks = await readBoxWithin(db, boxId, { ...bounds, types: ['task.instruction', 'task.result_fields'] })
  const read = new Set(newest.cards.map((card) => card.card_id))
  const older = tasks.cards.filter((card) => !read.has(card.card_id))
  // Their size is not counted: they are few, and bounded.
  return { cards: [...older, ...newest.cards], bytes: newest.bytes, truncated: true }
}

export interface TurnOwner {
  readonly projectId: string
  readonly agentId: string
  /** The last worker that claimed the turn. */
  readonly claimedBy: string | null
  readonly workerTarget: string
  /** The last claim over HTTP; null if there was none. */
  readonly lease: TurnLease | null
}

interface TurnLease {
  readonly tokenHash: Buffer
  /** Of the claim before. */
  readonly previousHash: Buffer | null
  readonly workerId: string
  readonly workerTarget: string
}

/** The parts of a fence besides the epoch, and the worker. */
export async function turnOwner(db: Queryable, agentTurnId: string): Promise<TurnOwner | undefined> {
  const [row] = await db.query<OwnerRow>({
    name: 'bw_turn_owner',
    text: `select i.project_id, i.agent_id, i.claimed_by, i.worker_target, l.token_hash, l.previous_hash, l.worker_id,
        l.worker_target as lease_target
      from state.turn_row($1) i left join state.lease_tokens l on l.agent_turn_id = i.agent_turn_id`,
    values: [agentTurnId],
  })
  if (row === undefined) return undefined
  const { token_hash: tokenHash, previous_hash: previousHash, worker_id: workerId, lease_target: leaseTarget } = row
  const lease = tokenHash === null ? null : { tokenHash, previousHash, workerId: workerId!, workerTarget: leaseTarget! }
  const { project_id: projectId, agent_id: agentId, claimed_by: claimedBy, worker_target: workerTarget } = row
  return { projectId, agentId, claimedBy, workerTarget, lease }
}

interface OwnerRow {
  readonly project_id: string
  readonly agent_id: string
  readonly claimed_by: string | null
  readonly worker_target: string
  readonly token_hash: Buffer | null
  readonly previous_hash: Buffer | null
  readonly worker_id: string | null
  readonly lease_target: string | null
}

/** The turn that has already recorded a step with this id. */
export async function stepOwner(db: Queryable, stepId: string): Promise<string | undefined> {
  const [row] = await db.query<{ agent_turn_id: string }>({
    name: 'bw_step_owner',
    text: 'select agent_turn_id from state.agent_steps where step_id = $1',
    values: [stepId],
  })
  return row?.agent_turn_id
}

/** Targets that workers with this id prefix claimed from within the last day, the most recent last. */
export async function targetsOf(db: Queryable, workerPrefix: string, limit: number): Promise<string[]> {
  const rows = await db.query<{ worker_target: string }>({
    text: `select worker_target from state.workers
      where starts_with(worker_id, $1) and seen_at > state.now() - interval '1 day'
      group by worker_target order by max(seen_at) desc limit $2`,
    values: [workerPrefix, limit],
  })
  return rows.map((row) => row.worker_target).toReversed()
}

/** Whether a worker holds running turns. */
export async function runsTurns(db: Queryable, workerId: string): Promise<boolean> {
  const rows = await db.query({
    name: 'bw_runs_turns',
    text: `select from state.workers w
      join state.agent_state_head h on h.awake and h.worker_target = w.worker_target and h.status = 'running'
      cross join lateral state.turn_row(h.active_agent_turn_id) i
      where w.worker_id = $1 and i.status = 'processing' and i.claimed_by = w.worker_id limit 1`,
    values: [workerId],
  })
  return rows.length > 0
}
