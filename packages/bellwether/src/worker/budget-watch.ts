/**
 * Watches the budget of a running turn, for every executor, and the spending limits that apply to a program. The kernel decides whether a
 * limit is exceeded: the watch asks it when the working time may be used up and while the executor reports usage, and then aborts the
 * turn's signal with `budget_exceeded`, or with `spending_limit` if the turn is to wait. run-turn.ts ends or parks the turn.
 */
import { defined, type Clock, type Log } from '@bellwether/base'
import { budgetExceeded, type BudgetKey } from '@bellwether/protocol'
import type { BudgetLeft, Limits } from '../kernel/verbs/budgets/budgets.js'
import type { SpendingShort } from '../kernel/verbs/budgets/spending.js'
import type { Step } from '../kernel/verbs/content/record.js'
import { endsTurn } from './degrade.js'
import { FenceLost, type AgentFunction, type TurnAction, type TurnContext } from './agent.js'

/** The limits in the front matter of an agent file. */
export interface BudgetSettings {
  readonly max_tokens?: number | undefined
  readonly max_cost_usd?: number | undefined
  readonly max_wall_seconds?: number | undefined
}

/** The agent with its own limits, which apply to each of its turns, and with what its turns count to in spending limits. */
export function withLimits(
  agent: AgentFunction,
  budget: BudgetSettings | undefined,
  spends?: AgentFunction['spends'],
): AgentFunction {
  const limits: Limits = defined({
    tokens: budget?.max_tokens,
    costMicros: budget?.max_cost_usd && Math.round(budget.max_cost_usd * 1e6),
    wallMs: budget?.max_wall_seconds && Math.ceil(budget.max_wall_seconds * 1_000),
  })
  const own = { ...(Object.keys(limits).length === 0 ? {} : { limits }), ...defined({ spends }) }
  return Object.keys(own).length === 0
    ? agent
    : Object.assign((context: Parameters<AgentFunction>[0]) => agent(context), own)
}

/** The step of a call that is still running: its metadata has the usage so far. */
type Meter = () => Step

export interface BudgetWatchOptions {
  readonly clock: Clock
  readonly log: Log
  readonly left: BudgetLeft | null
  /** Asks the kernel what is left. */
  readonly read: () => Promise<BudgetLeft | null>
  /** Records a running step; returns what is left. */
  readonly record: (step: Step) => Promise<BudgetLeft | null>
  /** Whether a spending limit that is used up stops the turn. */
  readonly stopsAtLimit: boolean
}

/** Why the signal of a turn aborts that is to wait for the next period of a spending limit. */
export const spendingLimit = 'spending_limit'

export interface BudgetWatch {
  /** Aborts with the reason `budget_exceeded` or `spending_limit`. */
  readonly signal: AbortSignal
  readonly exceededKeys: readonly BudgetKey[]
  /** The spending limit that stopped the turn. */
  readonly usedUp: SpendingShort | undefined
  /** Takes the latest answer of the kernel. */
  see(left: BudgetLeft | null): void
  /** Starts reporting the usage of this call; the returned function stops that and waits for a report in progress. */
  readonly meter: (meter: Meter) => () => Promise<void>
  close(): void
}

// A program prints its usage once per answer, which takes seconds; a report is one short transaction.
const reportMs = 1_000
// The shortest pause between two checks: while processes are frozen, the remaining time may stay close to zero.
const checkMinMs = 200

export function openBudgetWatch(options: BudgetWatchOptions): BudgetWatch {
  const { clock, log, left: first, read, record, stopsAtLimit } = options
  const over = new AbortController()
  const closed = new AbortController()
  let wallEndsMs = Number.POSITIVE_INFINITY
  let exceededKeys: readonly BudgetKey[] = []
  let usedUp: SpendingShort | undefined
  let meter: Meter | undefined
  let reported = '{}'
  let reporting: Promise<void> = Promise.resolve()

  function see(left: BudgetLeft | null): void {
    if (left === null) return
    wallEndsMs = left.wallMs === null ? Number.POSITIVE_INFINITY : clock.monotonicMs() + left.wallMs
    if (over.signal.aborted) return
    exceededKeys = left.exceededKeys
    if (exceededKeys.length > 0) return over.abort(budgetExceeded)
    usedUp = stopsAtLimit ? left.spending : undefined
    if (usedUp !== undefined) over.abort(endsTurn(usedUp.action) ? budgetExceeded : spendingLimit)
  }

  /** Records what the running call has used since the last report. */
  async function report(): Promise<void> {
    const step = meter?.()
    const text = JSON.stringify(step?.metadata ?? {})
    if (step === undefined || text === reported) return
    reported = text
    see(await record(step))
  }

  async function check(): Promise<void> {
    try {
      await report()
      if (clock.monotonicMs() >= wallEndsMs) see(await read())
    } catch (error) {
      // Another part ends the turn if the fence is lost or the database stays unavailable; the executor records its final usage itself.
      if (error instanceof FenceLost) closed.abort()
      else log.warn({ err: error }, 'cannot check the budget of a running turn')
    }
  }

  async function watch(): Promise<void> {
    let waitMs = Math.max(0, wallEndsMs - clock.monotonicMs())
    while (!over.signal.aborted && !closed.signal.aborted) {
      // One millisecond more, because usage equal to the limit does not exceed it.
      await clock.sleep(Math.min(waitMs + 1, reportMs), closed.signal)
      if (closed.signal.aborted) return
      reporting = check()
      await reporting
      waitMs = Math.max(checkMinMs, wallEndsMs - clock.monotonicMs())
    }
  }

  see(first)
  void watch()
  return {
    signal: over.signal,
    get exceededKeys() {
      return exceededKeys
    },
    get usedUp() {
      return usedUp
    },
    see,
    meter(next) {
      meter = next
      return async () => {
        meter = undefined
        await reporting
      }
    },
    close: () => closed.abort(),
  }
}

/** Reports the usage of the running calls of a turn without limits: what a program printed before its worker was killed is recorded. */
export function plainMeter(
  { clock, log }: Pick<BudgetWatchOptions, 'clock' | 'log'>,
  write: TurnContext['record'],
): BudgetWatch['meter'] {
  const record = (step: Step) => write({ step })
  const nothing = { left: null, read: () => Promise.resolve(null), stopsAtLimit: false }
  return (next) => {
    const watch = openBudgetWatch({ clock, log, record, ...nothing })
    const stop = watch.meter(next)
    return () => stop().finally(() => watch.close())
  }
}

/** The ending of a turn that exceeded its budget, with what its agent returned as the work so far. */
export function overBudget(keys: readonly BudgetKey[], action: TurnAction | undefined) {
  const text = `The turn exceeded its budget: ${keys.join(', ')}.`
  const deliver = action !== undefined && 'deliver' in action ? action.deliver : { text }
  return { deliver, status: 'failed', error: budgetExceeded } as const
}
