/**
 * Function agents by name: the agent's id, else whom it was copied from, else its profile's name, else `*`. What a worker's agents
 * file exports.
 */
import type { ClaimedTurn } from '../kernel/verbs/turn/claim.js'
import type { AgentFunction } from './agent.js'
import { originsOf } from './clone-origin.js'

export type Agents = Readonly<Record<string, AgentFunction>>

/** Names the type of an agents file, so that an editor can help; changes nothing. */
export function defineAgents<A extends Agents>(agents: A): A {
  return agents
}

/** Undefined: nobody here does this agent's turns. */
export function agentFor(
  agents: Agents,
  turn: Pick<ClaimedTurn, 'agentId' | 'agentTurnId' | 'profileId' | 'payload'>,
): AgentFunction | undefined {
  const own = [turn.agentId, ...originsOf(turn)].map((name) => named(agents, name)).find((run) => run !== undefined)
  const fallback = named(agents, '*')
  if (own !== undefined || turn.profileId === null) return own ?? fallback
  return async (context) => {
    const { profile } = await context.hydrate()
    const run = (profile === undefined ? undefined : named(agents, profile.name)) ?? fallback
    if (run !== undefined) return run(context)
    const who = `agent ${turn.agentId} or profile ${profile?.name ?? turn.profileId}`
    return { deliver: { text: `No function for ${who}.` }, status: 'failed', error: 'no_executor' }
  }
}

function named(agents: Agents, name: string): AgentFunction | undefined {
  return Object.hasOwn(agents, name) ? agents[name] : undefined
}
