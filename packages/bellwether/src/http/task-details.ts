/**
 * What the policies say about a task now: why it waits, its recovery, its budget, its place in the queue, and its cost.
 * Everything is derived from the board's rules; nothing is decided here. The cost of an ended turn is read once.
 */
import type { Clock } from '@bellwether/base'
import type { TaskChoice, TaskLine } from '@bellwether/protocol/http'
import { Retryable } from '@bellwether/protocol'
import { nextTask } from '../board/tasks/next-task.js'
import { readyRules, type Dispatcher, type DispatchPolicies } from '../board/dispatch/dispatcher.js'
import { taskBudget } from '../board/tasks/task-budget.js'
import { currentRecovery } from '../board/tasks/next-step.js'
import { readinessIndex } from '../board/tasks/readiness-index.js'
import { ruleFor, type RecoveryPolicy } from '../board/policies/recovery.js'
import { readiness, type ReadyRules } from '../board/tasks/ready.js'
import { listTasks, type ListQuery, type TaskPage } from '../board/tasks/task-view.js'
import type { BoardState, Task } from '../board/log/task.js'
import { readCosts } from '../kernel/reads/turn-detail.js'
import type { Queryable } from '../ports/database/database.js'

export interface BoardMoment {
  readonly state: BoardState
  readonly nowMs: number
  readonly rules: ReadyRules
  readonly policies: Pick<DispatchPolicies, 'recovery' | 'budget' | 'runtime'> & Pick<ReadyRules, 'problem'>
  readonly choice: TaskChoice
  /** The place of each ready task, from 1. */
  readonly places: ReadonlyMap<string, number>
}

function momentOf(
  state: BoardState,
  nowMs: number,
  settings: Dispatcher['settings'],
  policies: BoardMoment['policies'],
): BoardMoment {
  const rules = readyRules({ settings }, policies)
  const choice = nextTask(state, nowMs, rules)
  const places = new Map<string, number>()
  for (const { task } of readinessIndex(state, nowMs, rules).ready) places.set(task.taskId, places.size + 1)
  return { state, nowMs, rules, policies, choice, places }
}

interface MomentPorts extends Pick<Dispatcher, 'board' | 'settings'> {
  readonly policies: () => Promise<BoardMoment['policies']>
}

/**
 * The moment for requests, made again only if the board, a policy or the readiness of a task has changed. What is derived from a moment can be
 * stored beside it.
 */
export function openMoments(
  { board, settings, policies }: MomentPorts,
  clock: Pick<Clock, 'wallMs'>,
): () => Promise<BoardMoment> {
  let last: (BoardMoment & { readonly untilMs: number }) | undefined
  return async () => {
    const state = await board.sync()
    const current = await policies()
    const nowMs = clock.wallMs()
    if (last?.state === state && last.policies === current && nowMs >= last.nowMs && nowMs < last.untilMs) return last
    const moment = momentOf(state, nowMs, settings, current)
    const untilMs = readinessIndex(state, nowMs, moment.rules).nextChangeMs() ?? Infinity
    return (last = { ...moment, untilMs })
  }
}

// Of one moment: pages of a dashboard, a command line and a few programs.
const pagesMax = 50

/** The lines of a page of tasks with their state. A page of the same moment is made once. */
export function openTaskPages(): (
  moment: BoardMoment,
  query: ListQuery,
  costOf?: (task: Task) => number | null,
) => TaskLines {
  const pages = new WeakMap<BoardMoment, Map<string, TaskLines>>()
  return (moment, query, cost) => {
    const made = pages.get(moment) ?? new Map<string, TaskLines>()
    pages.set(moment, made)
    const name = JSON.stringify(query)
    // A cost changes without the board.
    const known = query.minCostMicros === undefined ? made.get(name) : undefined
    if (known !== undefined) return known
    const { state, nowMs, rules } = moment
    const page = listTasks(state, nowMs, rules, query, cost)
    const tasks = page.tasks.map(({ taskId }) => state.tasks.get(taskId)!)
    const lines = page.tasks.map((line, at) => ({ ...line, ...taskStateOf(tasks[at]!, moment) }))
    const fresh = { tasks, lines, total: page.total, cursor: page.cursor }
    if (made.size < pagesMax) made.set(name, fresh)
    return fresh
  }
}

