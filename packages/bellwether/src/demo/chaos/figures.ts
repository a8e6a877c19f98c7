/** What chaos asks the database: whether a turn is past its end, how long turns took, how soon work went on after a fault. Reads only. */
import type { Queryable } from '../../ports/database/database.js'
import { projectId, targets } from '../cast.js'

/** Turns that are past their deadline by more than the grace: a watchdog should have ended them. */
export async function overdue(db: Queryable, graceSeconds: number): Promise<string[]> {
  const rows = await db.query<{ agent_turn_id: string }>({
    text: `select active_agent_turn_id as agent_turn_id from state.agent_state_head
      where project_id = $1 and active_agent_turn_id is not null and turn_deadline < state.now() - make_interval(secs => $2) limit 100`,
    values: [projectId, graceSeconds],
  })
  return rows.map((row) => row.agent_turn_id)
}

export interface Times {
  readonly p50Ms: number
  readonly p95Ms: number
  readonly worstMs: number
}

/** From the inbox to the end, waits and takeovers included. */
export async function turnTimes(db: Queryable, afterTurnId: string): Promise<Times> {
  const [row] = await db.query<{ p50: number | null; p95: number | null; worst: number | null }>({
    text: `select percentile_cont(0.5) within group (order by ms) as p50, percentile_cont(0.95) within group (order by ms) as p95, max(ms) as worst
      from (select (extract(epoch from ended_at - created_at) * 1000)::double precision as ms from state.turns
        where project_id = $1 and agent_turn_id > $2 and ended_at is not null) t`,
    values: [projectId, afterTurnId],
  })
  return { p50Ms: Math.round(row?.p50 ?? 0), p95Ms: Math.round(row?.p95 ?? 0), worstMs: Math.round(row?.worst ?? 0) }
}

export interface FaultAt {
  readonly kind: string
  /** As the database wrote it. */
  readonly at: string
}

/**
 * For each kind, the longest from a fault until work went on everywhere: for each worker target, until the first start of a turn that was
 * put in line after the fault; the later of them counts.
 */
export async function pickUps(db: Queryable, faults: readonly FaultAt[]): Promise<Record<string, number>> {
  const rows = await db.query<{ kind: string; worst: number }>({
    text: `select f.kind, (max(extract(epoch from p.started_at - f.at)) * 1000)::double precision as worst
      from unnest($2::text[], $3::timestamptz[]) as f (kind, at)
      cross join unnest($4::text[]) as w (target)
      cross join lateral (select min(t.started_at) as started_at from state.turns t
        join resource.project_agents a on a.project_id = t.project_id and a.agent_id = t.agent_id
        where t.project_id = $1 and a.worker_target = w.target and t.created_at >= f.at and t.created_at < f.at + interval '5 minutes') p
      where p.started_at is not null group by f.kind order by f.kind`,
    values: [projectId, faults.map(({ kind }) => kind), faults.map(({ at }) => at), Object.values(targets)],
  })
  return Object.fromEntries(rows.map(({ kind, worst }) => [kind, Math.round(worst)]))
}

export async function timeThere(db: Queryable): Promise<string> {
  const [row] = await db.query<{ at: string }>({ text: 'select state.now()::text as at' })
  return row?.at ?? ''
}
