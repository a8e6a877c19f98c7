/**
 * What an event does to what is on the screen. Pure: old data and events in, new data out, the same object where nothing changed.
 * Always: an event of an older epoch changes nothing, so that events and answers may overtake each other.
 */
import type { Agent, Agents, Head, LastTurn, LiveEvent, Turn } from '../api/types.js'
import { headOf } from '../model/status.js'

const text = (value: unknown) => (typeof value === 'string' ? value : null)
const object = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}

export function patchAgents(before: Agents, events: readonly LiveEvent[]): Agents {
  const changed = new Map<string, Agent>()
  const places =
    events.length > 0 ? new Map(before.agents.map((agent, at) => [agent.agent_id, at])) : new Map<string, number>()
  for (const event of events) {
    const id = text(event.payload['agent_id'])
    const at = id === null ? undefined : places.get(id)
    if (id === null || at === undefined) continue
    const agent = changed.get(id) ?? before.agents[at]!
    const next = patchAgent(agent, event)
    if (next !== agent) changed.set(id, next)
  }
  if (changed.size === 0) return before
  return { ...before, agents: before.agents.map((agent) => changed.get(agent.agent_id) ?? agent) }
}

function patchAgent(agent: Agent, event: LiveEvent): Agent {
  if (event.kind === 'task') return endTurn(agent, event)
  if (event.kind !== 'state') return agent
  const status = text(event.payload['status'])
  const epoch = Number(event.payload['turn_epoch'])
  if (status === null || !Number.isFinite(epoch)) return agent
  const head = agent.state
  if (head !== null && epoch < head.turn_epoch) return agent
  const told = object(event.payload['metadata'])
  const isOver = headOf(status).isAtRest
  // A turn that has begun meanwhile, with the same epoch, is not ended by the end of the one before it.
  if (
    isOver &&
    head !== null &&
    head.active_agent_turn_id !== null &&
    head.active_agent_turn_id !== event.agent_turn_id
  )
    return agent
  return { ...agent, state: headFrom(head, event, { status, epoch, told, isOver }) }
}

interface Told {
  readonly status: string
  readonly epoch: number
  readonly told: Readonly<Record<string, unknown>>
  readonly isOver: boolean
}

function headFrom(head: Head | null, event: LiveEvent, { status, epoch, told, isOver }: Told): Head {
  const isSame = head?.active_agent_turn_id === event.agent_turn_id
  const waiting = Number(told['waiting_tool_count'] ?? 0)
  return {
    status,
    turn_epoch: epoch,
    active_agent_turn_id: isOver ? null : event.agent_turn_id,
    activity: text(told['activity']) as Head['activity'],
    current_tool: text(told['current_tool']),
    waiting_tool_count: waiting,
    // Events do not tell deadlines: the turn's own stays, a wait's is asked for by the next look.
    resume_deadline: waiting > 0 && isSame ? (head?.resume_deadline ?? null) : null,
    turn_deadline: isOver || !isSame ? null : (head?.turn_deadline ?? null),
    leased_at: isOver ? null : (head?.leased_at ?? null),
    updated_at: event.created_at,
  }
}

function endTurn(agent: Agent, event: LiveEvent): Agent {
  const outcome = text(event.payload['status'])
  if (outcome === null || event.agent_turn_id === null) return agent
  const last = {
    agent_turn_id: event.agent_turn_id,
    outcome: outcome as LastTurn['outcome'],
    ended_at: event.created_at,
  }
  if (agent.last_turn?.agent_turn_id === last.agent_turn_id) return agent
  return { ...agent, last_turn: last }
}

export interface TurnPages {
  readonly pages: readonly { readonly turns: readonly Turn[]; readonly cursor: string | null }[]
  readonly pageParams: readonly unknown[]
}

/** `unknown`: events spoke of turns that are not listed; somebody has to ask. */
export function patchTurns<T extends TurnPages>(
  before: T,
  events: readonly LiveEvent[],
): { data: T; unknown: boolean } {
  const latest = new Map<string, LiveEvent[]>()
  for (const event of events) {
    if (event.agent_turn_id === null || (event.kind !== 'state' && event.kind !== 'task')) continue
    latest.set(event.agent_turn_id, [...(latest.get(event.agent_turn_id) ?? []), event])
  }
  if (latest.size === 0) return { data: before, unknown: false }
  let touched = false
  const seen = new Set<string>()
  const pages = before.pages.map((page) => {
    let isChanged = false
    const turns = page.turns.map((turn) => {
      const said = latest.get(turn.agent_turn_id)
      if (said === undefined) return turn
      seen.add(turn.agent_turn_id)
      const next = said.reduce(patchTurn, turn)
      if (next !== turn) isChanged = true
      return next
    })
    touched ||= isChanged
    return isChanged ? { ...page, turns } : page
  })
  return { data: touched ? { ...before, pages } : before, unknown: seen.size < latest.size }
}

function patchTurn(turn: Turn, event: LiveEvent): Turn {
  if (turn.ended_at !== null) return turn
  const status = text(event.payload['status'])
  if (status === null) return turn
  if (event.kind === 'task')
    return {
      ...turn,
      status,
      outcome: status as Turn['outcome'],
      ended_at: event.created_at,
      error: text(event.payload['error']),
    }
  const epoch = Number(event.payload['turn_epoch'])
  if (turn.turn_epoch !== null && epoch < turn.turn_epoch) return turn
  const told = object(event.payload['metadata'])
  // The agent is free again: how the turn ended, its task event says.
  if (headOf(status).isAtRest) return turn
  return {
    ...turn,
    status,
    turn_epoch: epoch,
    activity: text(told['activity']) as Turn['activity'] & string,
    current_tool: text(told['current_tool']),
    waiting_tool_count: Number(told['waiting_tool_count'] ?? 0),
    started_at: turn.started_at ?? event.created_at,
  }
}
