/**
 * What is shown of a task besides its words: what it waits for as a word that programs read, where its recovery stands, how much of its
 * budget is used, its place in the line and what it cost. Always: derived from the board's own rules, never decided here. What its turns
 * cost is asked of the kernel, once for each that has ended.
 */
import { Retryable } from '@bellwether/protocol'
import { nextTask, type Choice } from '../board/tasks/next-task.js'
import type { DispatchPolicies } from '../board/dispatch/dispatcher.js'
import { openRun, textField } from '../board/tasks/task-fields.js'
import { readinessIndex } from '../board/tasks/readiness-index.js'
import { budgetsOf, limitsFor, type BudgetEntry, type BudgetPolicy } from '../board/policies/budget.js'
import { recoveriesOf, recoveryOf, ruleFor, type RecoveryPolicy } from '../board/policies/recovery.js'
import { readiness, type ReadyRules } from '../board/tasks/ready.js'
import type { BoardState, Task } from '../board/log/task.js'
import { readCosts } from '../kernel/reads/turn-detail.js'
import type { Queryable } from '../ports/database/database.js'

export interface BoardMoment {
  readonly state: BoardState
  readonly nowMs: number
  readonly rules: ReadyRules
  readonly policies: Pick<DispatchPolicies, 'recovery' | 'budget'>
  readonly choice: Choice
  /** The place of each task that is ready, from 1. */
  readonly places: ReadonlyMap<string, number>
}

export function momentOf(
  state: BoardState,
  nowMs: number,
  firstAgent: string,
  policies: BoardMoment['policies'],
): BoardMoment {
  const rules = { firstAgent, recovery: policies.recovery }
  const choice = nextTask(state, nowMs, rules)
  const places = new Map<string, number>()
  for (const { task } of readinessIndex(state, nowMs, rules).ready) places.set(task.taskId, places.size + 1)
  return { state, nowMs, rules, policies, choice, places }
}

export function taskFacts(task: Task, moment: BoardMoment) {
  const told = readiness(task, moment.state, moment.nowMs, moment.rules)
  return {
    waitCode: told.ready ? null : told.code,
    waitUntil: told.ready ? null : (told.until ?? null),
    recovery: recoveryNow(task, moment.policies.recovery),
    budget: budgetNow(task, moment.policies.budget),
    next: told.ready ? placeOf(task, told.assignee, moment) : null,
  }
}

/** The decision that counts: that of the reason it is blocked for, else the one with the latest time limit. */
function recoveryNow(task: Task, policy: RecoveryPolicy) {
  if (task.status === 'done') return null
  const reason = textField(task, 'reasonCode')
  const latest = () => [...recoveriesOf(task).values()].toSorted((a, b) => b.deadlineTs - a.deadlineTs)[0]
  const entry = (reason === null ? undefined : recoveryOf(task, reason)) ?? latest()
  if (entry === undefined) return null
  const { taskId: _taskId, ...facts } = entry
  return { ...facts, maxAttempts: ruleFor(policy, entry.reasonCode).maxAttempts }
}

interface Share {
  readonly unit: 'tokens' | 'ms' | 'runs'
  readonly used: number
  readonly limit: number
  readonly fraction: number
}

/** Of whoever is at it; when that one has used nothing yet, of whoever came nearest to a limit. */
function budgetNow(task: Task, policy: BudgetPolicy) {
  const entries = [...budgetsOf(task).values()].map((entry) => ({ entry, ...sharesOf(entry, policy) }))
  const agent = (openRun(task)?.agent ?? task.assignee ?? '').trim().toLowerCase()
  const fraction = (one: (typeof entries)[number]) => one.nearest?.fraction ?? 0
  const shown =
    entries.find(({ entry }) => entry.agent === agent) ?? entries.toSorted((a, b) => fraction(b) - fraction(a))[0]
  if (shown === undefined) return null
  const { tokenUsage, elapsedMs, retryCount, exceededCount } = shown.entry
  const { limits, nearest } = shown
  return { agent: shown.entry.agent, tokenUsage, elapsedMs, retryCount, exceededCount, limits, nearest }
}

function sharesOf(entry: BudgetEntry, policy: BudgetPolicy) {
  const { maxTaskTokens, maxTaskWallTimeSec, maxTaskRetries } = limitsFor(policy, entry.agent)
  const share = (unit: Share['unit'], used: number, limit: number | null): Share[] =>
    limit === null ? [] : [{ unit, used, limit, fraction: used / limit }]
  const [nearest = null] = [
    ...share('tokens', entry.tokenUsage, maxTaskTokens),
    ...share('ms', entry.elapsedMs, maxTaskWallTimeSec === null ? null : maxTaskWallTimeSec * 1_000),
    ...share('runs', entry.retryCount, maxTaskRetries),
  ].toSorted((a, b) => b.fraction - a.fraction)
  return { limits: { maxTaskTokens, maxTaskWallTimeSec, maxTaskRetries }, nearest }
}

function placeOf({ taskId }: Task, assignee: string, { choice, places }: BoardMoment) {
  const place = places.get(taskId) ?? places.size
  const other = choice.others.find((one) => one.taskId === taskId)
  const why =
    choice.taskId === taskId || choice.taskId === null
      ? choice.because
      : `${place - 1} come first, ${choice.taskId} before all${other === undefined ? '' : `: ${other.why}`}`
  return { place, of: places.size, assignee, why }
}

export interface TaskCosts {
  /** Micros by the turn's id; turns of which nothing is known are not in it. */
  of(tasks: readonly Task[]): Promise<ReadonlyMap<string, number>>
}

// Some megabytes; who is forgotten is asked for again.
const keptMax = 50_000

/** An ended turn's cost does not change any more: it is kept. */
export function openTaskCosts(db: Queryable): TaskCosts {
  const kept = new Map<string, number | undefined>()
  return {
    async of(tasks) {
      const runs = tasks.flatMap((task) => task.runs).filter((run) => run.agentTurnId !== undefined)
      const wanted = runs.map((run) => run.agentTurnId!).filter((id) => !kept.has(id))
      const asked = await orNothing(readCosts(db, [...new Set(wanted)]))
      const costs = new Map<string, number>()
      for (const { agentTurnId, endedAt } of runs) {
        const cost = asked.get(agentTurnId!) ?? kept.get(agentTurnId!)
        if (cost !== undefined) costs.set(agentTurnId!, cost)
        if (endedAt === undefined || asked === nothing || kept.has(agentTurnId!)) continue
        kept.set(agentTurnId!, cost)
        if (kept.size > keptMax) kept.delete(kept.keys().next().value!)
      }
      return costs
    },
  }
}

const nothing: ReadonlyMap<string, never> = new Map<string, never>()

/** A board is files: it is shown, without what the kernel knows, also while the database is away. */
export async function orNothing<T>(asked: Promise<ReadonlyMap<string, T>>): Promise<ReadonlyMap<string, T>> {
  try {
    return await asked
  } catch (error) {
    if (error instanceof Retryable) return nothing
    throw error
  }
}

/** Null: nothing is known. */
export function costOf(task: Task, costs: ReadonlyMap<string, number>): number | null {
  const known = task.runs.map((run) => costs.get(run.agentTurnId ?? '')).filter((cost) => cost !== undefined)
  return known.length === 0 ? null : known.reduce((sum, cost) => sum + cost, 0)
}
