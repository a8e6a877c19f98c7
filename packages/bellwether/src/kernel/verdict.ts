/**
 * What the verbs share: how a batch goes to a function in schema `state` and how its verdicts come back. One call is one
 * round trip and one transaction. Expected losses are values (`stale`, `already`, `refused`); only broken input or a broken
 * database throws.
 */
import { subjects, type Place } from '@bellwether/protocol'
import type { Ring } from '../ports/bell/bell.js'
import type { Queryable } from '../ports/database/database.js'

/** Names one attempt at one turn. Every write names its fence; a fence that is not the head's own writes nothing. */
export interface Fence {
  readonly projectId: string
  readonly agentId: string
  readonly agentTurnId: string
  readonly turnEpoch: number
}

export interface Verdict {
  readonly what: string
  readonly project_id: string
  readonly agent_id: string
  readonly agent_turn_id: string
  readonly turn_epoch: number
  readonly inbox_id: string
  /** Not null: ring there once the transaction has committed. */
  readonly worker_target: string | null
  readonly channel_id: string | null
  readonly detail: unknown
}

/** Verbs that other verbs call with rows of a type, so that no JSON is made in the database to be read there again. */
const rowTypes: Readonly<Record<string, string>> = { enqueue: 'state.new_turn' }

export async function call<Row extends object = Verdict>(
  db: Queryable,
  verb: string,
  items: readonly object[],
  ...rest: readonly unknown[]
): Promise<Row[]> {
  const more = rest.map((_, position) => `, $${position + 2}`).join('')
  const type = rowTypes[verb]
  const rows =
    type === undefined ? '$1::json' : `array(select x from json_populate_recordset(null::${type}, $1::json) x)`
  const statement = {
    name: `bw_${verb}`,
    text: `select * from state.${verb}(${rows}${more})`,
    values: [JSON.stringify(items), ...rest],
  }
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await db.query<Row>(statement)
    } catch (error) {
      if (attempt === boxRacesMax || !isBoxRace(error)) throw error
    }
  }
}

// Each lost race means that another turn won the box: the next look finds it held and leaves the turn in its queue (T5.3).
const boxRacesMax = 10

/** Two leases at the same instant, of agents that share an output box: the database let one through and undid the other's call. */
function isBoxRace(error: unknown): boolean {
  return error instanceof Error && 'constraint' in error && error.constraint === 'head_active_output_box'
}

/** A fence as the verbs read it. */
export function fenceRow(fence: Fence): Record<string, unknown> {
  return {
    project_id: fence.projectId,
    agent_id: fence.agentId,
    agent_turn_id: fence.agentTurnId,
    turn_epoch: fence.turnEpoch,
  }
}

/** The doorbells that a batch of verdicts asks for: one a target and channel, not one a row. */
export function ringsFor(
  verdicts: readonly Pick<Verdict, 'worker_target' | 'project_id' | 'channel_id' | 'agent_id' | 'inbox_id'>[],
): Ring[] {
  const rings = new Map<string, Ring>()
  for (const verdict of verdicts) {
    if (verdict.worker_target === null) continue
    const place: Place = { project: verdict.project_id, channel: verdict.channel_id ?? 'public' }
    const subject = subjects.wakeup(place, verdict.worker_target)
    if (rings.has(subject)) continue
    rings.set(subject, { subject, payload: { agent_id: verdict.agent_id, inbox_id: verdict.inbox_id } })
  }
  return [...rings.values()]
}
