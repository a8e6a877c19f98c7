/**
 * The definitions of schedules. A file wins over the API: a schedule of a file changes only with its file, except for pausing. Every
 * write locks the row, so that a definition never changes while a PMO decides about an instant.
 */
import type { ScheduleDefinition } from '@bellwether/protocol/http'
import type { Queryable } from '../../../ports/database/database.js'

export interface ScheduleName {
  readonly projectId: string
  readonly schedule: string
}

/** What a decision about a schedule needs. */
export interface LockedSchedule {
  readonly project_id: string
  readonly schedule_id: string
  readonly source: 'file' | 'api'
  readonly origin: string | null
  readonly definition: ScheduleDefinition | null
  readonly problem: string | null
  readonly paused_at: Date | null
  readonly next_fire_at: Date | null
  readonly decided_at: Date
  /** The clock of the database. */
  readonly now: Date
}

const columns = `s.project_id, s.schedule_id, s.source, s.origin, s.definition, s.problem, s.paused_at, s.next_fire_at,
  s.decided_at, state.now() as now`

/** Undefined: there is none with this name. */
export async function lockSchedule(
  tx: Queryable,
  { projectId, schedule }: ScheduleName,
): Promise<LockedSchedule | undefined> {
  const [row] = await tx.query<LockedSchedule>({
    name: 'bw_lock_schedule',
    text: `select ${columns} from state.schedules s where s.project_id = $1 and s.schedule_id = $2 for update`,
    values: [projectId, schedule],
  })
  return row
}

/**
 * Locks the schedules of which an instant is due, and those whose last decision lies in the future because the clock was set back.
 * Skips the ones that another PMO decides about.
 */
export async function lockDueSchedules(tx: Queryable, max: number): Promise<LockedSchedule[]> {
  return tx.query<LockedSchedule>({
    name: 'bw_lock_due_schedules',
    text: `select ${columns} from state.schedules s
      where s.next_fire_at is not null and (s.next_fire_at <= state.now() or s.decided_at > state.now())
      order by s.project_id, s.schedule_id limit $1 for update skip locked`,
    values: [max],
  })
}

export interface ScheduleWork {
  readonly due: boolean
  /** An instant is due within `soonSeconds`. */
  readonly soon: boolean
  /** A turn that a schedule started has not been seen to end. */
  readonly open: boolean
}

/** What a PMO has to do, by three lookups in indexes. */
export async function readScheduleWork(db: Queryable, soonSeconds: number): Promise<ScheduleWork> {
  const [row] = await db.query<ScheduleWork>({
    name: 'bw_read_schedule_work',
    text: `select
        exists (select from state.schedules s where s.next_fire_at <= state.now())
          or exists (select from state.schedules s
            where s.next_fire_at is not null and s.decided_at > state.now()) as due,
        exists (select from state.schedules s
          where s.next_fire_at <= state.now() + make_interval(secs => $1)) as soon,
        exists (select from state.schedule_fires f where f.ended_at is null and f.agent_turn_id is not null) as open`,
    values: [soonSeconds],
  })
  return row!
}

/** Creates the row if it is missing, without a definition. True: it is new. */
export async function createSchedule(
  tx: Queryable,
  { projectId, schedule }: ScheduleName,
  by: { readonly source: 'file' | 'api'; readonly origin: string | null; readonly updatedBy: string },
): Promise<boolean> {
  const rows = await tx.query({
    name: 'bw_create_schedule',
    text: `insert into state.schedules
        (project_id, schedule_id, source, origin, decided_at, created_at, updated_at, updated_by)
      values ($1, $2, $3, $4, state.now(), state.now(), state.now(), $5)
      on conflict do nothing returning schedule_id`,
    values: [projectId, schedule, by.source, by.origin, by.updatedBy],
  })
  return rows.length === 1
}

export interface ScheduleChange {
  readonly source: 'file' | 'api'
  readonly origin: string | null
  readonly definition: ScheduleDefinition | null
  readonly problem: string | null
  readonly nextFireAt: Date | null
  readonly updatedBy: string
}

export async function changeSchedule(
  tx: Queryable,
  { projectId, schedule }: ScheduleName,
  change: ScheduleChange,
): Promise<void> {
  const { source, origin, definition, problem, nextFireAt, updatedBy } = change
  const stored = definition === null ? null : JSON.stringify(definition)
  await tx.query({
    name: 'bw_change_schedule',
    text: `update state.schedules set source = $3, origin = $4, definition = $5, problem = $6, next_fire_at = $7,
        decided_at = state.now(), updated_at = state.now(), updated_by = $8
      where project_id = $1 and schedule_id = $2`,
    values: [projectId, schedule, source, origin, stored, problem, nextFireAt, updatedBy],
  })
}

/** `by`: who paused it; null: it runs again, and `nextFireAt` is its next instant. */
export async function pauseSchedule(
  tx: Queryable,
  { projectId, schedule }: ScheduleName,
  by: string | null,
  nextFireAt: Date | null,
): Promise<void> {
  await tx.query({
    name: 'bw_pause_schedule',
    text: `update state.schedules set paused_at = case when $3::text is null then null
          else coalesce(paused_at, state.now()) end, paused_by = case when $3::text is null then null
          else coalesce(paused_by, $3) end, next_fire_at = $4, decided_at = state.now()
      where project_id = $1 and schedule_id = $2`,
    values: [projectId, schedule, by, nextFireAt],
  })
}

export async function deleteSchedule(tx: Queryable, { projectId, schedule }: ScheduleName): Promise<void> {
  await tx.query({
    text: 'delete from state.schedules where project_id = $1 and schedule_id = $2',
    values: [projectId, schedule],
  })
}

/** Records what a PMO decided: the next instant, and the clock of the decision. */
export async function advanceSchedules(
  tx: Queryable,
  rows: readonly (ScheduleName & { readonly nextFireAt: Date | null; readonly problem: string | null })[],
): Promise<void> {
  if (rows.length === 0) return
  await tx.query({
    name: 'bw_advance_schedules',
    text: `update state.schedules s set next_fire_at = x.next, problem = coalesce(x.problem, s.problem),
        decided_at = state.now()
      from unnest($1::text[], $2::text[], $3::timestamptz[], $4::text[]) as x (project_id, schedule_id, next, problem)
      where s.project_id = x.project_id and s.schedule_id = x.schedule_id`,
    values: [
      rows.map((row) => row.projectId),
      rows.map((row) => row.schedule),
      rows.map((row) => row.nextFireAt),
      rows.map((row) => row.problem),
    ],
  })
}
