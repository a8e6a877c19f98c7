/**
 * What is shown of tasks, to the command line and over HTTP. Always: bounded, in the order in which tasks would be tried, each
 * with what it waits for. Pure.
 */
import { refused } from './operator-commands.js'
import { byUrgency, readiness, type ReadyRules } from './ready.js'
import type { BoardState, Task, TaskStatus } from '../log/task.js'

export interface TaskLine {
  readonly taskId: string
  readonly title: string
  readonly status: TaskStatus
  readonly priority: number
  readonly impact: number
  readonly assignee: string | null
  readonly reason: string | null
  readonly dependencies: readonly string[]
  readonly createdAt: string
  readonly updatedAt: string
  /** null: nothing, it is ready or done. */
  readonly waitsFor: string | null
}

export interface TaskView extends TaskLine {
  readonly runs: Task['runs']
  readonly fields: Task['fields']
  readonly [key: string]: unknown
}

export interface ListQuery {
  readonly status?: TaskStatus
  /** Whether those that are done are shown too; absent: they are. */
  readonly done?: boolean
  /** How many to pass over. */
  readonly cursor?: number
  readonly limit?: number
}

export interface TaskPage {
  readonly tasks: readonly TaskLine[]
  readonly total: number
  readonly cursor: number | null
  readonly [key: string]: unknown
}

// One page of a list: more is asked for by the cursor.
const pageMax = 1_000

function lineOf(task: Task, state: BoardState, nowMs: number, rules: ReadyRules): TaskLine {
  const { taskId, title, status, priority, impact, assignee, reason, dependencies, createdAt, updatedAt } = task
  const told = readiness(task, state, nowMs, rules)
  const waitsFor = told.ready || told.code === 'done' ? null : told.why
  return { taskId, title, status, priority, impact, assignee, reason, dependencies, createdAt, updatedAt, waitsFor }
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
  const task = state.tasks.get(taskId)
  if (task === undefined) throw refused(`there is no task ${taskId}`, 'unknown_task', 'bellwether task list shows them')
  return { ...lineOf(task, state, nowMs, rules), runs: task.runs, fields: task.fields }
}
