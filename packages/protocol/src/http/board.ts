/** The board. Objects that come from the task log keep the keys of its lines. */
import { z } from '../deferred.js'
import { newTask, taskChange } from '../task-input.js'
import { taskActions, taskStatuses } from '../vocabulary.js'
import { taskQuery } from './bulk.js'
import {
  bodyBytes,
  eventStream,
  flag,
  id,
  limit,
  list,
  numberCursor,
  page,
  record,
  time,
  waitMaxSeconds,
  type Route,
} from './shapes.js'

const status = z.enum(taskStatuses)
const oneTask = z.object({ task: id })

/** What happens next. */
const nextStep = z.object({
  what: z.enum(['run', 'retry', 'wait', 'person', 'over']),
  who: z.string().nullable().describe('the agent that runs or retries it'),
  at: time.nullable().describe('when: the end of the pause before a retry, or the next reminder of a person'),
  text: z.string(),
})
export type NextStep = z.output<typeof nextStep>

/** What the log itself says about a task. */
const taskLine = z.object({
  taskId: z.string(),
  title: z.string(),
  status,
  priority: z.number(),
  impact: z.number(),
  assignee: z.string().nullable(),
  reason: z.string().nullable().describe('why the task is blocked or failed'),
  dependencies: list(z.string()),
  createdAt: z.string(),
  updatedAt: z.string(),
  waitsFor: z.string().nullable().describe('null: the task is ready or done'),
  problem: z.string().nullable().describe('why the last run was not accepted; null: it was, or there is none'),
  changedFiles: z.number().nullable().describe('how many files its last run changed; null: unknown'),
  nextStep,
})
export type TaskLine = z.output<typeof taskLine>

/** What the policies say about a task now. */
const taskState = z.object({
  waitCode: z.string().nullable(),
  waitUntil: time.nullable(),
  recovery: z
    .object({
      reasonCode: z.string(),
      attempt: z.number(),
      maxAttempts: z.number(),
      nextAssignee: z.string(),
      action: z.enum(['retry', 'human', 'escalate']),
      recoveryState: z.string(),
      cooldownUntilTs: z.number().describe('seconds since 1970; 0: none'),
      deadlineTs: z.number(),
      reminders: z.number(),
    })
    .nullable(),
  budget: z
    .object({
      agent: z.string().describe('whose limits these are'),
      tokenUsage: z.number().describe('fresh tokens of all ended runs: input, output and cache writes'),
      inputTokens: z.number(),
      outputTokens: z.number(),
      cacheReadTokens: z.number().describe('not part of `tokenUsage`'),
      cacheWriteTokens: z.number(),
      costMicros: z.number().describe('millionths of a dollar, all ended runs'),
      elapsedMs: z.number().describe('working time of all ended runs'),
      retryCount: z.number().describe('executions by this agent'),
      exceededCount: z.number(),
      limits: z.object({
        maxTaskTokens: z.number().nullable(),
        maxTaskCostUsd: z.number().nullable(),
        maxTaskWallTimeSec: z.number().nullable(),
        maxTaskRetries: z.number().nullable(),
      }),
      nearest: z
        .object({
          unit: z.enum(['tokens', 'micros', 'ms', 'runs']).describe('`micros`: millionths of a dollar'),
          used: z.number(),
          limit: z.number(),
          fraction: z.number(),
        })
        .nullable()
        .describe('the nearest limit; null: no limit is set'),
    })
    .nullable(),
  next: z
    .object({ place: z.number(), of: z.number(), assignee: z.string(), why: z.string() })
    .nullable()
    .describe('its place in the queue; null unless the task is ready'),
})

/** What a person can do with a task. */
const taskMove = z.object({
  action: z.enum(taskActions),
  effect: z.string(),
  command: z.string().describe('the same on the command line'),
})
export type TaskMove = z.output<typeof taskMove>

const failedCheck = z.object({
  check: z.string().describe('the name of the check, or its command'),
  problem: z.string().describe('`exited with 1`'),
  exitCode: z.number().nullable(),
  durationMs: z.number(),
  output: z.string().describe('the last lines that it printed'),
  note: z.string().nullable().describe('that it ran in a sandbox, and how it runs without one; null: it ran as it is'),
})
export type FailedCheck = z.output<typeof failedCheck>

const failedFile = z.object({ path: z.string(), problem: z.string() })
export type FailedFile = z.output<typeof failedFile>

const taskFailure = z.object({
  runId: z.string().nullable(),
  agent: z.string(),
  agentTurnId: z.string().nullable(),
  reasonCode: z.string(),
  reason: z.string().describe('in words'),
  files: list(failedFile).describe('claimed files that did not count'),
  checks: list(failedCheck).describe('the checks after the first failed one did not run'),
})
export type TaskFailure = z.output<typeof taskFailure>

