/**
 * Reads what a turn knows, in a fixed order (T6.1): the head under its fence, with the roster entry, profile and tools of
 * the agent (T6.2), then the cards. It reads no box except the turn's own context box and output box (T5.2), and at most `bytesMax` of each, newest cards first: the memory of a worker does not
 * grow with the history of an agent.
 */
import { readWork, type TurnAgent, type TurnProfile, type TurnTool } from '../kernel/reads/work.js'
import type { Card } from '../kernel/verbs/cards.js'
import type { Fence } from '../kernel/verdict.js'
import type { Database } from '../ports/database/database.js'

export interface Hydrated {
  /** The agent's entry in the roster; undefined if it was removed. */
  readonly agent: TurnAgent | undefined
  readonly profile: Pick<TurnProfile, 'name' | 'spec'> | undefined
  readonly tools: readonly Pick<TurnTool, 'tool_name' | 'description' | 'parameters'>[]
  readonly context: readonly Card[]
  /** The agent's memory: the cards it has written so far, including those of this turn. */
  readonly output: readonly Card[]
  /** Whether older cards of a box were left out, because the box is larger than `worker.hydrate_max_bytes`. */
  readonly truncated: { readonly context: boolean; readonly output: boolean }
}

// The default of `worker.hydrate_max_bytes`.
const defaultBytesMax = 4_194_304

export async function hydrate(db: Database, fence: Fence, bytesMax = defaultBytesMax): Promise<Hydrated | 'stale'> {
  const work = await readWork(db, fence, bytesMax)
  if (work === 'stale') return work
  const { agent, profile, tools, context, output } = work
  return {
    agent: agent ?? undefined,
    profile: profile ?? undefined,
    tools,
    context: context.cards,
    output: output.cards,
    truncated: { context: context.truncated, output: output.truncated },
  }
}
