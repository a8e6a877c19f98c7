/**
 * Which task is next, and why. Always: pure, and the same state and hour give the same choice; a task that is not chosen
 * has one plain reason. Nothing here writes: dispatch.ts asks again under the lock before it claims.
 */
import {
  abortOf,
  approvalOf,
  claimOf,
  firstAgent,
  frozenOf,
  iso,
  isOver,
  needsApproval,
  openRun,
  pausedBy,
  textField,
} from './facts.js'
import { recoveryOf, ruleFor, type RecoveryPolicy } from './policies/recovery.js'
import type { BoardState, Task } from './task.js'

export type WaitCode =
  | 'done'
  | 'failed'
  | 'under_way'
  | 'aborted'
  | 'frozen'
  | 'approval'
  | 'review'
  | 'held'
  | 'person'
  | 'cooldown'
  | 'claimed'
  | 'dependency'

export type Readiness =
  | { readonly ready: true; readonly assignee: string }
  | { readonly ready: false; readonly code: WaitCode; readonly why: string; readonly until?: string }

export interface ReadyRules {
  /** Who tries a task that names nobody. */
  readonly firstAgent: string
  readonly recovery: RecoveryPolicy
}

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

// Enough to see why a board stands still; a board of a million tasks must not answer a million lines.
const othersMax = 20
// A chain of dependencies longer than this is not walked to its end: it is told as it stands.
const cycleWalkMax = 10_000

/** May this task be dispatched now, and by whom; else what it waits for. */
export function readiness(task: Task, state: BoardState, nowMs: number, rules: ReadyRules): Readiness {
  const no = (code: WaitCode, why: string, until?: string): Readiness => ({
    ready: false,
    code,
    why,
    ...(until === undefined ? {} : { until }),
  })
  if (task.status === 'done') return no('done', 'it is done')
  if (task.status === 'failed') return no('failed', `it failed${task.reason === null ? '' : `: ${task.reason}`}`)
  const run = openRun(task)
  if (run !== null) return no('under_way', `${run.agent} is at it since ${run.startedAt}`)
  const abort = abortOf(task)
  if (abort !== null) return no('aborted', `${abort.by} aborted it`)
  const frozen = frozenOf(task)
  if (frozen !== null) return no('frozen', `${frozen.by} froze it`)
  const unmet = unmetDependency(task, state)
  // Nobody is asked to approve what could not start anyway.
  if (unmet === null && needsApproval(task) && approvalOf(task) === null) return no('approval', 'it needs an approval')
  if (task.status === 'review') return no('review', 'it waits for a review')
  if (task.status === 'in_progress') return no('held', `${task.assignee ?? 'somebody'} works at it by hand`)
  if (task.status === 'claimed') {
    const claim = claimOf(task)
    if (claim === null) return no('held', `${task.assignee ?? 'somebody'} has claimed it by hand`)
    if (!isOver(claim, nowMs)) return no('claimed', `${claim.by} is about to start it`, claim.until)
    return unmet === null ? { ready: true, assignee: task.assignee ?? rules.firstAgent } : no('dependency', unmet)
  }
  if (task.status === 'blocked') {
    const code = textField(task, 'reasonCode')
    const decided = code === null ? undefined : recoveryOf(task, code)
    if (decided?.action !== 'retry') return no('person', task.reason ?? 'it waits for a person')
    const until = coolingUntil(decided.cooldownUntilTs, ruleFor(rules.recovery, decided.reasonCode).cooldownSec, nowMs)
    if (until !== null) return no('cooldown', `${decided.nextAssignee} may try again at ${until}`, until)
    return unmet === null ? { ready: true, assignee: decided.nextAssignee } : no('dependency', unmet)
  }
  if (unmet !== null) return no('dependency', unmet)
  return { ready: true, assignee: firstAgent(task, rules.firstAgent) }
}

/** Null: over. So is one that lies further ahead than it is long: the clock was set back, and nobody waits the jump out. */
function coolingUntil(untilTs: number, cooldownSec: number, nowMs: number): string | null {
  const leftMs = untilTs * 1_000 - nowMs
  return leftMs <= 0 || leftMs > (cooldownSec + 2) * 1_000 ? null : iso(untilTs * 1_000)
}