const fileVersion = z.object({ bytes: z.number(), sha256: z.string().nullable().describe('null: it is too large') })
export type FileVersion = z.output<typeof fileVersion>

const changedFile = z.object({
  path: z.string(),
  change: z.enum(['added', 'changed', 'deleted']).nullable().describe('null: what it was before is not known'),
  claimed: z.boolean().describe('false: it changed during the run, but the agent did not name it'),
  before: fileVersion
    .nullable()
    .optional()
    .describe('without git: the file at the start of the run; null: there was none; absent: not known'),
  after: fileVersion.nullable().optional().describe('without git: the file at the end of the run; null: there is none'),
})
export type ChangedFile = z.output<typeof changedFile>

export const taskChanges = z.object({
  runId: z.string(),
  commit: z.string().nullable().describe('the commit that was checked out when the run started; null: none'),
  files: list(changedFile),
  moreFiles: z.number().describe('how many are not listed'),
  diff: z
    .string()
    .nullable()
    .describe(
      'unified, at most 100,000 characters; in the project folder with changes from before the run that were not committed',
    ),
  isCut: z.boolean().describe('the diff was longer, or left out files'),
  note: z.string().nullable().describe('why there is no diff'),
})
export type TaskChanges = z.output<typeof taskChanges>

const task = taskLine.extend({
  ...taskState.shape,
  costMicros: z.number().nullable().describe('null: none of its turns reported a cost'),
})

export type BoardTask = z.output<typeof task>

const taskRun = z.object({
  runId: z.string().describe('the id of the event that started the run'),
  agent: z.string(),
  startedAt: z.string(),
  agentTurnId: z.string().optional(),
  endedAt: z.string().optional(),
  outcome: z.string().optional(),
  reasonCode: z.string().optional(),
  tokenUsage: z.number().optional(),
  elapsedMs: z.number().optional(),
})
export type TaskRun = z.output<typeof taskRun>
const run = taskRun.extend({ costMicros: z.number().nullable(), turnStatus: z.string().nullable() })

const taskDetail = task.extend({
  runs: list(run),
  fields: record,
  result: z.string().nullable().describe('what the agent of the last run answered'),
  failure: taskFailure.nullable().describe('why the last run was not accepted, in parts'),
  changes: taskChanges.nullable().describe('what the last run changed'),
  moves: list(taskMove).describe('what a person can do now'),
})

export type BoardTaskDetail = z.output<typeof taskDetail>

const choice = z.object({
  taskId: z.string().nullable(),
  assignee: z.string().nullable(),
  because: z.string(),
  others: list(z.object({ taskId: z.string(), code: z.string(), why: z.string() })),
  left: z.number().describe('how many skipped tasks are not listed'),
  ready: z.number(),
})
export type TaskChoice = z.output<typeof choice>

const knowledge = z.object({
  degraded: z.boolean().describe('no source gave hints, because of a problem'),
  degradeReason: z.string().nullable().describe('the problems of all sources that were tried'),
  knowledgeTags: list(z.string()),
  backfill: z
    .object({
      written: z.boolean(),
      mistakes: z.number(),
      patterns: z.number(),
      tags: list(z.string()),
      reason: z.string().optional().describe('why nothing was written'),
    })
    .nullable(),
})
export type KnowledgeOutcome = z.output<typeof knowledge>

const report = z.object({
  taskId: z.string(),
  title: z.string(),
  status,
  settledHere: z.boolean().describe('whether this request brought the task to its status'),
  reason: z.string().nullable(),
  spawn: z
    .object({
      runId: z.string().nullable(),
      agent: z.string(),
      agentTurnId: z.string().nullable(),
      outcome: z.string().describe('`not_spawned`: the budget was used up; `unknown`: the turn is no longer stored'),
      error: z
        .string()
        .nullable()
        .describe(
          'why the run was not accepted, in words; with `budget_exceeded`, what was used of which limit and the key that sets it',
        ),
      reasonCode: z.string().nullable(),
      attempt: z.number(),
      nextAssignee: z.string().nullable(),
      action: z.string().nullable(),
      recoveryState: z.string().nullable(),
      cooldownActive: z.boolean(),
      cooldownUntil: z.string().nullable(),
      metrics: z.object({ elapsedMs: z.number(), tokenUsage: z.number(), costMicros: z.number() }),
      degradeAction: z
        .string()
        .nullable()
        .describe('the action that was taken because a limit was reached or exceeded'),
      degradeEffect: z.string().nullable().describe('what the action changes'),
      exceededKeys: list(z.string()),
    })
    .nullable(),
  knowledge: knowledge.nullable(),
  choice: choice.optional(),
})
export type DispatchReport = z.output<typeof report>

