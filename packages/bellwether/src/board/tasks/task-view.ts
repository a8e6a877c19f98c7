/**
 * Tasks as the command line and HTTP show them: in pages, in dispatch order, each with what it waits for. Pure.
 */
import type { BoardTaskDetail, TaskLine } from '@bellwether/protocol/http'
import { taskIn } from './find-task.js'
import { changesOf, failureOf, resultOf } from './last-failure.js'
import { movesOf, nextStepOf } from './next-step.js'
import { pausedBy } from './task-fields.js'
import { byUrgency, readiness, type ReadyRules } from './ready.js'
import type { BoardState, Task, TaskStatus } from '../log/task.js'

type Reasons = Pick<BoardTaskDetail, 'result' | 'failure' | 'changes' | 'moves'>

export interface TaskView extends TaskLine, Reasons {
  readonly runs: Task['runs']
  readonly fields: Task['fields']
}

export interface ListQuery {
  readonly status?: TaskStatus
  /** Whether to include done tasks; default true. */
  readonly done?: boolean
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
    nextStep: nextStepOf(task, found, rules, paused?.by ?? null),
  }
}

export function listTasks(state: BoardState, nowMs: number, rules: ReadyRules, query: ListQuery = {}): TaskPage {
  const { status, done = true, cursor = 0, limit = 100 } = query
  const chosen = [...state.tasks.values()].filter((task) =>
    status === undefined ? done || task.status !== 'done' : task.status === status,
  )
  chosen.sort(byUrgency)
  const end = cursor + Math.max(1, Math.min(limit, pageMax))
  const tasks = chosen.slice(cursor, end).map((task) => lineOf(task, state, nowMs, rules))
  return { tasks, total: chosen.length, cursor: end < chosen.length ? end : null }
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
