/**
 * Function agents by name, as a worker's agents file exports them. A turn is run by the function of its agent id, else of the agent
 * it was cloned from, else of its profile's name, else `*`.
 */
import type { ClaimedTurn } from '../kernel/verbs/turn/claim.js'
import type { AgentFunction, FileAgent } from './agent.js'
import { cloneOriginsOf } from './clone-origin.js'
import type { AgentDefinition } from './isolation/isolation.js'

/** The default export of an agents file: functions, or definitions that say where a function runs. */
export type Agents = Readonly<Record<string, FileAgent | AgentDefinition>>

/** Gives an agents file its type, for editors; returns its argument. */
export function defineAgents<A extends Agents>(agents: A): A {
  return agents
}

/** Undefined if no function matches. */
export function agentFor(
  named: (name: string) => AgentFunction | undefined,
  turn: Pick<ClaimedTurn, 'agentId' | 'agentTurnId' | 'profileId' | 'payload'>,
): AgentFunction | undefined {
  const own = [turn.agentId, ...cloneOriginsOf(turn)].map((name) => named(name)).find((run) => run !== undefined)
  const fallback = named('*')
  if (own !== undefined || turn.profileId === null) return own ?? fallback
  return async (context) => {
    const { profile } = await context.hydrate()
    const run = (profile === undefined ? undefined : named(profile.name)) ?? fallback
    if (run !== undefined) return run(context)
    const names = `agent "${turn.agentId}" or profile "${profile?.name ?? turn.profileId}"`
    const text = `This worker has no function for ${names}.`
    return { deliver: { text }, status: 'failed', error: 'no_executor' }
  }
}
