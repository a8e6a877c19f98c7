/**
 * Budgets (hazard 18): reserve before a call, commit what it used, release the rest; or record steps with their usage. Reserved,
 * escrowed and used amounts together never exceed a limit, unless a call uses more than it reserved or a step reports more than is
 * left. Every ending settles the open reservations in its own transaction.
 */
import { defined } from '@bellwether/base'
import { InvalidInput, token, type BudgetKey } from '@bellwether/protocol'
import type { Queryable } from '../../../ports/database/database.js'
import type { Ids } from '../../../ports/ids.js'
import { plainText } from '../../content.js'
import { callWith, type Fence, type Verdict } from '../../verdict.js'
import type { SpendingShort } from './spending.js'

/** The most that may be spent; an absent limit does not apply. */
export interface Limits {
  /** Fresh tokens: input, output and cache writes. Cache reads do not count. */
  readonly tokens?: number
  readonly costMicros?: number
  /** Working time: from the start of the turn to its end, without waits for people; for a purse, the sum over its turns. */
  readonly wallMs?: number
}

/** A budget that outlives turns, for example one for all runs of a task. */
export interface Purse extends Limits {
  readonly projectId: string
  /** The caller's id for the purse: opening it again sets its limits. */
  readonly budgetId: string
  /** What was used before this purse existed. Ignored if it exists. */
  readonly used?: Limits
}

export interface TurnBudget extends Limits {
  /** The purse that pays; a turn without its own limits gets what is left in the purse. */
  readonly purseId?: string
}

/** What a turn may still spend; null: no limit. */
export interface BudgetLeft {
  readonly tokens: number | null
  readonly costMicros: number | null
  readonly wallMs: number | null
  /** The limits that are exceeded: if there are any, the turn must end with budget_exceeded. */
  readonly exceededKeys: readonly BudgetKey[]
  /** With `exceeded`: the spending limit that does not cover the call. */
  readonly spending?: SpendingShort | undefined
}

export interface Ask {
  /** The caller's id for the call: repeating the request after an in-doubt commit changes nothing. */
  readonly reservationId: string
  /** The most that the call can use: its prompt plus its longest answer. */
  readonly tokens: number
  readonly costMicros?: number
  /** For spending limits of models. Default: the turn's model. */
  readonly model?: string | undefined
}

/** `exceeded`: not enough is left; reserve less, or end the turn as failed with budget_exceeded. */
export type Reserved = {
  readonly what: 'reserved' | 'already' | 'exceeded' | 'unlimited' | 'stale'
  readonly left: BudgetLeft | null
}

export interface Used {
  readonly reservationId: string
  /** Fresh tokens: input, output and cache writes. */
  readonly tokens: number
  readonly costMicros?: number
  /** Parts of `tokens`; the rest is input. */
  readonly outputTokens?: number
  readonly cacheWriteTokens?: number
  /** Not part of `tokens`. */
  readonly cacheReadTokens?: number
}

export type Committed = {
  readonly what: 'committed' | 'released' | 'already' | 'stale'
  readonly left: BudgetLeft | null
  /** The answer was larger than the rest of the budget: the turn has crossed its budget and must end. */
  readonly exceeded: boolean
}

// Far above any real bill, and sums of many still fit a bigint and a JavaScript number.
const amountMax = 1_000_000_000_000

function amount(value: number, what: string): number {
  if (Number.isInteger(value) && value >= 0 && value <= amountMax) return value
  throw new InvalidInput(`"${what}" must be a whole number from 0 to ${amountMax} (got ${value})`, {
    code: 'invalid_amount',
  })
}

export function limitRow(limits: Limits): Record<string, number | undefined> {
  return {
    token_limit: limits.tokens === undefined ? undefined : amount(limits.tokens, 'tokens'),
    cost_micros_limit: limits.costMicros === undefined ? undefined : amount(limits.costMicros, 'cost_micros'),
    wall_ms_limit: limits.wallMs === undefined ? undefined : amount(limits.wallMs, 'wall_ms'),
  }
}

