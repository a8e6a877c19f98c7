/**
 * Budgets (hazard 18): reserve before a call, commit what it used, release the rest. Always: what is reserved, escrowed and
 * used never passes a limit, except by an answer that was larger than its reservation; every ending settles what is open, in
 * its own transaction. A turn without a budget pays nothing and is told that nothing limits it.
 */
import { InvalidInput, token } from '@bellwether/protocol'
import type { Queryable } from '../../../ports/database/database.js'
import type { Ids } from '../../../ports/ids.js'
import { plainText } from '../../content.js'
import { sweepMax } from '../watchdog/watchdog.js'
import { call, type Fence, type Verdict } from '../../verdict.js'
import type { Watch } from '../../watch-window.js'

/** What may be spent at most; absent: not limited here. */
export interface Limits {
  readonly tokens?: number
  readonly costMicros?: number
  /** From the start of the turn to its end; of a purse: the sum of its turns. */
  readonly wallMs?: number
}

/** A budget that outlives turns: a task's, say, through all its attempts. */
export interface Purse extends Limits {
  readonly projectId: string
  /** The caller's own name for it: opening it again changes nothing. */
  readonly budgetId: string
}

export interface TurnBudget extends Limits {
  /** The purse that pays; without limits of its own the turn gets what is left there. */
  readonly purseId?: string
}

export interface BudgetRow {
  readonly budget_id: string
  readonly agent_turn_id: string | null
  readonly parent_budget_id: string | null
  readonly token_limit: number | null
  readonly wall_ms_limit: number | null
  readonly cost_micros_limit: number | null
  readonly tokens_used: number
  readonly tokens_reserved: number
  readonly tokens_escrowed: number
  readonly cost_micros_used: number
  readonly wall_ms_used: number
  readonly open_children: number
  readonly ended_at: Date | null
  readonly closed_at: Date | null
}

/** What a turn may still spend; null: nothing limits it. */
export interface BudgetLeft {
  readonly tokens: number | null
  readonly costMicros: number | null
  readonly wallMs: number | null
}

export interface Ask {
  /** The caller's id for the call: asking again after an in-doubt commit changes nothing. */
  readonly reservationId: string
  /** The most that the call can use: its prompt and its longest answer. */
  readonly tokens: number
  readonly costMicros?: number
}

/** `exceeded`: it is not there; end the turn as failed, budget_exceeded, or ask for less. */
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
  /** The answer was larger than what was left: the turn has crossed its budget and must end. */
  readonly exceeded: boolean
}

// Far beyond any bill, and a sum of many still fits a bigint and a JavaScript number.
const amountMax = 1_000_000_000_000

function amount(value: number, what: string): number {
  if (Number.isInteger(value) && value >= 0 && value <= amountMax) return value
  throw new InvalidInput(`${what} must be a whole number from 0 to ${amountMax}`, { code: 'invalid_amount' })
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
  await call(db, 'open_budgets', [row])
}

/** The budget of one turn, as enqueue takes it. */
export function turnBudgetRow(ids: Ids, budget: TurnBudget): Record<string, unknown> & { budget_id: string } {
  const purseId = budget.purseId === undefined ? undefined : plainText(budget.purseId, 'budget_id')
  return { budget_id: ids.next(), parent_budget_id: purseId, ...limitRow(budget) }
}

const settling = (fence: Fence, reservationId: string, tokens: number | null, costMicros: number | null) => [
  fence.projectId,
  fence.agentId,
  fence.agentTurnId,
  fence.turnEpoch,
  plainText(reservationId, 'reservation_id'),
  tokens,
  costMicros,
]

async function ask(db: Queryable, verb: 'reserve' | 'commit_usage', values: readonly unknown[]): Promise<Verdict> {
  const [verdict] = await db.query<Verdict>({
    name: `bw_${verb}`,
    text: `select * from state.${verb}($1, $2, $3, $4, $5, $6, $7)`,
    values,
  })
  if (verdict === undefined) throw new Error(`${verb} answered nothing`)
  return verdict
}

function leftOf({ detail }: Verdict): BudgetLeft | null {
  if (detail === null) return null
  const left = detail as { tokens: number | null; cost_micros: number | null; wall_ms: number | null }
  return { tokens: left.tokens, costMicros: left.cost_micros, wallMs: left.wall_ms }
}

export async function reserve(
  db: Queryable,
  fence: Fence,
  { reservationId, tokens, costMicros = 0 }: Ask,
): Promise<Reserved> {
  const values = settling(fence, reservationId, amount(tokens, 'tokens'), amount(costMicros, 'cost_micros'))
  const verdict = await ask(db, 'reserve', values)
  return { what: verdict.what as Reserved['what'], left: leftOf(verdict) }
}

export async function commitUsage(db: Queryable, fence: Fence, used: Used): Promise<Committed> {
  const { reservationId, tokens, costMicros = 0 } = used
  return settled(
    await ask(
      db,
      'commit_usage',
      settling(fence, reservationId, amount(tokens, 'tokens'), amount(costMicros, 'cost_micros')),
    ),
  )
}

/** The call was not made, or cost nothing. */
export async function releaseUsage(db: Queryable, fence: Fence, reservationId: string): Promise<Committed> {
  return settled(await ask(db, 'commit_usage', settling(fence, reservationId, null, null)))
}

function settled(verdict: Verdict): Committed {
  const exceeded = (verdict.detail as { exceeded?: boolean } | null)?.exceeded === true
  return { what: verdict.what as Committed['what'], left: leftOf(verdict), exceeded }
}

export async function readBudget(db: Queryable, budgetId: string): Promise<BudgetRow | undefined> {
  const [row] = await db.query<BudgetRow>({
    name: 'bw_read_budget',
    text: 'select * from state.budgets where budget_id = $1',
    values: [budgetId],
  })
  return row
}

// The worker is told at once when it crosses its budget; it gets this long to end the turn with what it has.
const graceSeconds = 10

/** H7.5, for workers that do not end such turns themselves. */
export async function endOverBudget(db: Queryable, ids: Ids, watch: Watch): Promise<Verdict[]> {
  return db.query<Verdict>({
    name: 'bw_end_over_budget',
    text: 'select * from state.end_over_budget($1, $2, $3, $4)',
    values: [graceSeconds, watch.since, watch.validUntil, Array.from({ length: sweepMax }, () => ids.next())],
  })
}
