/**
 * Ties an uncaught error to the turn whose function caused it. A throw in a timer and an unhandled rejection have no caller that could fail
 * the turn, but they keep the asynchronous context of the function.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { ClaimedTurn } from '../kernel/verbs/turn/claim.js'
import type { AgentFunction } from './agent.js'

export interface Culprits {
  readonly watched: (agent: AgentFunction) => AgentFunction
  /** The turn in whose context the caller runs. */
  readonly current: () => ClaimedTurn | undefined
}

/** Costs about 0.1 µs per promise of the process (Node 20): only for processes that run function agents of others. */
export function openCulprits(): Culprits {
  const turns = new AsyncLocalStorage<ClaimedTurn>()
  return {
    watched: (agent) => (context) => turns.run(context.turn, () => agent(context)),
    current: () => turns.getStore(),
  }
}
