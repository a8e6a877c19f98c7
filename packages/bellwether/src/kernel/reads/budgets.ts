/** Reads the state of one budget. */
import type { BudgetKey } from '@bellwether/protocol'
import type { Queryable } from '../../ports/database/database.js'

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
