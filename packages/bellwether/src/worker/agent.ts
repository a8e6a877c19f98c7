/** What a function agent is: called with a turn, it answers how the turn goes on. Called again, from the cards, after each wait. */
import type { Activity } from '@bellwether/protocol'
import type { Ask, Committed, Reserved, Used } from '../kernel/verbs/budgets/budgets.js'
import type { NewCard } from '../kernel/verbs/cards.js'
import type { ClaimedTurn } from '../kernel/verbs/turn/claim.js'
import type { Delivery } from '../kernel/verbs/turn/deliver.js'
import type { ToolResult } from '../kernel/reads/waits.js'
import type { Step } from '../kernel/verbs/turn/record.js'
import type { ToolCall } from '../kernel/verbs/turn/suspend.js'
import type { BoxSwap } from '../kernel/verbs/turn/swap_box.js'
import type { Hydrated } from './hydrate.js'

export interface TurnContext {
  readonly turn: ClaimedTurn
  /** Fires when the fence is lost, the turn is stopped, or the worker goes down: stop at once, nothing more will be taken. */
  readonly signal: AbortSignal
  /** The results that the turn waited for, in the order of its calls; empty at its start. A refused submit_result is one too. */
  readonly results: readonly ToolResult[]
  /** Everything the turn may know. Throws when the fence is lost. */
  hydrate(): Promise<Hydrated>
  /** Writes cards into the output box, and a step. Throws when the fence is lost. */
  record(writing: { readonly cards?: readonly NewCard[]; readonly step?: Step }): Promise<void>
  /** Says what the turn is busy with; it also counts as a beat. Throws when the fence is lost. */
  activity(activity: Activity, currentTool?: string): Promise<void>
  /** Sets aside what a call may use at most. Throws when the fence is lost. */
  reserve(ask: Ask): Promise<Reserved>
  /** Charges what a reserved call has used. Throws when the fence is lost. */
  commit(used: Used): Promise<Committed>
  /** The reserved call was not made, or cost nothing. Throws when the fence is lost. */
  release(reservationId: string): Promise<void>
  /** Compaction: a new output box, made of cards that the turn sees and of new ones. Throws when the fence is lost. */
  swapBox(box: Pick<BoxSwap, 'cardIds' | 'cards'>): Promise<void>
  newId(): string
}

export type TurnAction =
  | { readonly deliver: Delivery['content']; readonly status?: Delivery['status']; readonly error?: string }
  | { readonly suspend: { readonly calls: readonly ToolCall[]; readonly stepId?: string } }

export type AgentFunction = (context: TurnContext) => Promise<TurnAction>

/** Thrown into an agent's code when the turn is no longer its own: expected, and ended silently. */
export class FenceLost extends Error {
  constructor(readonly agentTurnId: string) {
    super(`turn ${agentTurnId} belongs to someone else now`)
    this.name = 'FenceLost'
  }
}