interface TaskLines extends Omit<TaskPage, 'tasks'> {
  readonly tasks: readonly Task[]
  readonly lines: readonly (TaskLine & ReturnType<typeof taskStateOf>)[]
}

export function taskStateOf(task: Task, moment: BoardMoment) {
  const ready = readiness(task, moment.state, moment.nowMs, moment.rules)
  return {
    waitCode: ready.ready ? null : ready.code,
    waitUntil: ready.ready ? null : (ready.until ?? null),
    recovery: recoveryNow(task, moment.policies.recovery),
    budget: taskBudget(task, moment.policies.budget),
    next: ready.ready ? placeOf(task, ready.assignee, moment) : null,
  }
}

function recoveryNow(task: Task, policy: RecoveryPolicy) {
  if (task.status === 'done') return null
  const entry = currentRecovery(task)
  if (entry === undefined) return null
  const { taskId: _taskId, ...recovery } = entry
  return { ...recovery, maxAttempts: ruleFor(policy, entry.reasonCode).maxAttempts }
}

function placeOf({ taskId }: Task, assignee: string, { choice, places }: BoardMoment) {
  const place = places.get(taskId) ?? places.size
  const other = choice.others.find((skipped) => skipped.taskId === taskId)
  const why =
    choice.taskId === taskId || choice.taskId === null
      ? choice.because
      : `${place - 1} ahead in the queue, ${choice.taskId} first${other === undefined ? '' : `: ${other.why}`}`
  return { place, of: places.size, assignee, why }
}

export interface TaskCosts {
  /** Micros per turn; turns without a known cost are left out. */
  of(tasks: readonly Task[]): Promise<ReadonlyMap<string, number>>
}

// A few megabytes; a dropped cost is read again.
const cachedMax = 50_000

/** Caches the costs of ended turns, which do not change. */
export function openTaskCosts(db: Queryable): TaskCosts {
  const cached = new Map<string, number | undefined>()
  return {
    async of(tasks) {
      const runs = tasks.flatMap((task) => task.runs).filter((run) => run.agentTurnId !== undefined)
      const wanted = runs.map((run) => run.agentTurnId!).filter((id) => !cached.has(id))
      const fresh = await orNothing(readCosts(db, [...new Set(wanted)]))
      const costs = new Map<string, number>()
      for (const { agentTurnId, endedAt } of runs) {
        const cost = fresh.get(agentTurnId!) ?? cached.get(agentTurnId!)
        if (cost !== undefined) costs.set(agentTurnId!, cost)
        if (endedAt === undefined || fresh === nothing || cached.has(agentTurnId!)) continue
        cached.set(agentTurnId!, cost)
        if (cached.size > cachedMax) cached.delete(cached.keys().next().value!)
      }
      return costs
    },
  }
}

const nothing: ReadonlyMap<string, never> = new Map<string, never>()

/** The board is made of files: while the database is unavailable, it is shown without what the kernel knows. */
export async function orNothing<T>(reading: Promise<ReadonlyMap<string, T>>): Promise<ReadonlyMap<string, T>> {
  try {
    return await reading
  } catch (error) {
    if (error instanceof Retryable) return nothing
    throw error
  }
}

/** Null: no cost is known. */
export function costOf(task: Task, costs: ReadonlyMap<string, number>): number | null {
  const known = task.runs.map((run) => costs.get(run.agentTurnId ?? '')).filter((cost) => cost !== undefined)
  return known.length === 0 ? null : known.reduce((sum, cost) => sum + cost, 0)
}
