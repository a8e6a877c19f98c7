/**
 * Tasks as the command line and HTTP show them: in pages, in dispatch order, each with what it waits for. Pure.
 */
import { personWaits } from '@bellwether/protocol'
import type { BoardTaskDetail, TaskLine } from '@bellwether/protocol/http'
import { taskIn } from './find-task.js'
import { changedFilesOf, changesOf, failureOf, resultOf } from './last-failure.js'
import { movesOf, nextStepOf } from './next-step.js'
import { pausedBy, textField } from './task-fields.js'
import { byUrgency, readiness, type ReadyRules } from './ready.js'
import type { Outcome } from '@bellwether/protocol'
import { readinessIndex } from './readiness-index.js'
import type { BoardState, Task, TaskStatus } from '../log/task.js'

type Reasons = Pick<BoardTaskDetail, 'result' | 'failure' | 'changes' | 'moves'>

export interface TaskView extends TaskLine, Reasons {
  readonly runs: Task['runs']
  readonly fields: Task['fields']
}

export interface TaskFilter {
  readonly status?: TaskStatus | undefined
  /** Whether to include done tasks; default true. */
  readonly done?: boolean | undefined
  readonly agent?: string | undefined
  /** How the last run ended. */
  readonly outcome?: Outcome | undefined
  /** Changed at this time or later. */
  readonly sinceMs?: number | undefined
  /** Changed before this time. */
  readonly untilMs?: number | undefined
  readonly error?: string | undefined
  readonly text?: string | undefined
  readonly minCostMicros?: number | undefined
}

/** `costOf`: null if no cost is known. */
function taskFilter(filter: TaskFilter, costOf: (task: Task) => number | null): (task: Task) => boolean {
  const { status, done = true, agent, outcome, sinceMs = -Infinity, untilMs = Infinity, minCostMicros } = filter
  const error = filter.error?.toLowerCase()
  const text = filter.text?.toLowerCase()
  const isRecent = ({ updatedAt }: Task) => {
    if (sinceMs === -Infinity && untilMs === Infinity) return true
    const changedMs = Date.parse(updatedAt)
    return changedMs >= sinceMs && changedMs < untilMs
  }
  return (task) =>
    (status === undefined ? done || task.status !== 'done' : task.status === status) &&
    (agent === undefined || task.assignee === agent || textField(task, 'agent') === agent) &&
    (outcome === undefined || task.runs.at(-1)?.outcome === outcome) &&
    isRecent(task) &&
    (error === undefined || problemOf(task).includes(error)) &&
    (text === undefined || wordsOf(task).includes(text)) &&
    (minCostMicros === undefined || (costOf(task) ?? 0) >= minCostMicros)
}

/** Why the task is blocked or failed. */
const problemOf = (task: Task): string =>
  task.status === 'blocked' || task.status === 'failed'
    ? [textField(task, 'reasonCode'), task.reason, failureOf(task)?.reason].join(' ').toLowerCase()
    : ''

const wordsOf = (task: Task): string =>
  [task.taskId, task.title, task.assignee, textField(task, 'instruction')].join(' ').toLowerCase()

export interface ListQuery extends TaskFilter {
  /** Only tasks in which a person has to act. */
  readonly needsPerson?: boolean | undefined
  /** How many tasks to skip. */
  readonly cursor?: number
  readonly limit?: number
}

export interface TaskPage {
  readonly tasks: readonly TaskLine[]
  readonly total: number
  readonly cursor: number | null
}

// One page; the cursor leads to the next.
const pageMax = 1_000

function lineOf(task: Task, state: BoardState, nowMs: number, rules: ReadyRules): TaskLine {
  const { taskId, title, status, priority, impact, assignee, reason, dependencies, createdAt, updatedAt } = task
  const found = readiness(task, state, nowMs, rules)
  const paused = pausedBy(state)
  const waitsFor = found.ready
    ? paused === null
      ? null
      : `${paused.by} paused the board`
    : found.code === 'done'
      ? null
      : found.why
  return {
    ...{ taskId, title, status, priority, impact, assignee, reason, dependencies, createdAt, updatedAt, waitsFor },
    problem: failureOf(task)?.reason ?? null,
    changedFiles: changedFilesOf(task),
    nextStep: nextStepOf(task, found, rules, paused?.by ?? null),
  }
}

/** The tasks that a filter selects, the most urgent first. */
export const selectTasks = (tasks: Iterable<Task>, filter: TaskFilter, costOf: (task: Task) => number | null): Task[] =>
  [...tasks].filter(taskFilter(filter, costOf)).sort(byUrgency)

const withoutCost = () => null

/** `costOf`: for the filter by cost. */
export function listTasks(
  state: BoardState,
  nowMs: number,
  rules: ReadyRules,
  query: ListQuery = {},
  costOf: (task: Task) => number | null = withoutCost,
): TaskPage {
  const { cursor = 0, limit = 100 } = query
  const known = query.needsPerson === true ? tasksOfPeople(state, nowMs, rules) : state.tasks.values()
  const chosen = selectTasks(known, query, costOf)
  const end = cursor + Math.max(1, Math.min(limit, pageMax))
  const tasks = chosen.slice(cursor, end).map((task) => lineOf(task, state, nowMs, rules))
  return { tasks, total: chosen.length, cursor: end < chosen.length ? end : null }
}

const personCodes: ReadonlySet<string> = new Set(personWaits)

function tasksOfPeople(state: BoardState, nowMs: number, rules: ReadyRules): Task[] {
  const { waiting } = readinessIndex(state, nowMs, rules)
  return [...waiting].flatMap(({ task, readiness: found }) =>
    found.ready || !personCodes.has(found.code) ? [] : [task],
  )
}

export function taskView(state: BoardState, taskId: string, nowMs: number, rules: ReadyRules): TaskView {
  const task = taskIn(state, taskId)
  const { failure: _failure, changes: _changes, ...fields } = task.fields
  return {
    ...lineOf(task, state, nowMs, rules),
    runs: task.runs,
    fields,
    result: resultOf(task),
    failure: failureOf(task),
    changes: changesOf(task),
    moves: movesOf(task, readiness(task, state, nowMs, rules), rules),
  }
}
