/** A function agent: called with a turn, it returns how the turn continues. It is called again after each wait and reads its state from the cards. */
import { objectOf } from '@bellwether/base'
import { InvalidInput, type Activity } from '@bellwether/protocol'
import type { Hold, Limit } from '../kernel/verbs/accounts/accounts.js'
import type { Ask, BudgetLeft, Committed, Limits, Reserved, Used } from '../kernel/verbs/budgets/budgets.js'
import type { StoredSession } from '../kernel/reads/program-session.js'
import type { SpendingShort } from '../kernel/verbs/budgets/spending.js'
import type { NewCard } from '../kernel/verbs/cards.js'
import type { NewTranscriptEntry } from '../kernel/verbs/content/append_transcript.js'
import type { ClaimedTurn } from '../kernel/verbs/turn/claim.js'
import type { Delivery } from '../kernel/verbs/turn/deliver.js'
import type { ToolResult } from '@bellwether/protocol/http'
import type { TurnMessage } from '../kernel/verbs/content/messages.js'
import type { Step } from '../kernel/verbs/content/record.js'
import type { ProgramSession } from '../kernel/verbs/content/store_session.js'
import type { ToolCall } from '../kernel/verbs/turn/suspend.js'
import type { BoxSwap } from '../kernel/verbs/content/swap_box.js'
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
   * Call the returned function before you record the step for the last time. Absent in a guest, and
   * in a turn without a budget whose agent does not spend.
   */
  readonly meter?: ((read: () => Step) => () => Promise<void>) | undefined
  /** The accounts to which the turn's calls are charged. Absent in a guest. */
  readonly accounts?: AccountGate | undefined
  /** Adds text, or an entry of another kind, to the transcript of the turn, which people read while it runs. Never waits and never throws. */
  say(entry: string | NewTranscriptEntry): void
  /**
   * The messages that people sent to the turn since the last call, in order; each is returned once, also across takeovers, and is a card of
   * `hydrate().output` from then on. Throws when the fence is lost.
   */
  messages(): Promise<readonly TurnMessage[]>
  /** Whether messages wait, without taking them. Absent in a guest. */
  readonly waiting?: (() => Promise<{ readonly waiting: boolean; readonly urgent: boolean }>) | undefined
  /** The turn waits for a person until the returned function is called: it does not count towards the worker's concurrency. Absent in a guest. */
  readonly awaitPerson?: (() => () => void) | undefined
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
  /** The session of the program that runs the turn. Throws when the fence is lost. Absent in a guest. */
  readonly programSession?: {
    read(): Promise<StoredSession | undefined>
    store(session: ProgramSession): Promise<void>
  }
  newId(): string
}

/** Keeps calls away from an account that reached a limit of its provider. */
export interface AccountGate {
  /** Before each call. Throws AccountHeld if the account is held. `probe`: this call shows whether the account works again. */
  enter(account: string): Promise<'free' | 'probe'>
  /** The account works: ends its hold, if this turn probes it. */
  works(account: string): Promise<void>
  /** The call reached a limit. Throws AccountHeld. */
  hold(limit: Limit): Promise<never>
  /** A spending limit does not cover the call: the turn waits for the next period. Throws AccountHeld. */
  holdSpending(short: SpendingShort): Promise<never>
  /** A pause that is shorter than this is waited for; a longer one suspends the turn. */
  readonly parkAfterMs: number
}

export type TurnAction =
  | { readonly deliver: Delivery['content']; readonly status?: Delivery['status']; readonly error?: string }
  | { readonly suspend: { readonly calls: readonly ToolCall[]; readonly stepId?: string } }

export interface AgentFunction {
  (context: TurnContext): Promise<TurnAction>
  /** Limits for each of its turns, in addition to the limits of the turn. */
  readonly limits?: Limits
  /**
   * Its turns count in spending limits: the model, and whether its calls are reserved one by one. Otherwise the turn is stopped when
   * a limit is used up. Absent: the turn counts from its first report of usage on.
   */
  readonly spends?: { readonly model: string | undefined; readonly reserves: boolean }
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
    return actionOf(await run({ ...context, instruction }))
  }
}

/** A function of an agents file. It reads its task itself, so that a turn costs no query that its agent does not need. */
export type FileAgent = (turn: TurnContext) => string | TurnAction | Promise<string | TurnAction>

const noInstruction: PropertyDescriptor = {
  configurable: true,
  get: () => {
    throw new InvalidInput(
      'turn.instruction does not exist in an agents file. Read the task with: const { context } = await turn.hydrate(); ' +
        'its card of type "task.instruction" has the text',
      { code: 'no_instruction' },
    )
  },
}

export function fileFunction(run: FileAgent): AgentFunction {
  return async (context) => actionOf(await run(Object.defineProperty(context, 'instruction', noInstruction)))
}

/** Agents in JavaScript may return anything. */
function actionOf(answer: unknown): TurnAction {
  if (typeof answer === 'string') return { deliver: { text: answer } }
  if (typeof answer === 'object' && answer !== null && ('deliver' in answer || 'suspend' in answer))
    return answer as TurnAction
  const got = typeof answer === 'object' && answer !== null ? `keys: ${Object.keys(answer).join(', ')}` : String(answer)
  throw new InvalidInput(
    `The function of the agent must return a text, { deliver: { text } } or { suspend: { calls } } (got ${got})`,
    { code: 'invalid_answer' },
  )
}

/** Finds the function in the default export of a module: the export itself, or its entry `name`, as a function or as `{ run }`. */
export function functionIn(exported: unknown, name: string): ((...args: never[]) => unknown) | undefined {
  if (isFunction(exported)) return exported
  if (typeof exported !== 'object' || exported === null || !Object.hasOwn(exported, name)) return undefined
  const entry = (exported as Readonly<Record<string, unknown>>)[name]
  if (isFunction(entry)) return entry
  const run = objectOf(entry)['run']
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

/** Thrown into an executor when the account of its call is held. Expected: the turn is suspended and called again when the account is free. */
export class AccountHeld extends Error {
  constructor(readonly hold: Hold) {
    super(`account ${hold.account} is held until ${hold.until.toISOString()}`)
    this.name = 'AccountHeld'
  }
}
