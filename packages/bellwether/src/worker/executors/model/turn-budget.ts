/**
 * The budget of a turn's model calls. Each try is reserved before and charged after it, in the kernel's budget and against the
 * limits of the agent file. A try with unknown usage is charged in full. A turn without a kernel budget reserves nothing there.
 */
import type { Clock } from '@bellwether/base'
import type { BudgetLeft } from '../../../kernel/verbs/budgets/budgets.js'
import type { Charge } from '../../../ports/model/ask.js'
import type { TokenUsage } from '../../../ports/model/model.js'
import type { TurnContext } from '../../agent.js'
import type { Bounds, Prices } from './spec.js'
import type { Spent } from './transcript.js'

/** The most that a call may use. */
export interface CallLimit {
  readonly promptTokens: number
  readonly answerTokens: number
}

/** What is left when a reservation failed; Infinity for a resource that is not limited. */
export interface Shortage {
  readonly tokens: number
  readonly costMicros: number
  readonly outOfTime: boolean
}

export interface TurnBudget {
  /** Reserves a try. False if the budget does not cover it; `shortage` then holds what is left. */
  begin(reservationId: string, limit: CallLimit): Promise<boolean>
  settle(bill: Charge): Promise<void>
  readonly shortage: Shortage | undefined
  /** A charge exceeded a limit. */
  readonly exceeded: boolean
  /** The number of tries that were charged in full because their usage is unknown. */
  readonly chargedInFull: number
  /** The turn's totals, including this call. */
  readonly spent: Spent
  /** The usage that the provider reported last, and its cost. */
  readonly usage: TokenUsage | undefined
  readonly costMicros: number | undefined
  /** How long a call may take before the turn's time is over. */
  readonly timeLeftMs: number
}

export function costOf(prices: Prices | undefined, usage: TokenUsage): number | undefined {
  if (prices === undefined) return undefined
  const cached = Math.min(usage.cachedTokens, usage.inputTokens)
  const cachedPrice = prices.cached_input_per_million ?? prices.input_per_million
  const input = (usage.inputTokens - cached) * prices.input_per_million + cached * cachedPrice
  return Math.ceil(input + usage.outputTokens * prices.output_per_million)
}

export interface TurnBudgetOptions {
  readonly context: Pick<TurnContext, 'reserve' | 'commit' | 'release'>
  readonly clock: Clock
  readonly bounds: Bounds
  readonly prices: Prices | undefined
  readonly before: Spent
}

export function openTurnBudget({ context, clock, bounds, prices, before }: TurnBudgetOptions): TurnBudget {
  const startedMs = clock.monotonicMs()
  let { tokens, cost_micros: costMicros } = before
  let shortage: Shortage | undefined
  let exceeded = false
  let chargedInFull = 0
  let wallLeftMs = Infinity
  let usage: TokenUsage | undefined
  let lastCost: number | undefined
  let open: { id: string; tokens: number; costMicros: number; reserved: boolean } | undefined
  const workMs = () => before.work_ms + Math.round(clock.monotonicMs() - startedMs)

  function localShortage(ask: { tokens: number; costMicros: number }): Shortage | undefined {
    const left = { tokens: bounds.maxTokens - tokens, costMicros: bounds.maxCostMicros - costMicros }
    if (workMs() >= bounds.maxWorkMs) return { ...left, outOfTime: true }
    return ask.tokens > left.tokens || ask.costMicros > left.costMicros ? { ...left, outOfTime: false } : undefined
  }

  return {
    async begin(reservationId, { promptTokens, answerTokens }) {
      const usageMax = { inputTokens: promptTokens, outputTokens: answerTokens, cachedTokens: 0 }
      const most = { tokens: promptTokens + answerTokens, costMicros: costOf(prices, usageMax) ?? 0 }
      shortage = localShortage(most)
      if (shortage !== undefined) return false
      const { what, left } = await context.reserve({ reservationId, ...most })
      wallLeftMs = left?.wallMs ?? Infinity
      if (what === 'exceeded') {
        shortage = shortageOf(left)
        return false
      }
      open = { id: reservationId, ...most, reserved: what !== 'unlimited' }
      return true
    },
    async settle(bill) {
      if (open === undefined) return
      const { id, reserved, ...most } = open
      open = undefined
      if (bill === 'nothing') {
        if (reserved) await context.release(id)
        return
      }
      if (bill === 'unknown') chargedInFull += 1
      else usage = bill
      const charged =
        bill === 'unknown'
          ? most
          : { tokens: bill.inputTokens + bill.outputTokens, costMicros: costOf(prices, bill) ?? 0 }
      lastCost = prices === undefined ? undefined : charged.costMicros
      tokens += charged.tokens
      costMicros += charged.costMicros
      if (reserved && (await context.commit({ reservationId: id, ...charged })).exceeded) exceeded = true
      if (tokens > bounds.maxTokens || costMicros > bounds.maxCostMicros) exceeded = true
    },
    get shortage() {
      return shortage
    },
    get exceeded() {
      return exceeded
    },
    get chargedInFull() {
      return chargedInFull
    },
    get spent() {
      return { tokens, cost_micros: costMicros, work_ms: workMs() }
    },
    get usage() {
      return usage
    },
    get costMicros() {
      return lastCost
    },
    get timeLeftMs() {
      return Math.max(0, Math.min(wallLeftMs, bounds.maxWorkMs - workMs()))
    },
  }
}

function shortageOf(left: BudgetLeft | null): Shortage {
  return {
    tokens: left?.tokens ?? Infinity,
    costMicros: left?.costMicros ?? Infinity,
    outOfTime: (left?.wallMs ?? Infinity) <= 0,
  }
}

/** The longest answer, in tokens, that the rest of the budget covers; 0 if it does not cover the prompt. */
export function affordableAnswer(shortage: Shortage, promptTokens: number, prices: Prices | undefined): number {
  const byTokens = shortage.tokens - promptTokens
  const byCost =
    prices === undefined || prices.output_per_million === 0
      ? Infinity
      : (shortage.costMicros - promptTokens * prices.input_per_million) / prices.output_per_million
  return Math.max(0, Math.floor(Math.min(byTokens, byCost)))
}
