/**
 * Calls the verbs, the functions of schema `state`, and types their answers. One call is one round trip and one transaction. Expected
 * losses are values (`stale`, `already`, `refused`); only invalid input and database failures throw.
 */
import { subjects, type Place } from '@bellwether/protocol'
import type { Ring } from '../ports/bell/bell.js'
import type { Queryable, Statement } from '../ports/database/database.js'

/** Identifies one epoch of one turn. Every write names its fence; the database ignores a write whose fence is not the head's. */
export interface Fence {
  readonly projectId: string
  readonly agentId: string
  readonly agentTurnId: string
  readonly turnEpoch: number
}

/** A turn in one epoch as text, for maps of turns. */
export const turnKey = ({ agentTurnId, turnEpoch }: Fence) => `${agentTurnId}:${turnEpoch}`

/** One row of a verb's answer: what happened to one item. Each wrapper names the values of `what` that its verb returns. */
export interface Verdict<What extends string, Detail = unknown> {
  readonly what: What
  readonly project_id: string
  readonly agent_id: string
  readonly agent_turn_id: string
  readonly turn_epoch: number
  readonly inbox_id: string
  /** If not null, the caller rings this target after the commit. */
  readonly worker_target: string | null
  readonly channel_id: string | null
  readonly detail: Detail
}

/** The fields of a verdict that say where to ring. */
export type Ringable = Pick<Verdict<string>, 'worker_target' | 'project_id' | 'channel_id' | 'agent_id' | 'inbox_id'>

/** A verb that ends turns also leases the next turn of each agent. */
export type EndingVerdict = Verdict<'ended' | 'leased'>

/** Calls a verb that takes a batch of items as JSON. */
export async function call<Row extends Verdict<string>>(
  db: Queryable,
  verb: string,
  items: readonly object[],
  ...rest: readonly unknown[]
): Promise<Row[]> {
  const more = rest.map((_, position) => `, $${position + 2}`).join('')
  const text = `select * from state.${verb}($1::json${more})`
  return callVerb(db, { name: `bw_${verb}`, text, values: [JSON.stringify(items), ...rest] })
}

/** Runs the statement of a verb, again if it lost a race for an output box. */
export async function callVerb<Row extends Verdict<string>>(db: Queryable, statement: Statement): Promise<Row[]> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await db.query<Row>(statement)
    } catch (error) {
      if (tries === boxRacesMax || !isBoxRace(error)) throw error
    }
  }
}

// Each lost race means that another turn took the output box. The next try sees that and leaves the turn queued (T5.3).
const boxRacesMax = 10

/** Two calls leased agents that share an output box at the same time; the database let one commit and rolled back the other. */
function isBoxRace(error: unknown): boolean {
  return error instanceof Error && 'constraint' in error && error.constraint === 'one_turn_per_borrowed_box'
}

/** Calls a verb that takes plain parameters. */
export async function callWith<Row extends object>(
  db: Queryable,
  verb: string,
  ...values: readonly unknown[]
): Promise<Row[]> {
  const places = values.map((_, position) => `$${position + 1}`).join(', ')
  return db.query<Row>({ name: `bw_${verb}`, text: `select * from state.${verb}(${places})`, values })
}

/** A fence in the form that verbs read. */
export type FenceRow = Pick<Verdict<string>, 'project_id' | 'agent_id' | 'agent_turn_id' | 'turn_epoch'>

export function fenceRow(fence: Fence): FenceRow {
  return {
    project_id: fence.projectId,
    agent_id: fence.agentId,
    agent_turn_id: fence.agentTurnId,
    turn_epoch: fence.turnEpoch,
  }
}

/** The fence of a row or verdict as one string. The verdicts of a batch are matched by it: a turn can be in a batch with several epochs. */
export function fenceKey(row: FenceRow): string {
  return `${row.project_id} ${row.agent_id} ${row.agent_turn_id} ${row.turn_epoch}`
}

function isSamePlace(one: Ringable, other: Ringable): boolean {
  return (
    one.worker_target === other.worker_target &&
    one.project_id === other.project_id &&
    one.channel_id === other.channel_id
  )
}

/** The rings that a batch of verdicts asks for: one per target and channel, not one per row. */
export function ringsFor(verdicts: readonly Ringable[]): Ring[] {
  const rings = new Map<string, Ring>()
  let last: Ringable | undefined
  for (const verdict of verdicts) {
    // Hot path: the leases of a batch are usually for one target and channel.
    if (verdict.worker_target === null || (last !== undefined && isSamePlace(verdict, last))) continue
    last = verdict
    const place: Place = { project: verdict.project_id, channel: verdict.channel_id ?? 'public' }
    const subject = subjects.wakeup(place, verdict.worker_target)
    if (rings.has(subject)) continue
    rings.set(subject, { subject, payload: { agent_id: verdict.agent_id, inbox_id: verdict.inbox_id } })
  }
  return [...rings.values()]
}
