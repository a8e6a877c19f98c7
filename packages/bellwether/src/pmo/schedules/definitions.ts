/**
 * What people and files do with schedules: define, pause, resume, run now, delete. Each is one transaction under the lock of the
 * schedule. A file wins over the API; while the newest version of a file is invalid, the last valid one stays in force.
 */
import type { Log } from '@bellwether/base'
import { InvalidInput, Terminal } from '@bellwether/protocol'
import type { ScheduleDefinition } from '@bellwether/protocol/http'
import type { Kernel } from '../../kernel/kernel.js'
import { findMissingAgents } from '../../kernel/reads/agents.js'
import { countSchedules } from '../../kernel/reads/schedules.js'
import { findRequestedFire, fireKey } from '../../kernel/verbs/schedules/fires.js'
import {
  changeSchedule,
  createSchedule,
  deleteSchedule,
  lockSchedule,
  pauseSchedule,
  type LockedSchedule,
  type ScheduleName,
} from '../../kernel/verbs/schedules/schedules.js'
import type { Queryable } from '../../ports/database/database.js'
import { startFires } from './scheduler.js'
import { timingOf, type Timing } from './timing.js'

// More are made by a program; a PMO reads them all when the clock was set back.
const schedulesMax = 1_000

/** Throws InvalidInput that names the key. */
function checkedTiming(definition: ScheduleDefinition): Timing {
  const timing = timingOf(definition)
  if ('problem' in timing)
    throw new InvalidInput(`Invalid schedule: "${timing.key}": ${timing.problem}`, {
      code: 'invalid_schedule',
      hint: `correct "${timing.key}"; docs/how-to/run-on-a-schedule.md lists the keys`,
    })
  return timing
}

export async function mustKnowAgent(db: Queryable, projectId: string, agent: string | undefined): Promise<void> {
  const [missing] = agent === undefined ? [] : await findMissingAgents(db, projectId, [agent])
  if (missing === undefined) return
  throw new InvalidInput(`Invalid schedule: "agent": project "${projectId}" has no agent "${missing}"`, {
    code: 'unknown_agent',
    hint: 'create agents/NAME.md, or choose one that `bellwether agents` lists, for example agent = "coder"',
  })
}

export interface Defining {
  readonly definition: ScheduleDefinition
  readonly by: string
  readonly must: 'create' | 'replace'
}

/** A definition over the API. */
export async function defineSchedule(
  { db }: Pick<Kernel, 'db'>,
  name: ScheduleName,
  { definition, by, must }: Defining,
): Promise<void> {
  const timing = checkedTiming(definition)
  await mustKnowAgent(db, name.projectId, definition.agent)
  await db.transaction(async (tx) => {
    if (must === 'create') {
      if ((await countSchedules(tx, name.projectId)) >= schedulesMax) throw tooMany(name)
      if (!(await createSchedule(tx, name, { source: 'api', origin: null, updatedBy: by }))) throw exists(name)
    }
    const row = mustExist(await lockSchedule(tx, name), name)
    mustNotBeFile(row)
    await put(tx, row, timing, { source: 'api', origin: null, definition, updatedBy: by })
  })
}

export interface FileVersion {
  /** `host:path` of the folder. */
  readonly origin: string
  /** Or why it is invalid. */
  readonly read: { readonly definition: ScheduleDefinition } | { readonly problem: string }
  readonly by: string
}

/** The newest version of a file. */
export async function defineFromFile(
  { db }: Pick<Kernel, 'db'>,
  name: ScheduleName,
  { origin, read, by }: FileVersion,
): Promise<void> {
  await db.transaction(async (tx) => {
    const source = { source: 'file', origin, updatedBy: by } as const
    await createSchedule(tx, name, source)
    const row = mustExist(await lockSchedule(tx, name), name)
    if ('problem' in read) {
      const { definition, next_fire_at: nextFireAt } = row
      await changeSchedule(tx, name, { ...source, definition, nextFireAt, problem: read.problem })
    } else await put(tx, row, checkedTiming(read.definition), { ...source, definition: read.definition })
  })
}

interface Definition {
  readonly source: 'file' | 'api'
  readonly origin: string | null
  readonly definition: ScheduleDefinition
  readonly updatedBy: string
}

async function put(tx: Queryable, row: LockedSchedule, timing: Timing, next: Definition): Promise<void> {
  // An instant that is due stays due if only the target or a policy changes.
  const isSameTiming = row.definition !== null && timingKeys(row.definition) === timingKeys(next.definition)
  const nextFireAt = isSameTiming ? row.next_fire_at : nextAfter(timing, row)
  const name = { projectId: row.project_id, schedule: row.schedule_id }
  await changeSchedule(tx, name, { ...next, problem: null, nextFireAt })
}

