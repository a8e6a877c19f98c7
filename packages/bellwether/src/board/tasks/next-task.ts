/**
 * Which task is next, and why not the others. Always: the same state and hour give the same choice; it costs what changed since
 * the last one, not what is on the board. Nothing here writes: dispatch.ts asks again under the lock before it claims.
 */
import { pausedBy } from './task-fields.js'
import { readinessIndex, type ReadinessIndex } from './readiness-index.js'
import { dependsOn, weight, type ReadyRules, type WaitCode } from './ready.js'
import type { BoardState, Task } from '../log/task.js'

export interface Choice {
  readonly taskId: string | null
  readonly assignee: string | null
  readonly because: string
  /** Why not the others, the likeliest first; `left` more were not told. */
  readonly others: readonly {
    readonly taskId: string
    readonly code: WaitCode | 'after' | 'paused'
    readonly why: string
  }[]
  readonly left: number
  readonly ready: number
}

export type NextTask =
  | { readonly task: Task; readonly assignee: string; readonly because: string }
  | { readonly task: null; readonly because: string }

// Enough to see why a board stands still; a board of a million tasks must not answer a million lines.
const othersMax = 20

/** The one that comes first, without a word about the others. */
export function firstReady(state: BoardState, nowMs: number, rules: ReadyRules): NextTask {
  return firstIn(readinessIndex(state, nowMs, rules), state)
}

function firstIn({ ready, waiting }: ReadinessIndex, state: BoardState): NextTask {
  const paused = pausedBy(state)
  const [best] = ready.first(1)
  if (paused === null && best?.readiness.ready === true)
    return { task: best.task, assignee: best.readiness.assignee, because: firstOf(best.task, ready.length) }
  const because =
    paused !== null
      ? `${paused.by} paused the board${paused.reason === undefined ? '' : `: ${paused.reason}`}`
      : waiting.length === 0
        ? 'nothing is left to do'
        : `none of ${waiting.length} open tasks is ready`
  return { task: null, because }
}

export function nextTask(state: BoardState, nowMs: number, rules: ReadyRules): Choice {
  const outlook = readinessIndex(state, nowMs, rules)
  const { ready, waiting } = outlook
  const best = firstIn(outlook, state)
  const others: Choice['others'][number][] = []
  for (const { task } of ready.first(othersMax + 1)) {
    if (best.task === null)
      others.push({
        taskId: task.taskId,
        code: 'paused',
        why: `${pausedBy(state)?.by ?? 'somebody'} paused the board`,
      })
    else if (task !== best.task) others.push({ taskId: task.taskId, code: 'after', why: comesAfter(best.task, task) })
  }
  // One allowance for all: the walk along chains of dependencies is too long to be made for each.
  const steps = { left: cycleWalkMax }
  for (const { task, readiness: told } of waiting.first(othersMax - others.length)) {
    if (told.ready) continue
    const why = told.code === 'dependency' ? `${told.why}${inTurn(task, state, steps)}` : told.why
    others.push({ taskId: task.taskId, code: told.code, why })
  }
  others.splice(othersMax)
  const left = ready.length + waiting.length - others.length - (best.task === null ? 0 : 1)
  const { because } = best
  const rest = { because, others, left, ready: ready.length }
  return best.task === null
    ? { taskId: null, assignee: null, ...rest }
    : { taskId: best.task.taskId, assignee: best.assignee, ...rest }
}

// A chain of dependencies longer than this is not walked to its end: it is told as it stands.
const cycleWalkMax = 10_000

function inTurn(task: Task, state: BoardState, steps: { left: number }): string {
  const waits = task.dependencies.some((id) => state.tasks.has(id) && dependsOn(state, id, task.taskId, steps))
  return waits ? ', which waits for it in turn' : ''
}

function firstOf(task: Task, ready: number): string {
  return ready === 1
    ? 'it is the only one that is ready'
    : `of ${ready} that are ready it comes first: priority ${weight(task.priority)}, impact ${weight(task.impact)}, created ${task.createdAt}`
}

function comesAfter(best: Task, task: Task): string {
  if (weight(best.priority) !== weight(task.priority))
    return `its priority is ${weight(task.priority)}, not ${weight(best.priority)}`
  if (weight(best.impact) !== weight(task.impact))
    return `its impact is ${weight(task.impact)}, not ${weight(best.impact)}`
  if (best.createdAt !== task.createdAt) return 'it is younger'
  return 'its name sorts later'
}
