/**
 * Finds the turn whose function caused an uncaught error. No caller can catch an error that is thrown in a timer, or an unhandled
 * rejection, but both keep the asynchronous context of the function.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { ClaimedTurn } from '../kernel/verbs/turn/claim.js'
import type { AgentFunction } from './agent.js'

export interface Culprits {
  /** The same function, run in the context of its turn. */
  readonly watched: (agent: AgentFunction) => AgentFunction
  /** The turn in whose context the caller runs. */
  readonly current: () => ClaimedTurn | undefined
}

/** Costs about 0.1 µs per promise of the process (Node 20) once a function agent has run. */
export function openCulprits(): Culprits {
  const turns = new AsyncLocalStorage<ClaimedTurn>()
  return {
    watched: (agent) => (context) => turns.run(context.turn, () => agent(context)),
    current: () => turns.getStore(),
  }
}
