/**
 * Schedules: cron and interval rules that start turns or board tasks. Files `schedules/NAME.toml` have the same keys. Whether a cron
 * expression, a time zone or an interval is valid is for pmo/schedules/timing.ts to decide.
 */
import { z } from '../deferred.js'
import { newTask } from '../task-input.js'
import { fireKinds, fireStatuses, missedPolicies, overlapPolicies, scheduleSources } from '../vocabulary.js'
import {
  bodyBytes,
  id,
  inProject,
  limit,
  list,
  longText,
  page,
  record,
  text,
  time,
  token,
  type Route,
  type Row,
} from './shapes.js'
import { turnBudget } from './turns.js'

/** Short enough that the id of a task, which contains it, is valid. */
export const scheduleName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9_-]{0,63}$/, 'must be 1 to 64 of the characters a-z, 0-9, _ and -')

const most = z.number().int().min(1).max(100).default(10)

const fields = {
  description: text(500).optional(),
  cron: text(200)
    .optional()
    .describe(
      'five fields: minute, hour, day of month, month, day of week; or @hourly, @daily, @weekly, @monthly, @yearly',
    ),
  every: text(40).optional().describe('an interval from 10s to 366d, such as `90s`, `15m`, `6h` or `1d`'),
  start: z.iso
    .datetime({ offset: true, error: 'must be a time such as 2026-11-18T09:00:00Z' })
    .optional()
    .describe('the earliest instant. Intervals count from it, or from 1970-01-01T00:00:00Z without it'),
  time_zone: text(64).default('UTC').describe('the IANA time zone of `cron`, such as `Europe/Berlin`'),
  missed: z
    .enum(missedPolicies)
    .default('latest')
    .describe('instants that passed while no PMO ran: start none, the latest, or the newest `missed_max` of them'),
  missed_max: most,
  overlap: z
    .enum(overlapPolicies)
    .default('skip')
    .describe(
      'if an earlier turn or task of the schedule is open: skip the instant, start it while fewer than `queue_max` are open, or stop the earlier turn and start this one',
    ),
  queue_max: most,
  agent: token.optional().describe('starts a turn of this agent'),
  instruction: longText.min(1).optional(),
  session_id: id.optional(),
  budget: turnBudget.optional(),
}

interface Target {
  readonly cron?: string | undefined
  readonly every?: string | undefined
  readonly agent?: string | undefined
  readonly instruction?: string | undefined
  readonly task?: object | undefined
  readonly overlap?: string | undefined
}

function checkTarget(value: Target, context: z.RefinementCtx): void {
  const add = (key: string, message: string) => context.addIssue({ code: 'custom', path: [key], message })
  if ((value.cron === undefined) === (value.every === undefined))
    add('cron', 'must have either "cron" or "every", for example cron = "30 2 * * *" or every = "6h"')
  if ((value.agent === undefined) === (value.task === undefined))
    add('agent', 'must have either "agent" with "instruction", or "task", for example agent = "coder"')
  if ((value.agent === undefined) !== (value.instruction === undefined) && value.task === undefined)
    add('instruction', 'must come with "agent", for example instruction = "Run the tests."')
  if (value.task !== undefined && value.instruction !== undefined)
    add('instruction', 'must be a key of "task" if the schedule adds a task')
  if (value.task !== undefined && value.overlap === 'replace')
    add('overlap', 'must be "skip" or "queue" if the schedule adds a task: only turns are replaced')
}

const task = newTask.omit({ taskId: true })
/** What a file may say. */
export const scheduleFile = z.strictObject({ ...fields, task: task.optional() }).superRefine(checkTarget)
export type ScheduleDefinition = z.output<typeof scheduleFile>
/** What a request may say: like a task over HTTP, it names no command. */
const scheduleInput = z
  .strictObject({ ...fields, task: task.omit({ verify: true }).optional() })
  .superRefine(checkTarget)
export type ScheduleInput = z.input<typeof scheduleInput>