const timingKeys = ({ cron, every, start, time_zone: zone }: ScheduleDefinition) =>
  JSON.stringify([cron, every, start, zone])

function nextAfter(timing: Timing, { paused_at: paused, now }: LockedSchedule): Date | null {
  const next = paused === null ? timing.next(now.getTime()) : undefined
  return next === undefined ? null : new Date(next)
}

/** Instants during a pause are not missed: they never start anything. */
export async function setPaused(
  { db }: Pick<Kernel, 'db'>,
  name: ScheduleName,
  { by, paused }: { readonly by: string; readonly paused: boolean },
): Promise<void> {
  await db.transaction(async (tx) => {
    const row = mustExist(await lockSchedule(tx, name), name)
    if (paused) return pauseSchedule(tx, name, by, null)
    if (row.paused_at === null) return
    const next = row.definition === null ? null : nextAfter(checkedTiming(row.definition), { ...row, paused_at: null })
    await pauseSchedule(tx, name, null, next)
  })
}

/** `origin`: the folder whose file is gone; absent: a person deletes it. */
export async function removeSchedule({ db }: Pick<Kernel, 'db'>, name: ScheduleName, origin?: string): Promise<void> {
  await db.transaction(async (tx) => {
    const row = await lockSchedule(tx, name)
    if (origin !== undefined) {
      if (row?.source === 'file' && row.origin === origin) await deleteSchedule(tx, name)
      return
    }
    mustNotBeFile(mustExist(row, name))
    await deleteSchedule(tx, name)
  })
}

export interface RunRequest {
  readonly by: string
  /** Repeating it returns the first run. */
  readonly requestId?: string | undefined
}

/** Starts the turn or task now, whatever the policies say. Returns the instant of its fire. */
export async function runNow(
  kernel: Pick<Kernel, 'db' | 'ids' | 'ring'>,
  name: ScheduleName,
  { by, requestId }: RunRequest,
  log: Log,
): Promise<Date> {
  const { instant, verdicts } = await kernel.db.transaction(async (tx) => {
    const row = mustExist(await lockSchedule(tx, name), name)
    const { definition } = row
    if (definition === null)
      throw new Terminal(`Cannot run schedule "${name.schedule}": its file was never valid: ${row.problem ?? ''}`, {
        code: 'schedule_invalid',
        hint: 'correct the file',
      })
    await mustKnowAgent(tx, name.projectId, definition.agent)
    const before = requestId === undefined ? undefined : await findRequestedFire(tx, name, requestId)
    if (before !== undefined) return { instant: before, verdicts: [] }
    const fire = { ...name, kind: 'manual', status: 'started', requestedBy: by, requestId, definition } as const
    // Two people may ask in the same millisecond.
    for (let ms = row.now.getTime(); ; ms += 1) {
      const wanted = { ...fire, instant: new Date(ms) }
      const { stored, verdicts } = await startFires(tx, kernel, [wanted], log)
      if (stored.has(fireKey(wanted))) return { instant: wanted.instant, verdicts }
    }
  })
  await kernel.ring(verdicts)
  return instant
}

function mustExist(row: LockedSchedule | undefined, { projectId, schedule }: ScheduleName): LockedSchedule {
  if (row !== undefined) return row
  throw new Terminal(`Schedule "${schedule}" in project "${projectId}" does not exist`, {
    code: 'not_found',
    hint: '`bellwether schedule list` lists the schedules of the project',
  })
}

function mustNotBeFile({ source, schedule_id: schedule }: LockedSchedule): void {
  if (source === 'api') return
  throw new Terminal(`Schedule "${schedule}" is defined by the file schedules/${schedule}.toml`, {
    code: 'schedule_in_file',
    hint: 'edit or delete the file; you can pause, resume and run the schedule here',
  })
}

const exists = ({ schedule }: ScheduleName) =>
  new Terminal(`Schedule "${schedule}" already exists`, {
    code: 'schedule_exists',
    hint: `change it with bellwether schedule edit ${schedule}, or choose another name`,
  })

const tooMany = ({ projectId }: ScheduleName) =>
  new Terminal(`Project "${projectId}" has ${schedulesMax} schedules, which is the limit`, {
    code: 'too_many_schedules',
    hint: 'delete schedules that are not used any more',
  })
