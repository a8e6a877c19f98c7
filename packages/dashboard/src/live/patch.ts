/**
 * Applies an event to cached data. Pure: returns the same object if nothing changed. An event of an older epoch
 * changes nothing, so events and responses may arrive in any order.
 */
import { objectOf } from '@bellwether/base'
import type { Agent, Agents, Head, LastTurn, LiveEvent, Turn } from '../api/types.js'
import { headOf } from '../model/status.js'

const text = (value: unknown) => (typeof value === 'string' ? value : null)

export function patchAgents(before: Agents, events: readonly LiveEvent[]): Agents {
  const changed = new Map<string, Agent>()
  const indexes =
    events.length > 0 ? new Map(before.agents.map((agent, at) => [agent.agent_id, at])) : new Map<string, number>()
  for (const event of events) {
    const id = text(event.payload['agent_id'])
    const at = id === null ? undefined : indexes.get(id)
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
  const metadata = objectOf(event.payload['metadata'])
  const isOver = headOf(status).isAtRest
  // The end of the previous turn must not end a turn that has started since with the same epoch.
  if (
    isOver &&
    head !== null &&
    head.active_agent_turn_id !== null &&
    head.active_agent_turn_id !== event.agent_turn_id
  )
    return agent
  return { ...agent, state: headFrom(head, event, { status, epoch, metadata, isOver }) }
}

interface HeadChange {
  readonly status: string
  readonly epoch: number
  readonly metadata: Readonly<Record<string, unknown>>
  readonly isOver: boolean
}

function headFrom(head: Head | null, event: LiveEvent, { status, epoch, metadata, isOver }: HeadChange): Head {
  const isSame = head?.active_agent_turn_id === event.agent_turn_id
  const waiting = Number(metadata['waiting_tool_count'] ?? 0)
  return {
    status,
    turn_epoch: epoch,
    active_agent_turn_id: isOver ? null : event.agent_turn_id,
    activity: text(metadata['activity']) as Head['activity'],
    current_tool: text(metadata['current_tool']),
    waiting_tool_count: waiting,
    // Events carry no deadlines: the turn's stays, that of a wait comes with the next refetch.
    resume_deadline: waiting > 0 && isSame ? (head?.resume_deadline ?? null) : null,
    turn_deadline: isOver || !isSame ? null : (head?.turn_deadline ?? null),
    leased_at: isOver ? null : (head?.leased_at ?? null),
    updated_at: event.created_at,
    output_box_id: head?.output_box_id ?? null,
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

/** `unknown`: some events name turns that are not in the list, so it must be refetched. */
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
      const changes = latest.get(turn.agent_turn_id)
      if (changes === undefined) return turn
      seen.add(turn.agent_turn_id)
      const next = changes.reduce(patchTurn, turn)
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
  const metadata = objectOf(event.payload['metadata'])
  // The agent is idle again; the task event carries the outcome.
  if (headOf(status).isAtRest) return turn
  return {
    ...turn,
    status,
    turn_epoch: epoch,
    activity: text(metadata['activity']) as Turn['activity'] & string,
    current_tool: text(metadata['current_tool']),
    waiting_tool_count: Number(metadata['waiting_tool_count'] ?? 0),
    started_at: turn.started_at ?? event.created_at,
  }
}
