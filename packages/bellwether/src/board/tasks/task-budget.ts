/** What a task has spent of its budget in its ended runs, as the command line and HTTP show it. Pure. */
import type { BoardTask } from '@bellwether/protocol/http'
import type { Task } from '../log/task.js'
import { budgetsOf, limitsFor, usedByTask, type BudgetPolicy } from '../policies/budget.js'
import { openRun } from './task-fields.js'

type TaskBudget = NonNullable<BoardTask['budget']>
type Share = NonNullable<TaskBudget['nearest']>

/**
 * The usage of all agents together, with the limits of the current agent; if it has used nothing yet, of the agent that is nearest to
 * a limit. Null: nothing was used.
 */
export function taskBudget(task: Task, policy: BudgetPolicy): TaskBudget | null {
  const entries = budgetsOf(task)
  const { wallTimeMs: elapsedMs, tokens: tokenUsage, ...kinds } = usedByTask(entries)
  const used = { tokenUsage, ...kinds, elapsedMs }
  const budgets = [...entries.values()].map(({ agent, retryCount, exceededCount }) => {
    const { maxTaskTokens, maxTaskCostUsd, maxTaskWallTimeSec, maxTaskRetries } = limitsFor(policy, agent)
    const [nearest = null] = [
      ...share('tokens', tokenUsage, maxTaskTokens),
      ...share('micros', used.costMicros, maxTaskCostUsd === null ? null : Math.round(maxTaskCostUsd * 1e6)),
      ...share('ms', elapsedMs, maxTaskWallTimeSec === null ? null : maxTaskWallTimeSec * 1_000),
      ...share('runs', retryCount, maxTaskRetries),
    ].toSorted((a, b) => b.fraction - a.fraction)
    const limits = { maxTaskTokens, maxTaskCostUsd, maxTaskWallTimeSec, maxTaskRetries }
    return { agent, ...used, retryCount, exceededCount, limits, nearest }
  })
  const agent = (openRun(task)?.agent ?? task.assignee ?? '').trim().toLowerCase()
  const fraction = (one: TaskBudget) => one.nearest?.fraction ?? 0
  return (
    budgets.find((budget) => budget.agent === agent) ?? budgets.toSorted((a, b) => fraction(b) - fraction(a))[0] ?? null
  )
}

const share = (unit: Share['unit'], used: number, limit: number | null): Share[] =>
  limit === null ? [] : [{ unit, used, limit, fraction: used / limit }]
