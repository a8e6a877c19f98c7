/**
 * Reads what a turn knows, in a fixed order (T6.1): the head under its fence, with the roster entry, profile and tools of
 * the agent (T6.2), then the cards: what the caller gave, what the turn has written, and of earlier turns what the agent's memory allows
 * (T5.2, T9.3). At most `bytesMax` of the context and of the rest, newest cards first: the memory of a worker does not grow with the
 * history of an agent.
 */
import { accountHold } from '../kernel/pmo-tools.js'
import { readWork, type TurnAgent, type TurnProfile, type TurnTool } from '../kernel/reads/work.js'
import type { Card } from '../kernel/verbs/cards.js'
import type { Fence } from '../kernel/verdict.js'
import type { Database } from '../ports/database/database.js'

export interface Hydrated {
  /** The agent's entry in the roster; undefined if it was removed. */
  readonly agent: TurnAgent | undefined
  readonly profile: Pick<TurnProfile, 'name' | 'spec'> | undefined
  readonly tools: readonly Pick<TurnTool, 'tool_name' | 'description' | 'parameters'>[]
  /** The cards that the caller gave. */
  readonly context: readonly Card[]
  /** The cards of earlier turns that the agent's `memory` allows: none, those of the session, or those of its box. */
  readonly memory: readonly Card[]
  /** The cards that this turn has written so far, also by an earlier worker. */
  readonly output: readonly Card[]
  /** Whether older cards were left out, because there are more than `worker.hydrate_max_bytes`. */
  readonly truncated: { readonly context: boolean; readonly memory: boolean; readonly output: boolean }
}

// The default of `worker.hydrate_max_bytes`.
const defaultBytesMax = 4_194_304

export async function hydrate(db: Database, fence: Fence, bytesMax = defaultBytesMax): Promise<Hydrated | 'stale'> {
  const work = await readWork(db, fence, bytesMax)
  if (work === 'stale') return work
  const { agent, profile, tools, context, memory, output } = work
  return {
    agent: agent ?? undefined,
    profile: profile ?? undefined,
    tools,
    context: context.cards,
    memory: memory.cards.filter(isOfAgent),
    output: output.cards.filter(isOfAgent),
    truncated: { context: context.truncated, memory: memory.truncated, output: output.truncated },
  }
}

/** Without the waits for a held account, which are not work of the agent. */
const isOfAgent = ({ content }: Card) => (content as { readonly tool_name?: unknown } | null)?.tool_name !== accountHold
