/** Reads schedules, their newest fires and their history. Reads only, page by page. */
import type { FireRow, ScheduleRow } from '@bellwether/protocol/http'
import type { Queryable } from '../../ports/database/database.js'

const fireColumns = `f.schedule_id as schedule, f.instant, f.kind, f.status, f.reason, f.skipped, f.agent_turn_id,
  f.task_id, f.outcome, f.requested_by, f.created_at, f.ended_at`

const select = (which: string) => `select s.schedule_id as schedule, s.source, s.origin, s.definition, s.problem,
    s.paused_at, s.paused_by, s.next_fire_at, s.created_at, s.updated_at, s.updated_by,
    (select count(*)::int from state.schedule_fires f where f.project_id = s.project_id
      and f.schedule_id = s.schedule_id and f.ended_at is null) as open,
    (select to_jsonb(l) from (select ${fireColumns} from state.schedule_fires f
      where f.project_id = s.project_id and f.schedule_id = s.schedule_id
      order by f.instant desc, f.kind limit 1) l) as last_fire
  from state.schedules s where s.project_id = $1 and ${which}`

/** In the order of names, after `after`. */
export async function listSchedules(
  db: Queryable,
  projectId: string,
  after: string,
  limit: number,
): Promise<{ schedules: ScheduleRow[]; cursor: string | null }> {
  const schedules = await db.query<ScheduleRow>({
    name: 'bw_list_schedules',
    text: select('s.schedule_id > $2 order by s.schedule_id limit $3'),
    values: [projectId, after, limit],
  })
  return { schedules, cursor: schedules.length === limit ? schedules.at(-1)!.schedule : null }
}

export async function readSchedule(
  db: Queryable,
  projectId: string,
  schedule: string,
): Promise<ScheduleRow | undefined> {
  const [row] = await db.query<ScheduleRow>({
    name: 'bw_read_schedule',
    text: select('s.schedule_id = $2'),
    values: [projectId, schedule],
  })
  return row
}

export async function countSchedules(db: Queryable, projectId: string): Promise<number> {
  const [row] = await db.query<{ count: number }>({
    text: 'select count(*)::int as count from state.schedules where project_id = $1',
    values: [projectId],
  })
  return row!.count
}

export interface FileSchedule {
  readonly schedule_id: string
  readonly definition: unknown
  readonly problem: string | null
}

/** The schedules of the files of one folder. */
export async function listFileSchedules(db: Queryable, projectId: string, origin: string): Promise<FileSchedule[]> {
  return db.query<FileSchedule>({
    text: `select schedule_id, definition, problem from state.schedules
      where project_id = $1 and source = 'file' and origin = $2`,
    values: [projectId, origin],
  })
}

/** Newest first, before `before`. */
export async function listFires(
  db: Queryable,
  projectId: string,
  { schedule, before, limit }: { readonly schedule: string; readonly before: Date | null; readonly limit: number },
): Promise<{ fires: FireRow[]; cursor: string | null }> {
  const fires = await db.query<FireRow>({
    name: 'bw_list_fires',
    text: `select ${fireColumns} from state.schedule_fires f
      where f.project_id = $1 and f.schedule_id = $2 and ($3::timestamptz is null or f.instant < $3)
      order by f.instant desc, f.kind limit $4`,
    values: [projectId, schedule, before, limit],
  })
  return { fires, cursor: fires.length === limit ? fires.at(-1)!.instant.toISOString() : null }
}

/** The manual run of this instant. */
export async function readFire(
  db: Queryable,
  { projectId, schedule }: { readonly projectId: string; readonly schedule: string },
  instant: Date,
): Promise<FireRow | undefined> {
  const [fire] = await db.query<FireRow>({
    text: `select ${fireColumns} from state.schedule_fires f
      where f.project_id = $1 and f.schedule_id = $2 and f.instant = $3 and f.kind = 'manual'`,
    values: [projectId, schedule, instant],
  })
  return fire
}
