/**
 * Budgets (hazard 18): reserve before a call, commit what it used, release the rest. Reserved, escrowed and used amounts together never
 * exceed a limit, unless an answer is larger than its reservation. Every ending settles the open reservations in its own transaction.
 * A turn without a budget is `unlimited`.
 */
import { InvalidInput, token } from '@bellwether/protocol'
import type { Queryable } from '../../../ports/database/database.js'
import type { Ids } from '../../../ports/ids.js'
import { plainText } from '../../content.js'
import { call, callWith, type Fence, type Verdict } from '../../verdict.js'

/** The most that may be spent; an absent limit does not apply. */
export interface Limits {
  readonly tokens?: number
  readonly costMicros?: number
  /** From the start of the turn to its end; for a purse, the sum over its turns. */
  readonly wallMs?: number
}

/** A budget that outlives turns, for example one for all runs of a task. */
export interface Purse extends Limits {
  readonly projectId: string
  /** The caller's id for the purse: opening it again changes nothing. */
  readonly budgetId: string
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
}

export interface Ask {
  /** The caller's id for the call: repeating the request after an in-doubt commit changes nothing. */
  readonly reservationId: string
  /** The most that the call can use: its prompt plus its longest answer. */
  readonly tokens: number
  readonly costMicros?: number
}

/** `exceeded`: not enough is left; reserve less, or end the turn as failed with budget_exceeded. */
export type Reserved = {
  readonly what: 'reserved' | 'already' | 'exceeded' | 'unlimited' | 'stale'
  readonly left: BudgetLeft | null
}

export interface Used {
  readonly reservationId: string
  readonly tokens: number
  readonly costMicros?: number
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
  const row = {
    budget_id: plainText(purse.budgetId, 'budget_id'),
    project_id: token(purse.projectId, 'project'),
    ...limitRow(purse),
  }
  await call<Verdict<'opened' | 'unknown_budget'>>(db, 'open_budgets', [row])
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
  readonly exceeded: boolean
} | null

interface Amounts {
  readonly tokens: number | null
  readonly costMicros: number | null
}

async function callBudget<What extends string>(
  db: Queryable,
  verb: 'reserve' | 'commit_usage',
  fence: Fence,
  reservationId: string,
  { tokens, costMicros }: Amounts,
): Promise<Verdict<What, BudgetDetail>> {
  const { projectId, agentId, agentTurnId, turnEpoch } = fence
  const id = plainText(reservationId, 'reservation_id')
  const [verdict] = await callWith<Verdict<What, BudgetDetail>>(
    db,
    verb,
    projectId,
    agentId,
    agentTurnId,
    turnEpoch,
    id,
    tokens,
    costMicros,
  )
  if (verdict === undefined) throw new Error(`state.${verb} returned no verdict`)
  return verdict
}

const amountsOf = ({ tokens, costMicros = 0 }: Ask | Used): Amounts => ({
  tokens: amount(tokens, 'tokens'),
  costMicros: amount(costMicros, 'cost_micros'),
})

const leftOf = (detail: BudgetDetail): BudgetLeft | null =>
  detail && { tokens: detail.tokens, costMicros: detail.cost_micros, wallMs: detail.wall_ms }

export async function reserve(db: Queryable, fence: Fence, ask: Ask): Promise<Reserved> {
  const { what, detail } = await callBudget<Reserved['what']>(db, 'reserve', fence, ask.reservationId, amountsOf(ask))
  return { what, left: leftOf(detail) }
}

export async function commitUsage(db: Queryable, fence: Fence, used: Used): Promise<Committed> {
  return settle(db, fence, used.reservationId, amountsOf(used))
}

/** Releases a reservation whose call was not made, or cost nothing. */
export async function releaseUsage(db: Queryable, fence: Fence, reservationId: string): Promise<Committed> {
  return settle(db, fence, reservationId, { tokens: null, costMicros: null })
}

async function settle(db: Queryable, fence: Fence, reservationId: string, amounts: Amounts): Promise<Committed> {
  const { what, detail } = await callBudget<Committed['what']>(db, 'commit_usage', fence, reservationId, amounts)
  return { what, left: leftOf(detail), exceeded: detail?.exceeded === true }
}