function unmetDependency(task: Task, state: BoardState): string | null {
  for (const id of task.dependencies) {
    const wanted = state.tasks.get(id)
    if (wanted === undefined) return `it waits for ${id}, which does not exist`
    if (wanted.status !== 'done') return `it waits for ${id}, which is ${wanted.status}`
  }
  return null
}

/** Only for those that are shown: the walk along a chain of dependencies is too long to be made for every task. */
function inTurn(task: Task, state: BoardState): string {
  const waits = task.dependencies.some((id) => state.tasks.has(id) && dependsOn(state, id, task.taskId))
  return waits ? ', which waits for it in turn' : ''
}

/** Whether `from` waits, over any number of steps, for `target`. */
export function dependsOn(state: BoardState, from: string, target: string): boolean {
  const seen = new Set<string>()
  const open = [from]
  while (open.length > 0 && seen.size < cycleWalkMax) {
    const id = open.pop()!
    if (id === target) return true
    if (seen.has(id)) continue
    seen.add(id)
    const task = state.tasks.get(id)
    if (task !== undefined && task.status !== 'done') open.push(...task.dependencies)
  }
  return false
}

const weight = (number: number): number => (Number.isFinite(number) ? number : 0)

/** The more urgent first, then the more useful, then the older, then by name: no two tasks are equal. */
export function byUrgency(a: Task, b: Task): number {
  return (
    weight(b.priority) - weight(a.priority) ||
    weight(b.impact) - weight(a.impact) ||
    compare(a.createdAt, b.createdAt) ||
    compare(a.taskId, b.taskId)
  )
}

/** By code unit: the order must not depend on whose language the machine speaks. */
function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

export function choose(state: BoardState, nowMs: number, rules: ReadyRules): Choice {
  const ready = firsts<{ readonly task: Task; readonly assignee: string }>()
  const waiting = firsts<{ readonly task: Task; readonly code: WaitCode; readonly why: string }>()
  for (const task of state.tasks.values()) {
    const told = readiness(task, state, nowMs, rules)
    if (told.ready) ready.add({ task, assignee: told.assignee })
    else if (told.code !== 'done') waiting.add({ task, code: told.code, why: told.why })
  }
  const paused = pausedBy(state)
  const best = paused === null ? ready.first[0] : undefined
  const others: Choice['others'][number][] = []
  for (const { task } of best === undefined ? ready.first : ready.first.slice(1)) {
    others.push(
      best === undefined
        ? { taskId: task.taskId, code: 'paused', why: `${paused?.by ?? 'somebody'} paused the board` }
        : { taskId: task.taskId, code: 'after', why: comesAfter(best.task, task) },
    )
  }
  for (const { task, code, why } of waiting.first) {
    others.push({ taskId: task.taskId, code, why: code === 'dependency' ? `${why}${inTurn(task, state)}` : why })
  }
  others.splice(othersMax)
  const all = ready.count + waiting.count
  const told = { others, left: all - others.length - (best === undefined ? 0 : 1), ready: ready.count }
  if (best !== undefined) {
    return { taskId: best.task.taskId, assignee: best.assignee, because: firstOf(best.task, ready.count), ...told }
  }
  const because =
    paused !== null
      ? `${paused.by} paused the board${paused.reason === undefined ? '' : `: ${paused.reason}`}`
      : waiting.count === 0
        ? 'nothing is left to do'
        : `none of ${waiting.count} open tasks is ready`
  return { taskId: null, assignee: null, because, ...told }
}

/** The most urgent of many, without sorting the many. */
function firsts<T extends { readonly task: Task }>(): {
  readonly first: readonly T[]
  readonly count: number
  add(one: T): void
} {
  const first: T[] = []
  let count = 0
  return {
    first,
    get count() {
      return count
    },
    add(one) {
      count += 1
      const last = first.at(-1)
      if (first.length > othersMax && last !== undefined && byUrgency(last.task, one.task) <= 0) return
      const at = first.findIndex(({ task }) => byUrgency(one.task, task) < 0)
      first.splice(at < 0 ? first.length : at, 0, one)
      first.splice(othersMax + 1)
    },
  }
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
