/** A function agent: called with a turn, it returns how the turn continues. It is called again after each wait and reads its state from the cards. */
import type { Activity } from '@bellwether/protocol'
import type { Ask, BudgetLeft, Committed, Limits, Reserved, Used } from '../kernel/verbs/budgets/budgets.js'
import type { NewCard } from '../kernel/verbs/cards.js'
import type { ClaimedTurn } from '../kernel/verbs/turn/claim.js'
import type { Delivery } from '../kernel/verbs/turn/deliver.js'
import type { ToolResult } from '@bellwether/protocol/http'
import type { Step } from '../kernel/verbs/turn/record.js'
import type { ToolCall } from '../kernel/verbs/turn/suspend.js'
import type { BoxSwap } from '../kernel/verbs/turn/swap_box.js'
import type { Hydrated } from './hydrate.js'

export interface TurnContext {
  readonly turn: ClaimedTurn
  /**
   * Aborts when the fence is lost, the turn is stopped, the worker shuts down, or the turn exceeds its budget (reason `budget_exceeded`).
   * Stop at once: later writes are rejected.
   */
  readonly signal: AbortSignal
  /** The results that the turn waited for, in call order; empty at its start. A rejected submit_result counts as a result. */
  readonly results: readonly ToolResult[]
  /** Reads the roster entry, profile and tools of the agent, then its context box and output box. Throws when the fence is lost. */
  hydrate(): Promise<Hydrated>
  /** Writes cards into the output box, and a step row, whose usage is charged to the turn's budget. Throws when the fence is lost. */
  record(writing: { readonly cards?: readonly NewCard[]; readonly step?: Step }): Promise<BudgetLeft | null>
  /**
   * Reports the usage of a running call: once per second the worker calls `read`, charges the step and stops a turn over its budget.
   * Call the returned function before you record the step for the last time. Absent in a guest, and if the turn has no budget.
   */
  readonly meter?: ((read: () => Step) => () => Promise<void>) | undefined
  /** Reports what the turn is doing; counts as a beat. Throws when the fence is lost. */
  activity(activity: Activity, currentTool?: string): Promise<void>
  /** Reserves the most that a call may use. Throws when the fence is lost. */
  reserve(ask: Ask): Promise<Reserved>
  /** Charges what a reserved call used. Throws when the fence is lost. */
  commit(used: Used): Promise<Committed>
  /** Releases a reservation whose call was not made or cost nothing. Throws when the fence is lost. */
  release(reservationId: string): Promise<void>
  /** Compaction: starts a new output box from existing cards and new ones. Throws when the fence is lost. */
  swapBox(box: Pick<BoxSwap, 'cardIds' | 'cards'>): Promise<void>
  newId(): string
}

export type TurnAction =
  | { readonly deliver: Delivery['content']; readonly status?: Delivery['status']; readonly error?: string }
  | { readonly suspend: { readonly calls: readonly ToolCall[]; readonly stepId?: string } }

export interface AgentFunction {
  (context: TurnContext): Promise<TurnAction>
  /** Limits for each of its turns, in addition to the limits of the turn. */
  readonly limits?: Limits
}

/** What an agent function gets: the task, the results of the tools it waited for, and calls that write under the turn's fence. */
export interface AgentTurn extends TurnContext {
  /** The task as text. */
  readonly instruction: string
}

/**
 * The code of an agent. A returned text is the deliverable. `{ deliver }` delivers a text, result fields or a failure;
 * `{ suspend }` waits for tool calls without holding a process, and the function is called again with their `results`.
 */
export type Agent = (turn: AgentTurn) => string | TurnAction | Promise<string | TurnAction>

export function agentFunction(run: Agent): AgentFunction {
  return async (context) => {
    const { context: cards } = await context.hydrate()
    const instruction = cards
      .filter((card) => card.type === 'task.instruction')
      .map((card) => (card.content as { readonly text?: string }).text ?? '')
      .join('\n')
    const answer = await run({ ...context, instruction })
    return typeof answer === 'string' ? { deliver: { text: answer } } : answer
  }
}

/** Finds the function in the default export of a module: the export itself, or its entry `name`, as a function or as `{ run }`. */
export function functionIn(exported: unknown, name: string): ((...args: never[]) => unknown) | undefined {
  if (isFunction(exported)) return exported
  if (typeof exported !== 'object' || exported === null || !Object.hasOwn(exported, name)) return undefined
  const entry = (exported as Readonly<Record<string, unknown>>)[name]
  if (isFunction(entry)) return entry
  const run = typeof entry === 'object' && entry !== null && 'run' in entry ? entry.run : undefined
  return isFunction(run) ? run : undefined
}

const isFunction = (value: unknown): value is (...args: never[]) => unknown => typeof value === 'function'

/** Thrown into an agent's code when another worker owns the turn. Expected: the run ends silently. */
export class FenceLost extends Error {
  constructor(readonly agentTurnId: string) {
    super(`turn ${agentTurnId} is owned by another worker now`)
    this.name = 'FenceLost'
  }
}
