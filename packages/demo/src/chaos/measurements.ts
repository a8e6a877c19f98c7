/** Queries of chaos: turn durations, the time from a fault until work continues, and the sizes of tables. Read-only. */
import type { Queryable } from '../database.js'
import { projectId, targets } from '../actors.js'

/** From enqueue to end, including waits and takeovers. */
export async function turnDurations(db: Queryable, afterTurnId: string) {
  const [row] = await db.query<{ p50: number | null; p95: number | null; worst: number | null }>({
    text: `select percentile_cont(0.5) within group (order by ms) as p50,
        percentile_cont(0.95) within group (order by ms) as p95, max(ms) as worst
      from (select (extract(epoch from ended_at - created_at) * 1000)::double precision as ms from state.turns
        where project_id = $1 and agent_turn_id > $2 and ended_at is not null) t`,
    values: [projectId, afterTurnId],
  })
  return { p50Ms: Math.round(row?.p50 ?? 0), p95Ms: Math.round(row?.p95 ?? 0), worstMs: Math.round(row?.worst ?? 0) }
}

export interface FaultAt {
  readonly kind: string
  /** When it was injected, as ISO text. */
  readonly at: string
}

/**
 * Per kind, the longest time from a fault until both worker targets started a turn that was enqueued after the fault.
 */
export async function recoveryTimes(db: Queryable, faults: readonly FaultAt[]): Promise<Record<string, number>> {
  const rows = await db.query<{ kind: string; worst: number }>({
    text: `select f.kind, (max(extract(epoch from p.started_at - f.at)) * 1000)::double precision as worst
      from unnest($2::text[], $3::timestamptz[]) as f (kind, at)
      cross join unnest($4::text[]) as w (target)
      cross join lateral (select min(t.started_at) as started_at from state.turns t
        join resource.project_agents a on a.project_id = t.project_id and a.agent_id = t.agent_id
        where t.project_id = $1 and a.worker_target = w.target
          and t.created_at >= f.at and t.created_at < f.at + interval '5 minutes') p
      where p.started_at is not null group by f.kind order by f.kind`,
    values: [projectId, faults.map(({ kind }) => kind), faults.map(({ at }) => at), Object.values(targets)],
  })
  return Object.fromEntries(rows.map(({ kind, worst }) => [kind, Math.round(worst)]))
}

export interface TableSize {
  readonly table: string
  readonly mebibytes: number
  readonly rows: number
  readonly dead: number
}

/** The largest tables, with their indexes. */
export async function tableSizes(db: Queryable): Promise<TableSize[]> {
  return db.query<TableSize>({
    text: `select schemaname || '.' || relname as "table", round(pg_total_relation_size(relid) / 1048576.0, 1)::float8 as mebibytes,
        n_live_tup::int as rows, n_dead_tup::int as dead
      from pg_stat_user_tables order by pg_total_relation_size(relid) desc limit 8`,
  })
}

/** The value below which the given share of the list lies; 0 for an empty list. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((left, right) => left - right)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
}
