/**
 * What the calls of a turn may cost: reserved before each try, charged after it, in the kernel's budget and within the bounds of
 * the agent's file. Always: a try that nobody can put a number to is charged in full; a turn without a budget pays nothing here.
 */
import type { Clock } from '@bellwether/base'
import type { BudgetLeft } from '../../../kernel/verbs/budgets/budgets.js'
import type { Charge } from '../../../ports/model/ask.js'
import type { TokenUsage } from '../../../ports/model/model.js'
import type { TurnContext } from '../../agent.js'
import type { Bounds, Prices } from './spec.js'
import type { Spent } from './transcript.js'

/** What a call may use at most. */
export interface Price {
  readonly promptTokens: number
  readonly answerTokens: number
}

/** What there is, when it is not enough; Infinity: that is not what is short. */
export interface Shortage {
  readonly tokens: number
  readonly costMicros: number
  readonly wallOver: boolean
}

export interface Spending {
  /** False: it is not there; `shortage` says what is. */
  begin(reservationId: string, price: Price): Promise<boolean>
  settle(bill: Charge): Promise<void>
  readonly shortage: Shortage | undefined
  /** A charge was larger than what was left. */
  readonly exceeded: boolean
  /** Tries that were charged in full, because nobody said what they used. */
  readonly guessed: number
  /** The sums, this work included. */
  readonly spent: Spent
  /** The last usage that was told, and what it cost. */
  readonly usage: TokenUsage | undefined
  readonly costMicros: number | undefined
  /** How long a call may take before the time is over. */
  readonly timeLeftMs: number
}

export function costOf(prices: Prices | undefined, usage: TokenUsage): number | undefined {
  if (prices === undefined) return undefined
  const cached = Math.min(usage.cachedTokens, usage.inputTokens)
  const cachedPrice = prices.cached_input_per_million ?? prices.input_per_million
  const input = (usage.inputTokens - cached) * prices.input_per_million + cached * cachedPrice
  return Math.ceil(input + usage.outputTokens * prices.output_per_million)
}

export interface SpendingOptions {
  readonly context: Pick<TurnContext, 'reserve' | 'commit' | 'release'>
  readonly clock: Clock
  readonly bounds: Bounds
  readonly prices: Prices | undefined
  readonly before: Spent
}

export function openSpending({ context, clock, bounds, prices, before }: SpendingOptions): Spending {
  const startedMs = clock.monotonicMs()
  let { tokens, cost_micros: costMicros } = before
  let shortage: Shortage | undefined
  let exceeded = false
  let guessed = 0
  let wallLeftMs = Infinity
  let usage: TokenUsage | undefined
  let lastCost: number | undefined
  let open: { id: string; tokens: number; costMicros: number; held: boolean } | undefined
  const workMs = () => before.work_ms + Math.round(clock.monotonicMs() - startedMs)

  function localShortage(ask: { tokens: number; costMicros: number }): Shortage | undefined {
    const left = { tokens: bounds.maxTokens - tokens, costMicros: bounds.maxCostMicros - costMicros }
    if (workMs() >= bounds.maxWorkMs) return { ...left, wallOver: true }
    return ask.tokens > left.tokens || ask.costMicros > left.costMicros ? { ...left, wallOver: false } : undefined
  }

  return {
    async begin(reservationId, { promptTokens, answerTokens }) {
      const most = { inputTokens: promptTokens, outputTokens: answerTokens, cachedTokens: 0 }
      const asked = { tokens: promptTokens + answerTokens, costMicros: costOf(prices, most) ?? 0 }
      shortage = localShortage(asked)
      if (shortage !== undefined) return false
      const { what, left } = await context.reserve({ reservationId, ...asked })
      wallLeftMs = left?.wallMs ?? Infinity
      if (what === 'exceeded') {
        shortage = shortageOf(left)
        return false
      }
      open = { id: reservationId, ...asked, held: what !== 'unlimited' }
      return true
    },
    async settle(bill) {
      if (open === undefined) return
      const { id, held, ...reserved } = open
      open = undefined
      if (bill === 'nothing') {
        if (held) await context.release(id)
        return
      }
      if (bill === 'unknown') guessed += 1
      else usage = bill
      const charged =
        bill === 'unknown'
          ? reserved
          : { tokens: bill.inputTokens + bill.outputTokens, costMicros: costOf(prices, bill) ?? 0 }
      lastCost = prices === undefined ? undefined : charged.costMicros
      tokens += charged.tokens
      costMicros += charged.costMicros
      if (held && (await context.commit({ reservationId: id, ...charged })).exceeded) exceeded = true
      if (tokens > bounds.maxTokens || costMicros > bounds.maxCostMicros) exceeded = true
    },
    get shortage() {
      return shortage
    },
    get exceeded() {
      return exceeded
    },
    get guessed() {
      return guessed
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
    wallOver: (left?.wallMs ?? Infinity) <= 0,
  }
}

/** How long an answer can be within what is left; 0: there is not enough for the prompt. */
export function affordableAnswer(shortage: Shortage, promptTokens: number, prices: Prices | undefined): number {
  const byTokens = shortage.tokens - promptTokens
  const byCost =
    prices === undefined || prices.output_per_million === 0
      ? Infinity
      : (shortage.costMicros - promptTokens * prices.input_per_million) / prices.output_per_million
  return Math.max(0, Math.floor(Math.min(byTokens, byCost)))
}