const fire = z.object({
  schedule: z.string(),
  instant: time.describe('when it was due; for a manual run, when a person asked for it'),
  kind: z.enum(fireKinds),
  status: z.enum(fireStatuses).describe('`waiting`: the autopilot has not added the task yet'),
  reason: z
    .string()
    .nullable()
    .describe('why it was skipped (`missed`, `overlap`), why it failed, or `replaced`: a later turn replaced it'),
  skipped: z.number().describe('how many instants this entry stands for if it was skipped; 1,000 means 1,000 or more'),
  agent_turn_id: z.string().nullable(),
  task_id: z.string().nullable(),
  outcome: z.string().nullable().describe('how the turn or the task ended; null: it has not ended'),
  requested_by: z.string().nullable(),
  created_at: time,
  ended_at: time.nullable(),
})
export type Fire = z.output<typeof fire>
export type FireRow = Row<z.input<typeof fire>>

const schedule = z.object({
  schedule: z.string().describe('its name'),
  source: z
    .enum(scheduleSources)
    .describe('`file`: only its file can change the definition; requests can pause and run it'),
  origin: z.string().nullable().describe('the folder of its file, as `host:path`'),
  definition: record.nullable().describe('the version in force, with defaults; null: its file was never valid'),
  problem: z.string().nullable().describe('why the newest version of its file, or the definition, is not in force'),
  paused_at: time.nullable(),
  paused_by: z.string().nullable(),
  next_fires: list(time).describe('the next five instants; empty while it is paused'),
  open: z.number().describe('its turns and tasks that have not ended'),
  last_fire: fire.nullable(),
  created_at: time,
  updated_at: time,
  updated_by: z.string(),
})
export type Schedule = z.output<typeof schedule>
export type ScheduleRow = Row<Omit<z.input<typeof schedule>, 'next_fires' | 'last_fire' | 'definition'>> & {
  readonly definition: ScheduleDefinition | null
  readonly next_fire_at: Date | null
  readonly last_fire: Fire | null
}

const oneSchedule = inProject.extend({ schedule: scheduleName })
const inFile = 'Responds with 409 `schedule_in_file` if a file defines the schedule.'

export const scheduleRoutes = {
  'GET /projects/:project/schedules': {
    summary: 'List schedules by name',
    params: inProject,
    query: z.object({ cursor: z.string().max(64).default(''), limit: limit(500, 100) }),
    responses: { 200: page('schedules', schedule, z.string()) },
  },
  'POST /projects/:project/schedules': {
    summary: 'Add a schedule',
    description: 'Responds with 409 `schedule_exists` if there is one with this name.',
    params: inProject,
    bodyBytesMax: bodyBytes.text,
    body: z.strictObject({ schedule: scheduleName, definition: scheduleInput }),
    responses: { 201: schedule },
  },
  'GET /projects/:project/schedules/:schedule': {
    summary: 'Read a schedule with its next instants',
    params: oneSchedule,
    responses: { 200: schedule },
  },
  'PUT /projects/:project/schedules/:schedule': {
    summary: 'Replace the definition of a schedule',
    description: inFile,
    params: oneSchedule,
    bodyBytesMax: bodyBytes.text,
    body: z.strictObject({ definition: scheduleInput }),
    responses: { 200: schedule },
  },
  'DELETE /projects/:project/schedules/:schedule': {
    summary: 'Delete a schedule; its turns, tasks and history stay',
    description: inFile,
    params: oneSchedule,
    responses: { 200: z.object({ schedule: z.string() }) },
  },
  'POST /projects/:project/schedules/:schedule/pause': {
    summary: 'Pause a schedule',
    params: oneSchedule,
    responses: { 200: schedule },
  },
  'POST /projects/:project/schedules/:schedule/resume': {
    summary: 'Resume a paused schedule, from its next instant on',
    params: oneSchedule,
    responses: { 200: schedule },
  },
  'POST /projects/:project/schedules/:schedule/run': {
    summary: 'Start the turn or task of a schedule now, even if it is paused',
    description: 'With an `Idempotency-Key` header, repeating the request returns the first response.',
    params: oneSchedule,
    responses: { 202: fire },
  },
  'GET /projects/:project/schedules/:schedule/fires': {
    summary: 'Read the history of a schedule, newest first',
    description: 'It stays readable after the schedule is deleted, for `pmo.retention_days`.',
    params: oneSchedule,
    query: z.object({ cursor: z.iso.datetime().optional(), limit: limit(500, 50) }),
    responses: { 200: page('fires', fire, z.string()) },
  },
} as const satisfies Record<string, Route>
