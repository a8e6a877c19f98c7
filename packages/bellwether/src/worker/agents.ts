/**
 * Function agents by name, as a worker's agents file exports them. A turn is run by the function of its agent id, else of the agent
 * it was cloned from, else of its profile's name, else `*`.
 */
import type { ClaimedTurn } from '../kernel/verbs/turn/claim.js'
import type { AgentFunction } from './agent.js'
import { cloneOriginsOf } from './clone-origin.js'

export type Agents = Readonly<Record<string, AgentFunction>>

/** Gives an agents file its type, for editors; returns its argument. */
export function defineAgents<A extends Agents>(agents: A): A {
  return agents
}

/** Undefined if no function matches. */
export function agentFor(
  agents: Agents,
  turn: Pick<ClaimedTurn, 'agentId' | 'agentTurnId' | 'profileId' | 'payload'>,
): AgentFunction | undefined {
  const own = [turn.agentId, ...cloneOriginsOf(turn)]
    .map((name) => named(agents, name))
    .find((run) => run !== undefined)
  const fallback = named(agents, '*')
  if (own !== undefined || turn.profileId === null) return own ?? fallback
  return async (context) => {
    const { profile } = await context.hydrate()
    const run = (profile === undefined ? undefined : named(agents, profile.name)) ?? fallback
    if (run !== undefined) return run(context)
    const names = `agent "${turn.agentId}" or profile "${profile?.name ?? turn.profileId}"`
    const text = `This worker has no function for ${names}.`
    return { deliver: { text }, status: 'failed', error: 'no_executor' }
  }
}

function named(agents: Agents, name: string): AgentFunction | undefined {
  return Object.hasOwn(agents, name) ? agents[name] : undefined
}
