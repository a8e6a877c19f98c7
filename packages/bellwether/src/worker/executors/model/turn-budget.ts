/**
 * The budget of a turn's model calls. Each try is reserved before and charged after it, in the kernel's budget; a turn without a
 * budget reserves nothing. A try with unknown usage is charged in full.
 */
import type { Clock } from '@bellwether/base'
import type { BudgetLeft } from '../../../kernel/verbs/budgets/budgets.js'
import type { SpendingShort } from '../../../kernel/verbs/budgets/spending.js'
import type { Charge } from '../../../ports/model/call-model.js'
import type { TokenUsage } from '../../../ports/model/model.js'
import type { TurnContext } from '../../agent.js'
import type { Prices } from './spec.js'

/** The most that a call may use. */
interface CallLimit {
  readonly promptTokens: number
  readonly answerTokens: number
}

/** What is left when a reservation failed; Infinity for a resource that is not limited. */
export interface Shortage {
  readonly tokens: number
  readonly costMicros: number
  readonly outOfTime: boolean
  /** The spending limit that does not cover the call. */
  readonly spending?: SpendingShort | undefined
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
  /** The usage that the provider reported last, and its cost. */
  readonly usage: TokenUsage | undefined
  readonly costMicros: number | undefined
  /** How long a call may take before the turn's time is over. */
  readonly timeLeftMs: number
}

export function costOf(prices: Prices | undefined, usage: TokenUsage): number | undefined {
  if (prices === undefined) return undefined
  const { input_per_million: inputPrice, output_per_million: outputPrice } = prices
  const read = Math.min(usage.cacheReadTokens, usage.inputTokens)
  const written = Math.min(usage.cacheWriteTokens, usage.inputTokens - read)
  const cached =
    read * (prices.cached_input_per_million ?? inputPrice) + written * (prices.cache_write_per_million ?? inputPrice)
  return Math.ceil((usage.inputTokens - read - written) * inputPrice + cached + usage.outputTokens * outputPrice)
}

export interface TurnBudgetOptions {
  readonly context: Pick<TurnContext, 'reserve' | 'commit' | 'release'>
  readonly clock: Clock
  readonly prices: Prices | undefined
  readonly model: { readonly name: string }
}

export function openTurnBudget({ context, clock, prices, model: { name: model } }: TurnBudgetOptions): TurnBudget {
  let shortage: Shortage | undefined
  let exceeded = false
  let chargedInFull = 0
  let wallEndsMs = Infinity
  let usage: TokenUsage | undefined
  let lastCost: number | undefined
  let open: { id: string; tokens: number; costMicros: number; reserved: boolean } | undefined

  return {
    async begin(reservationId, { promptTokens, answerTokens }) {
      const usageMax = { ...noCache, inputTokens: promptTokens, outputTokens: answerTokens }
      const most = { tokens: promptTokens + answerTokens, costMicros: costOf(prices, usageMax) ?? 0 }
      const { what, left } = await context.reserve({ reservationId, ...most, model })
      wallEndsMs = clock.monotonicMs() + (left?.wallMs ?? Infinity)
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
      const charged = bill === 'unknown' ? most : chargeOf(bill, prices)
      lastCost = prices === undefined ? undefined : charged.costMicros
      if (reserved && (await context.commit({ reservationId: id, ...charged })).exceeded) exceeded = true
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
    get usage() {
      return usage
    },
    get costMicros() {
      return lastCost
    },
    get timeLeftMs() {
      return Math.max(0, wallEndsMs - clock.monotonicMs())
    },
  }
}

const noCache = { cacheReadTokens: 0, cacheWriteTokens: 0 } as const

/** Cache reads cost money, but are not fresh tokens. */
export function chargeOf(usage: TokenUsage, prices: Prices | undefined) {
  const { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens } = usage
  const tokens = Math.max(0, inputTokens - cacheReadTokens) + outputTokens
  return { tokens, costMicros: costOf(prices, usage) ?? 0, outputTokens, cacheReadTokens, cacheWriteTokens }
}

function shortageOf(left: BudgetLeft | null): Shortage {
  return {
    tokens: Math.min(left?.tokens ?? Infinity, left?.spending?.tokens ?? Infinity),
    costMicros: Math.min(left?.costMicros ?? Infinity, left?.spending?.cost_micros ?? Infinity),
    outOfTime: (left?.wallMs ?? Infinity) <= 0,
    spending: left?.spending,
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
