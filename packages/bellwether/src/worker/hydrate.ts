/**
 * Reads what a turn knows, in a fixed order (T6.1): the head under its fence, then the roster, then the cards. It reads no box except the
 * turn's own context box and output box (T5.2).
 */
import { readBoxes } from '../kernel/reads/cards.js'
import { readTurnSetup, type TurnProfile, type TurnTool } from '../kernel/reads/work.js'
import type { Card } from '../kernel/verbs/cards.js'
import type { Fence } from '../kernel/verdict.js'
import type { Database } from '../ports/database/database.js'

export interface Hydrated {
  readonly profile: Pick<TurnProfile, 'name' | 'spec'> | undefined
  readonly tools: readonly Pick<TurnTool, 'tool_name' | 'description' | 'parameters'>[]
  readonly context: readonly Card[]
  /** The agent's memory: the cards it has written so far, including those of this turn. */
  readonly output: readonly Card[]
}

export async function hydrate(db: Database, fence: Fence): Promise<Hydrated | 'stale'> {
  const setup = await readTurnSetup(db, fence)
  if (setup === 'stale') return setup
  const { profile, tools, contextBoxId, outputBoxId } = setup
  const context = contextBoxId === null ? [] : await readBoxes(db, [contextBoxId])
  const output = outputBoxId === null ? [] : await readBoxes(db, [outputBoxId])
  return { profile, tools, context, output }
}
