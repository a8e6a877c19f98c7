/** Reads the holds of accounts, and what was spent of the limits per day and month. Reads only, bounded. */
import type { HoldRow, SpendingRow } from '@bellwether/protocol/http'
import type { Queryable } from '../../ports/database/database.js'

// More accounts than a fleet has.
const holdsMax = 200

/** The current holds, the first to end first, with the turns that wait. `projectId`: only holds with turns of this project. */
export async function readHolds(db: Queryable, projectId?: string): Promise<HoldRow[]> {
  return db.query<HoldRow>({
    name: 'bw_read_holds',
    text: `select a.account, a.reason, a.held_since, a.until, a.window_no as window, a.probe_at is not null as probing,
        p.turns
      from state.account_holds a
      cross join lateral (select count(*)::int as turns from state.parked_turns p
        where p.account = a.account and ($1::text is null or p.project_id = $1)) p
      where a.ended_at is null and ($1::text is null or p.turns > 0)
      order by a.until, a.account limit ${holdsMax}`,
    values: [projectId ?? null],
  })
}

/** The current period of each limit, the most used first; a limit without usage is listed with zeros and without a project. */
export async function readSpending(db: Queryable, projectId?: string): Promise<SpendingRow[]> {
  return db.query<SpendingRow>({
    name: 'bw_read_spending',
    text: `select l.limit_id as limit, l.scope, l.name, l.period, l.action, p.project_id, p.starts_at, p.ends_at,
        jsonb_build_object('used', coalesce(p.tokens_used, 0), 'reserved', coalesce(p.tokens_reserved, 0),
          'limit', l.token_limit) as tokens,
        jsonb_build_object('used', coalesce(p.cost_micros_used, 0), 'reserved', coalesce(p.cost_micros_reserved, 0),
          'limit', l.cost_micros_limit) as cost_micros
      from state.spending_limits l
      left join state.spending_periods p on p.limit_id = l.limit_id and p.starts_at <= state.now()
        and p.ends_at > state.now() and ($1::text is null or p.project_id = $1)
      order by greatest(p.tokens_used::numeric / l.token_limit, p.cost_micros_used::numeric / l.cost_micros_limit)
        desc nulls last, l.limit_id limit ${holdsMax}`,
    values: [projectId ?? null],
  })
}