/** A line of `state/tasks.jsonl`. */
const boardEvent = z.object({
  eventId: z.string(),
  taskId: z.string(),
  type: z.string(),
  messageType: z.string(),
  actor: z.string(),
  at: z.string(),
  payload: record,
  token: z.number().optional().describe('the fencing token of the lock of its writer; absent in old lines'),
})
export type BoardEvent = z.output<typeof boardEvent>
const position = z.object({ cursor: z.number() })

/** A comment of a person on a line of a diff. */
const lineComment = z.strictObject({
  path: z.string().min(1).max(500),
  line: z.number().int().min(1).nullable().describe('in the new version of the file; null: on the file'),
  quote: z.string().max(300).default('').describe('the line of the diff'),
  text: z.string().min(1).max(1_000),
})
export type LineComment = z.output<typeof lineComment>

/** Edits fields, or runs one action; `status` selects the action for clients that think in statuses. */
const taskPatch = taskChange.extend({
  action: z.enum(taskActions).optional(),
  status: z.enum(['claimed', 'done', 'blocked']).optional(),
  reason: z.string().max(2_000).optional(),
  updatedAt: z
    .string()
    .max(40)
    .optional()
    .describe(
      '`updatedAt` of the task as the caller knows it: if it has changed since, nothing changes (`task_changed`)',
    ),
  comments: z
    .array(lineComment)
    .max(50)
    .optional()
    .describe('with `retry` or `send_back`: the next run gets them in its prompt'),
  files: z.array(z.string().max(4_096)).max(500).optional(),
  unchecked: z.boolean().optional(),
  freshBudget: z.boolean().optional(),
})
export type TaskPatch = z.output<typeof taskPatch>

export const boardRoutes = {
  'GET /board/tasks': {
    summary: 'List tasks in dispatch order',
    query: z.object({
      ...taskQuery,
      needs_person: flag.describe('true: only tasks in which a person has to act'),
      cursor: numberCursor,
      limit: limit(1_000, 100),
    }),
    responses: {
      200: page('tasks', task, z.number()).extend({
        total: z.number(),
        choice,
        paused: z.object({ by: z.string(), at: z.string(), reason: z.string().optional() }).nullable(),
      }),
    },
  },
  'POST /board/tasks': {
    summary: 'Add a task',
    bodyBytesMax: bodyBytes.text,
    body: newTask,
    responses: { 201: taskDetail },
  },
  'GET /board/tasks/:task': {
    summary: 'Read a task with its runs and what it waits for',
    params: oneTask,
    responses: { 200: taskDetail },
  },
  'GET /board/tasks/:task/history': {
    summary: 'Read the creator of a task and its newest events',
    description: 'The server searches the whole log: this takes about 1 s per GB.',
    params: oneTask,
    query: z.object({ limit: limit(1_000, 100) }),
    responses: {
      200: z.object({
        createdBy: z.string().nullable(),
        events: list(boardEvent).describe('oldest first'),
        left: z.number().describe('how many older events are left out'),
      }),
    },
  },
  'PATCH /board/tasks/:task': {
    summary: 'Edit a task, or run one action on it',
    params: oneTask,
    bodyBytesMax: bodyBytes.text,
    body: taskPatch,
    responses: { 200: taskDetail },
  },
  'GET /board/checks': {
    summary: 'List the checks that tasks can select by name',
    description: '`checks` of config/acceptance-policy.json defines what they run.',
    responses: { 200: z.object({ checks: list(z.object({ name: z.string(), description: z.string().nullable() })) }) },
  },
  'POST /board/tasks/:task/dispatch': {
    summary: 'Dispatch a task now and report the result',
    description: `Responds with 202 if the turn still runs after ${waitMaxSeconds} s: the autopilot, or the next dispatch, closes the run.`,
    params: oneTask,
    responses: { 200: report, 202: report },
  },
  'POST /board/autopilot': {
    summary: 'Run autopilot steps',
    body: z.strictObject({ maxSteps: z.number().int().min(1).max(1_000).default(1) }),
    responses: { 200: z.object({ reports: list(report), stoppedBecause: z.string() }) },
  },
  'POST /board/control': {
    summary: 'Pause or resume the board',
    body: z.strictObject({ paused: z.boolean(), reason: z.string().max(2_000).optional() }),
    responses: { 200: z.object({ paused: z.boolean() }) },
  },
  'GET /board/events': {
    summary: 'Follow the events of the board',
    description: 'Each event is a line of the task log, and its id is the line number. `reset`: the log was replaced.',
    query: z.object({ cursor: numberCursor }),
    responses: { 200: eventStream },
    events: { hello: position, reset: position, '*': boardEvent },
  },
} as const satisfies Record<string, Route>
