/** Reads the state of a budget and of its reservations. */
import type { BudgetKey } from '@bellwether/protocol'
import type { Queryable } from '../../ports/database/database.js'
import { leftOf, type BudgetLeft } from '../verbs/budgets/budgets.js'
import type { Fence } from '../verdict.js'

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
  readonly output_tokens_used: number
  readonly cache_read_tokens_used: number
  readonly cache_write_tokens_used: number
  readonly wall_ms_used: number
  readonly open_children: number
  readonly exceeded_keys: readonly BudgetKey[]
  readonly agent_limits: readonly BudgetKey[]
  readonly ended_at: Date | null
  readonly closed_at: Date | null
}

export async function readBudget(db: Queryable, budgetId: string): Promise<BudgetRow | undefined> {
  const [row] = await db.query<BudgetRow>({
    name: 'bw_read_budget',
    text: 'select * from state.budgets where budget_id = $1',
    values: [budgetId],
  })
  return row
}

/** What a turn may still spend; null without a budget. */
export async function readBudgetLeft(db: Queryable, agentTurnId: string): Promise<BudgetLeft | null> {
  const [row] = await db.query<{ budget_left: Parameters<typeof leftOf>[0] }>({
    name: 'bw_budget_left',
    text: 'select state.budget_left($1) as budget_left',
    values: [agentTurnId],
  })
  return leftOf(row?.budget_left ?? null)
}

export interface ReservationState {
  /** Whether the fence still holds the turn. */
  readonly holds: boolean
  /** Whether the turn has a budget. */
  readonly limited: boolean
  /** Whether the reservation exists. */
  readonly known: boolean
}

/** Explains why a reservation could not be made or settled. */
export async function readReservationState(
  db: Queryable,
  { projectId, agentId, agentTurnId, turnEpoch }: Fence,
  reservationId: string,
): Promise<ReservationState> {
  const [state] = await db.query<ReservationState>({
    name: 'bw_reservation_state',
    text: `select
        exists (select from state.head($1, $2) h where h.active_agent_turn_id = $3 and h.turn_epoch = $4
          and h.status in ('running', 'suspended')) as holds,
        exists (select from state.budgets b where b.agent_turn_id = $3) as limited,
        exists (select from state.reservations r where r.reservation_id = $5 and r.agent_turn_id = $3) as known`,
    values: [projectId, agentId, agentTurnId, turnEpoch, reservationId],
  })
  if (state === undefined) throw new Error('The state of a reservation has no row')
  return state
}
