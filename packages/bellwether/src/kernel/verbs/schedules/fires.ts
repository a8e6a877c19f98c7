/**
 * The fires of schedules: one row per instant and kind, which decides what the instant started. The row is written in the transaction
 * that enqueues its turn. The board adds the task of a waiting row and then marks it.
 */
import type { NewTask } from '@bellwether/protocol'
import type { Queryable } from '../../../ports/database/database.js'
import type { ScheduleName } from './schedules.js'

export interface NewFire extends ScheduleName {
  readonly instant: Date
  readonly kind: 'timer' | 'manual'
  readonly status: 'started' | 'waiting' | 'skipped' | 'failed'
  readonly reason?: string | undefined
  readonly skipped?: number | undefined
  readonly agentTurnId?: string | undefined
  readonly task?: object | undefined
  readonly requestedBy?: string | undefined
  readonly requestId?: string | undefined
}

/** The same for the same instant, schedule and kind. */
export const fireKey = (fire: Pick<NewFire, 'projectId' | 'schedule' | 'instant' | 'kind'>) =>
  `${fire.projectId} ${fire.schedule} ${fire.kind} ${fire.instant.toISOString()}`

/** Stores the fires of instants that no one has decided about, and returns their keys. */
export async function insertFires(tx: Queryable, fires: readonly NewFire[]): Promise<Set<string>> {
  if (fires.length === 0) return new Set()
  const rows = await tx.query<{ project_id: string; schedule_id: string; instant: Date; kind: NewFire['kind'] }>({
    name: 'bw_insert_fires',
    text: `insert into state.schedule_fires (project_id, schedule_id, instant, kind, status, reason, skipped,
        agent_turn_id, task, requested_by, request_id, created_at, ended_at)
      select x.project_id, x.schedule_id, x.instant, x.kind, x.status, x.reason, coalesce(x.skipped, 0),
        x.agent_turn_id, x.task, x.requested_by, x.request_id, state.now(),
        case when x.status in ('skipped', 'failed') then state.now() end
      from jsonb_to_recordset($1) x (project_id text, schedule_id text, instant timestamptz, kind text, status text,
        reason text, skipped int, agent_turn_id text, task jsonb, requested_by text, request_id text)
      on conflict do nothing
      returning project_id, schedule_id, instant, kind`,
    values: [
      JSON.stringify(
        fires.map((fire) => ({
          project_id: fire.projectId,
          schedule_id: fire.schedule,
          instant: fire.instant,
          kind: fire.kind,
          status: fire.status,
          reason: fire.reason,
          skipped: fire.skipped,
          agent_turn_id: fire.agentTurnId,
          task: fire.task,
          requested_by: fire.requestedBy,
          request_id: fire.requestId,
        })),
      ),
    ],
  })
  return new Set(rows.map((row) => fireKey({ ...row, projectId: row.project_id, schedule: row.schedule_id })))
}

/** The instant of the manual run that this request made. Undefined: it made none yet. */
export async function findRequestedFire(
  tx: Queryable,
  { projectId, schedule }: ScheduleName,
  requestId: string,
): Promise<Date | undefined> {
  const [row] = await tx.query<{ instant: Date }>({
    text: `select f.instant from state.schedule_fires f
      where f.project_id = $1 and f.schedule_id = $2 and f.request_id = $3`,
    values: [projectId, schedule, requestId],
  })
  return row?.instant
}

/** The turn or task could not be started. */
export async function failFire(
  tx: Queryable,
  { projectId, schedule, instant, kind }: Pick<NewFire, 'projectId' | 'schedule' | 'instant' | 'kind'>,
  reason: string,
): Promise<void> {
  await tx.query({
    name: 'bw_fail_fire',
    text: `update state.schedule_fires set status = 'failed', reason = $5, agent_turn_id = null, ended_at = state.now()
      where project_id = $1 and schedule_id = $2 and instant = $3 and kind = $4 and ended_at is null`,
    values: [projectId, schedule, instant, kind, reason],
  })
}

/** How many turns and tasks of these schedules have not ended. Read it in a later statement than the lock of the schedules. */
export async function countOpenFires(
  tx: Queryable,
  names: readonly ScheduleName[],
): Promise<ReadonlyMap<string, number>> {
  const rows = await tx.query<{ project_id: string; schedule_id: string; open: number }>({
    name: 'bw_count_open_fires',
    text: `select x.project_id, x.schedule_id, o.open from unnest($1::text[], $2::text[]) as x (project_id, schedule_id)
      cross join lateral (select count(*)::int as open from state.schedule_fires f
        where f.project_id = x.project_id and f.schedule_id = x.schedule_id and f.ended_at is null) o`,
    values: [names.map(({ projectId }) => projectId), names.map(({ schedule }) => schedule)],
  })
  return new Map(rows.map((row) => [`${row.project_id} ${row.schedule_id}`, row.open]))
}