export async function openPurse(db: Queryable, purse: Purse): Promise<void> {
  const { token_limit: tokens, cost_micros_limit: cost, wall_ms_limit: wall } = limitRow(purse)
  const used = limitRow(purse.used ?? {})
  const [verdict] = await callWith<Verdict<'opened'>>(
    db,
    'open_purse',
    token(purse.projectId, 'project'),
    plainText(purse.budgetId, 'budget_id'),
    tokens ?? null,
    cost ?? null,
    wall ?? null,
    used['token_limit'] ?? null,
    used['cost_micros_limit'] ?? null,
    used['wall_ms_limit'] ?? null,
  )
  if (verdict === undefined)
    throw new InvalidInput(`Cannot open the purse "${purse.budgetId}": another project or a turn uses this id`, {
      code: 'duplicate_budget',
      hint: 'choose another budget_id',
    })
}

/** The budget of one turn, in the form that enqueue takes. */
export function turnBudgetRow(ids: Ids, budget: TurnBudget): Record<string, unknown> & { budget_id: string } {
  const purseId = budget.purseId === undefined ? undefined : plainText(budget.purseId, 'budget_id')
  return { budget_id: ids.next(), parent_budget_id: purseId, ...limitRow(budget) }
}

type BudgetDetail = {
  readonly tokens: number | null
  readonly cost_micros: number | null
  readonly wall_ms: number | null
  readonly exceeded_keys: readonly BudgetKey[]
  readonly spending?: SpendingShort
} | null

type BudgetVerdict<What extends string> = Verdict<What, BudgetDetail>

async function callFenced<What extends string>(
  db: Queryable,
  verb: 'reserve' | 'commit_usage' | 'limit_turn',
  fence: Fence,
  ...rest: readonly unknown[]
): Promise<BudgetVerdict<What>> {
  const { projectId, agentId, agentTurnId, turnEpoch } = fence
  const [verdict] = await callWith<BudgetVerdict<What>>(db, verb, projectId, agentId, agentTurnId, turnEpoch, ...rest)
  if (verdict === undefined) throw new Error(`state.${verb} returned no verdict`)
  return verdict
}

export const leftOf = (detail: BudgetDetail): BudgetLeft | null =>
  detail && {
    tokens: detail.tokens,
    costMicros: detail.cost_micros,
    wallMs: detail.wall_ms,
    exceededKeys: detail.exceeded_keys,
    ...defined({ spending: detail.spending }),
  }

export async function reserve(db: Queryable, fence: Fence, ask: Ask): Promise<Reserved> {
  const { what, detail } = await callFenced<Reserved['what']>(
    db,
    'reserve',
    fence,
    plainText(ask.reservationId, 'reservation_id'),
    amount(ask.tokens, 'tokens'),
    amount(ask.costMicros ?? 0, 'cost_micros'),
    ask.model ?? null,
  )
  return { what, left: leftOf(detail) }
}

export async function commitUsage(db: Queryable, fence: Fence, used: Used): Promise<Committed> {
  const { reservationId, tokens, costMicros = 0, outputTokens = 0, cacheReadTokens = 0, cacheWriteTokens = 0 } = used
  return settle(db, fence, reservationId, [
    amount(tokens, 'tokens'),
    amount(costMicros, 'cost_micros'),
    amount(outputTokens, 'output_tokens'),
    amount(cacheReadTokens, 'cache_read_tokens'),
    amount(cacheWriteTokens, 'cache_write_tokens'),
  ])
}

/** Releases a reservation whose call was not made, or cost nothing. */
export async function releaseUsage(db: Queryable, fence: Fence, reservationId: string): Promise<Committed> {
  return settle(db, fence, reservationId, [null, null, null, null, null])
}

async function settle(
  db: Queryable,
  fence: Fence,
  reservationId: string,
  amounts: readonly (number | null)[],
): Promise<Committed> {
  const id = plainText(reservationId, 'reservation_id')
  const { what, detail } = await callFenced<Committed['what']>(db, 'commit_usage', fence, id, ...amounts)
  return { what, left: leftOf(detail), exceeded: (detail?.exceeded_keys.length ?? 0) > 0 }
}

/** Applies the limits of the agent to a running turn; it never raises a limit. Returns what is left; null without a budget. */
export async function limitTurn(
  db: Queryable,
  ids: Ids,
  fence: Fence,
  limits: Limits,
): Promise<BudgetLeft | null | 'stale'> {
  const { token_limit: tokens, cost_micros_limit: cost, wall_ms_limit: wall } = limitRow(limits)
  const { what, detail } = await callFenced<'limited' | 'stale'>(
    db,
    'limit_turn',
    fence,
    ids.next(),
    tokens ?? null,
    cost ?? null,
    wall ?? null,
  )
  return what === 'stale' ? what : leftOf(detail)
}
