/**
 * The fleet at a glance: who works, who waits, who is stuck and why. Pure. Stuck means that somebody should look: a deadline has
 * passed, nobody takes the turn, or its worker is silent. The watchdogs end all of these by themselves; this only says it sooner.
 */
import type { Agent, LastTurn, Worker } from '../api/types.js'
import { own } from './own.js'
import { headOf } from './status.js'
import { msOf, span } from './time.js'

export const standings = ['working', 'starting', 'waiting', 'stuck', 'resting', 'retired'] as const
export type Standing = (typeof standings)[number]

export interface Judged {
  readonly standing: Standing
  /** Why it is stuck. */
  readonly why?: string
}

// A deadline that has just passed is being dealt with.
const graceMs = 10_000
const untakenMs = 60_000
const silentMs = 120_000

/** `knownMs`: when this was last asked for; nobody is called silent for what we did not look at. */
export function judge(agent: Agent, nowMs: number, knownMs: number): Judged {
  const head = agent.state
  if (agent.status === 'retired') return { standing: 'retired' }
  if (head === null) return { standing: 'resting' }
  const { isAtRest, isBeating, isWaiting } = headOf(head.status)
  if (isAtRest) return { standing: 'resting' }
  const late = nowMs - Math.min(...[head.turn_deadline, head.resume_deadline].map((at) => msOf(at) ?? Infinity))
  if (late > graceMs) return { standing: 'stuck', why: `past its deadline by ${span(late)}` }
  const silent = knownMs - (msOf(head.updated_at) ?? knownMs)
  if (isBeating && silent > silentMs) return { standing: 'stuck', why: `no sign of life for ${span(silent)}` }
  if (isBeating) return { standing: 'working' }
  if (isWaiting) return { standing: 'waiting' }
  const untaken = knownMs - (msOf(head.leased_at ?? head.updated_at) ?? knownMs)
  if (untaken > untakenMs)
    return { standing: 'stuck', why: `no worker of ${agent.worker_target} has taken it for ${span(untaken)}` }
  return { standing: 'starting' }
}

export interface Tally extends Record<Standing, number> {
  readonly queued: number
}

export function tally(agents: readonly Agent[], standingOf: (agent: Agent) => Standing): Tally {
  const sum = { working: 0, starting: 0, waiting: 0, stuck: 0, resting: 0, retired: 0, queued: 0 }
  for (const agent of agents) {
    sum[standingOf(agent)] += 1
    sum.queued += agent.queued
  }
  return sum
}

const urgency: Readonly<Record<Standing, number>> = {
  stuck: 0,
  working: 1,
  waiting: 2,
  starting: 3,
  resting: 4,
  retired: 5,
}

/** Those to look at first, then by name. */
export function byUrgency(one: Agent, other: Agent, standingOf: (agent: Agent) => Standing): number {
  return urgency[standingOf(one)] - urgency[standingOf(other)] || (one.agent_id < other.agent_id ? -1 : 1)
}

const activityWords: Readonly<Record<string, string>> = {
  thinking: 'thinking',
  executing_tool: 'runs',
  awaiting_tool_result: 'waits',
}

export function activityOf(agent: Agent): string {
  const head = agent.state
  if (head === null || head.activity === null) return ''
  const word = own(activityWords, head.activity) ?? head.activity
  return word === activityWords['executing_tool'] && head.current_tool === null ? 'runs a tool' : word
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

/** The turns that ended last, one of each agent, the newest first. */
export function lately(agents: readonly Agent[], most: number): Ended[] {
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
  /** Undefined: the server does not tell. */
  readonly workers: readonly Worker[] | undefined
}

/** The targets that agents belong to, the largest first: an order that stays while they work. */
export function targetsOf(
  agents: readonly Agent[],
  workers: readonly Worker[] | undefined,
  standingOf: (agent: Agent) => Standing,
): Target[] {
  const found = new Map<string, { agents: number; active: number; queued: number }>()
  const of = (name: string) => {
    const known = found.get(name) ?? { agents: 0, active: 0, queued: 0 }
    found.set(name, known)
    return known
  }
  for (const agent of agents) {
    const target = of(agent.worker_target)
    const standing = standingOf(agent)
    target.agents += 1
    target.queued += agent.queued
    if (standing !== 'resting' && standing !== 'retired') target.active += 1
  }
  for (const worker of workers ?? []) of(worker.worker_target)
  return [...found]
    .map(([name, sums]) => ({ name, ...sums, workers: workers?.filter((worker) => worker.worker_target === name) }))
    .sort((one, other) => other.agents - one.agents || (one.name < other.name ? -1 : 1))
}