/** Marks the open turns of these schedules: later ones replace them. */
export async function markReplaced(tx: Queryable, names: readonly ScheduleName[]): Promise<void> {
  if (names.length === 0) return
  await tx.query({
    name: 'bw_mark_replaced',
    text: `update state.schedule_fires f set reason = 'replaced'
      from unnest($1::text[], $2::text[]) as x (project_id, schedule_id)
      where f.project_id = x.project_id and f.schedule_id = x.schedule_id and f.ended_at is null
        and f.agent_turn_id is not null`,
    values: [names.map(({ projectId }) => projectId), names.map(({ schedule }) => schedule)],
  })
}

/** The turns that are to be stopped because later ones replace them. */
export async function readReplaced(db: Queryable, max: number) {
  return db.query<{ project_id: string; schedule_id: string; agent_turn_id: string }>({
    name: 'bw_read_replaced',
    text: `select f.project_id, f.schedule_id, f.agent_turn_id from state.schedule_fires f
      where f.ended_at is null and f.agent_turn_id is not null and f.reason = 'replaced' limit $1`,
    values: [max],
  })
}

/** Records how the turns of fires ended. Returns how many. A turn that retention has removed ended as `unknown`. */
export async function settleTurnFires(db: Queryable, max: number): Promise<number> {
  const rows = await db.query({
    name: 'bw_settle_turn_fires',
    text: `with open as (
        select f.project_id, f.schedule_id, f.instant, f.kind, f.agent_turn_id from state.schedule_fires f
        where f.ended_at is null and f.agent_turn_id is not null
        order by f.project_id, f.schedule_id, f.instant limit $1 for update skip locked),
      ended as (
        select o.*, coalesce(t.ended_at, state.now()) as turn_ended_at, coalesce(t.outcome, 'unknown') as turn_outcome
        from open o left join lateral (select t.ended_at, t.outcome, t.agent_turn_id from state.agent_inbox t
          where t.agent_turn_id = o.agent_turn_id and t.message_type = 'turn' limit 1) t on true
        where t.ended_at is not null or t.agent_turn_id is null)
      update state.schedule_fires f set ended_at = e.turn_ended_at, outcome = e.turn_outcome
      from ended e where f.project_id = e.project_id and f.schedule_id = e.schedule_id and f.instant = e.instant
        and f.kind = e.kind
      returning f.schedule_id`,
    values: [max],
  })
  return rows.length
}

export interface OpenTaskFire {
  readonly schedule_id: string
  readonly instant: Date
  readonly kind: 'timer' | 'manual'
  readonly status: 'waiting' | 'started'
  /** Was checked when the schedule was defined. */
  readonly task: NewTask
  readonly task_id: string | null
}

/** The tasks that schedules have to add, and those that have not ended. The oldest first. */
export async function readOpenTaskFires(db: Queryable, projectId: string, max: number): Promise<OpenTaskFire[]> {
  return db.query<OpenTaskFire>({
    name: 'bw_read_open_task_fires',
    text: `select f.schedule_id, f.instant, f.kind, f.status, f.task, f.task_id from state.schedule_fires f
      where f.project_id = $1 and f.ended_at is null and f.task is not null
      order by f.status = 'waiting' desc, f.instant limit $2`,
    values: [projectId, max],
  })
}

/** `outcome`: how the task ended; null: it is open. */
export async function markTaskFire(
  db: Queryable,
  projectId: string,
  { schedule_id: schedule, instant, kind }: Pick<OpenTaskFire, 'schedule_id' | 'instant' | 'kind'>,
  { taskId, outcome }: { readonly taskId: string; readonly outcome: string | null },
): Promise<void> {
  await db.query({
    name: 'bw_mark_task_fire',
    text: `update state.schedule_fires set status = 'started', task_id = $5, outcome = $6,
        ended_at = case when $6::text is null then null else state.now() end
      where project_id = $1 and schedule_id = $2 and instant = $3 and kind = $4 and ended_at is null`,
    values: [projectId, schedule, instant, kind, taskId, outcome],
  })
}
