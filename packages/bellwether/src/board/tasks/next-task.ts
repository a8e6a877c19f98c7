/**
 * Selects the next ready task and explains why the others were skipped. The same state, time and rules give the same choice;
 * the cost depends on what changed since the last choice, not on the size of the board. start-run.ts confirms the choice
 * under the lock before it claims the task.
 */
import type { TaskChoice } from '@bellwether/protocol/http'
import { pausedBy } from './task-fields.js'
import { readinessIndex, type ReadinessIndex } from './readiness-index.js'
import { dependencyWalkMax, dependsOn, weight, type ReadyRules, type WaitCode } from './ready.js'
import type { BoardState, Task } from '../log/task.js'

export type NextTask =
  | { readonly task: Task; readonly assignee: string; readonly because: string }
  /** `code`: what the requested task waits for. */
  | { readonly task: null; readonly because: string; readonly code?: WaitCode }

/** What was decided, and from what. */
export interface Decision {
  readonly state: BoardState
  readonly nowMs: number
  readonly rules: ReadyRules
  readonly next: NextTask
}

// Enough to see why a board does not move; the choice on a board with a million tasks must stay small.
const othersMax = 20

export function decideNext(state: BoardState, nowMs: number, rules: ReadyRules): Decision {
  return { state, nowMs, rules, next: firstReady(readinessIndex(state, nowMs, rules), state) }
}

function firstReady({ ready, waiting }: ReadinessIndex, state: BoardState): NextTask {
  const paused = pausedBy(state)
  const [best] = ready.first(1)
  if (paused === null && best?.readiness.ready === true)
    return { task: best.task, assignee: best.readiness.assignee, because: whyFirst(best.task, ready.length) }
  const because =
    paused !== null
      ? `${paused.by} paused the board${paused.reason === undefined ? '' : `: ${paused.reason}`}`
      : waiting.length === 0
        ? 'nothing is left to do'
        : `none of ${waiting.length} open tasks is ready`
  return { task: null, because }
}

export function nextTask(state: BoardState, nowMs: number, rules: ReadyRules): TaskChoice {
  return explainDecision(decideNext(state, nowMs, rules))
}

/** Call it while `decision.state` is the newest state: for an older one the index is built again. */
export function explainDecision({ state, nowMs, rules, next }: Decision): TaskChoice {
  const { ready, waiting } = readinessIndex(state, nowMs, rules)
  const others: TaskChoice['others'][number][] = []
  for (const { task } of ready.first(othersMax + 1)) {
    if (next.task === null) others.push({ taskId: task.taskId, code: 'paused', why: next.because })
    else if (task !== next.task) others.push({ taskId: task.taskId, code: 'after', why: whyAfter(next.task, task) })
  }
  // One allowance for all tasks: walking the dependency chain of each would take too long.
  const steps = { left: dependencyWalkMax }
  for (const { task, readiness } of waiting.first(othersMax - others.length)) {
    if (readiness.ready) continue
    const cycle = readiness.code === 'dependency' && isInCycle(task, state, steps)
    others.push({
      taskId: task.taskId,
      code: readiness.code,
      why: `${readiness.why}${cycle ? ' (dependency cycle)' : ''}`,
    })
  }
  others.splice(othersMax)
  const left = ready.length + waiting.length - others.length - (next.task === null ? 0 : 1)
  const rest = { because: next.because, others, left, ready: ready.length }
  return next.task === null
    ? { taskId: null, assignee: null, ...rest }
    : { taskId: next.task.taskId, assignee: next.assignee, ...rest }
}

function isInCycle(task: Task, state: BoardState, steps: { left: number }): boolean {
  return task.dependencies.some((id) => state.tasks.has(id) && dependsOn(state, id, task.taskId, steps))
}

function whyFirst(task: Task, ready: number): string {
  return ready === 1
    ? 'it is the only ready task'
    : `it comes first of ${ready} ready tasks: priority ${weight(task.priority)}, impact ${weight(task.impact)}, created ${task.createdAt}`
}

function whyAfter(best: Task, task: Task): string {
  if (weight(best.priority) !== weight(task.priority))
    return `its priority is ${weight(task.priority)}, not ${weight(best.priority)}`
  if (weight(best.impact) !== weight(task.impact))
    return `its impact is ${weight(task.impact)}, not ${weight(best.impact)}`
  return best.createdAt !== task.createdAt ? 'it was created later' : 'its id sorts later'
}
