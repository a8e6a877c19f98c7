/**
 * The state of every agent: working, waiting, stuck and why. Pure. Stuck means that a person should look: a deadline
 * has passed, no worker takes the turn, or its worker is silent. The watchdogs end all of these later; the dashboard
 * shows them sooner.
 */
import type { Agent, LastTurn, Worker } from '../api/types.js'
import { own } from './own.js'
import { headOf } from './status.js'
import { msOf, span } from './time.js'

export const conditions = ['working', 'starting', 'waiting', 'stuck', 'resting', 'retired'] as const
export type Condition = (typeof conditions)[number]

export interface Assessment {
  readonly condition: Condition
  /** Why it is stuck. */
  readonly why?: string
}

// The watchdog needs a moment after a deadline.
const graceMs = 10_000
const untakenMs = 60_000
const silentMs = 120_000

/** `knownMs`: when this agent was last read, so that our own gaps do not count as its silence. */
export function assess(agent: Agent, nowMs: number, knownMs: number): Assessment {
  const head = agent.state
  if (agent.status === 'retired') return { condition: 'retired' }
  if (head === null) return { condition: 'resting' }
  const { isAtRest, isBeating, isWaiting } = headOf(head.status)
  if (isAtRest) return { condition: 'resting' }
  const late = nowMs - Math.min(...[head.turn_deadline, head.resume_deadline].map((at) => msOf(at) ?? Infinity))
  if (late > graceMs) return { condition: 'stuck', why: 'past its deadline' }
  const silent = knownMs - (msOf(head.updated_at) ?? knownMs)
  if (isBeating && silent > silentMs) return { condition: 'stuck', why: `no heartbeat for ${span(silent)}` }
  if (isBeating) return { condition: 'working' }
  if (isWaiting) return { condition: 'waiting' }
  const untaken = knownMs - (msOf(head.leased_at ?? head.updated_at) ?? knownMs)
  if (untaken > untakenMs)
    return { condition: 'stuck', why: `no worker of ${agent.worker_target} claimed it for ${span(untaken)}` }
  return { condition: 'starting' }
}

export interface Tally extends Record<Condition, number> {
  readonly queued: number
}

export function tally(agents: readonly Agent[], conditionOf: (agent: Agent) => Condition): Tally {
  const sum = { working: 0, starting: 0, waiting: 0, stuck: 0, resting: 0, retired: 0, queued: 0 }
  for (const agent of agents) {
    sum[conditionOf(agent)] += 1
    sum.queued += agent.queued
  }
  return sum
}

const urgency: Readonly<Record<Condition, number>> = {
  stuck: 0,
  working: 1,
  waiting: 2,
  starting: 3,
  resting: 4,
  retired: 5,
}

/** The most urgent first, then by name. */
export function byUrgency(one: Agent, other: Agent, conditionOf: (agent: Agent) => Condition): number {
  return urgency[conditionOf(one)] - urgency[conditionOf(other)] || (one.agent_id < other.agent_id ? -1 : 1)
}

const activityWords: Readonly<Record<string, string>> = {
  thinking: 'thinking',
  executing_tool: 'executing',
  awaiting_tool_result: 'waiting',
}

export function activityOf(agent: Agent): string {
  const head = agent.state
  if (head === null || head.activity === null) return ''
  const word = own(activityWords, head.activity) ?? head.activity
  return word === activityWords['executing_tool'] && head.current_tool === null ? 'executing a tool' : word
}

export function waitsFor(agent: Agent): string {
  const head = agent.state
  if (head === null || head.waiting_tool_count === 0) return ''
  const tool = head.current_tool ?? 'a tool'
  return head.waiting_tool_count === 1 ? tool : `${tool} + ${head.waiting_tool_count - 1}`
}

export interface Ended {
  readonly agent: string
  readonly turn: LastTurn
}

/** The last ended turn of each agent, newest first. */
export function recentTurns(agents: readonly Agent[], most: number): Ended[] {
  return agents
    .flatMap(({ agent_id: agent, last_turn: turn }) => (turn === null || turn === undefined ? [] : [{ agent, turn }]))
    .sort((one, other) => (one.turn.ended_at < other.turn.ended_at ? 1 : -1))
    .slice(0, most)
}

export interface Target {
  readonly name: string
  readonly agents: number
  readonly active: number
  readonly queued: number
  /** Undefined if the server does not report workers. */
  readonly workers: readonly Worker[] | undefined
}

/** Worker targets, the largest first, so that the order is stable while agents work. */
export function targetsOf(
  agents: readonly Agent[],
  workers: readonly Worker[] | undefined,
  conditionOf: (agent: Agent) => Condition,
): Target[] {
  const found = new Map<string, { agents: number; active: number; queued: number }>()
  const of = (name: string) => {
    const known = found.get(name) ?? { agents: 0, active: 0, queued: 0 }
    found.set(name, known)
    return known
  }
  for (const agent of agents) {
    const target = of(agent.worker_target)
    const condition = conditionOf(agent)
    target.agents += 1
    target.queued += agent.queued
    if (condition !== 'resting' && condition !== 'retired') target.active += 1
  }
  for (const worker of workers ?? []) of(worker.worker_target)
  return [...found]
    .map(([name, sums]) => ({ name, ...sums, workers: workers?.filter((worker) => worker.worker_target === name) }))
    .sort((one, other) => other.agents - one.agents || (one.name < other.name ? -1 : 1))
}
