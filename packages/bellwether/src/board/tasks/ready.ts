/**
 * Decides whether a task may be dispatched now and by which agent, or else what it waits for. Also orders tasks by urgency.
 * Pure: the same state and time give the same result. next-task.ts chooses among all tasks.
 */
import { defined } from '@bellwether/base'
import { reasonInWords } from '@bellwether/protocol'
import {
  abortOf,
  approvalOf,
  claimOf,
  firstAgent,
  namesAgent,
  frozenOf,
  iso,
  isOver,
  mergingOf,
  needsApproval,
  openRun,
  textField,
  turnWaitOf,
} from './task-fields.js'
import { chooseAgent } from '../policies/eligible.js'
import { recoveryOf, ruleFor, type RecoveryPolicy } from '../policies/recovery.js'
import type { RuntimeAgent } from '../policies/runtime.js'
import type { BoardState, Task, TaskDamage } from '../log/task.js'

export type WaitCode =
  | 'done'
  | 'failed'
  | 'open_run'
  | 'aborted'
  | 'frozen'
  | 'approval'
  | 'review'
  | 'merge'
  | 'merging'
  | 'held'
  | 'person'
  | 'cooldown'
  | 'claimed'
  | 'dependency'
  | 'damaged'
  | 'no_agent'
  | 'policy'

export type Readiness =
  | { readonly ready: true; readonly assignee: string }
  | { readonly ready: false; readonly code: WaitCode; readonly why: string; readonly until?: string }

export interface ReadyRules {
  /** The agent for a task that names none. */
  readonly firstAgent: string
  readonly recovery: RecoveryPolicy
  /** The agents that config/runtime-policy.json lists; none: every agent may take every task. */
  readonly agents?: readonly RuntimeAgent[]
  /** Why no task is dispatched: a policy file is invalid. */
  readonly problem?: string | undefined
}

// Longer dependency chains are not followed to their end.
export const dependencyWalkMax = 10_000

export function readiness(task: Task, state: BoardState, nowMs: number, rules: ReadyRules): Readiness {
  const no = (code: WaitCode, why: string, until?: string): Readiness => ({
    ready: false,
    code,
    why,
    ...defined({ until }),
  })
  const yes = (assignee: string, isFixed: boolean): Readiness => {
    if (rules.problem !== undefined) return no('policy', rules.problem)
    const choice = chooseAgent(rules.agents ?? [], task, assignee, isFixed)
    return 'agent' in choice ? { ready: true, assignee: choice.agent } : no('no_agent', choice.why)
  }
  if (task.status === 'done') return no('done', 'it is done')
  if (task.status === 'failed') return no('failed', `it failed${reasonOf(task)}`)
  const run = openRun(task)
  if (run !== null) {
    const wait = turnWaitOf(task, run)
    return no(
      'open_run',
      wait === null
        ? `${run.agent} has been working on it since ${run.startedAt}`
        : `the turn of ${run.agent} cannot run: ${wait}`,
    )
  }
  const abort = abortOf(task)
  if (abort !== null) return no('aborted', `${abort.by} aborted it`)
  if (task.damage !== undefined) return no('damaged', `${damageText(task.damage)}; a person must check and release it`)
  const frozen = frozenOf(task)
  if (frozen !== null) return no('frozen', `${frozen.by} froze it`)
  const unmet = unmetDependency(task, state)
  // Do not ask for approval while the task could not start anyway.
  if (unmet === null && needsApproval(task) && approvalOf(task) === null) return no('approval', 'it needs approval')
  if (task.status === 'review') {
    const merging = mergingOf(task)
    if (merging === null) return no('review', 'it needs a review')
    if (merging.state === 'queued') return no('merging', `its change is about to be merged into ${merging.base}`)
    return no(
      'merge',
      `its change on ${merging.branch} waits for a decision: merge into ${merging.base}, send back or keep`,
    )
  }
  if (task.status === 'in_progress') return no('held', `${task.assignee ?? 'a person'} is working on it`)
  if (task.status === 'claimed') {
    const claim = claimOf(task)
    if (claim === null) return no('held', `${task.assignee ?? 'a person'} claimed it`)
    if (!isOver(claim, nowMs)) return no('claimed', `${claim.by} is about to start it`, claim.until)
    return unmet === null ? yes(task.assignee ?? rules.firstAgent, task.assignee !== null) : no('dependency', unmet)
  }
  if (task.status === 'blocked') {
    const code = textField(task, 'reasonCode')
    const decided = code === null ? undefined : recoveryOf(task, code)
    if (decided?.action !== 'retry') return no('person', `it needs a person${reasonOf(task)}`)
    const until = coolingUntil(decided.cooldownUntilTs, ruleFor(rules.recovery, decided.reasonCode).cooldownSec, nowMs)
    if (until !== null) return no('cooldown', `${decided.nextAssignee} may retry it at ${until}`, until)
    return unmet === null ? yes(decided.nextAssignee, true) : no('dependency', unmet)
  }
  if (unmet !== null) return no('dependency', unmet)
  return yes(firstAgent(task, rules.firstAgent), namesAgent(task))
}

const damageText = ({ line, kind }: TaskDamage): string =>
  kind === 'reopened'
    ? `line ${line} of the log reopens it after it was done, and earlier lines of the log are damaged or illegal`
    : `line ${line} of the log is damaged (${kind}) and may belong to it`

const reasonOf = ({ reason }: Task): string => (reason === null ? '' : `: ${reasonInWords(reason)}`)

/** Both ends of a cool-down are rounded up to full seconds. */
export const cooldownSlackSec = 2

/** Null: over. Also if the end is further ahead than the cool-down is long: the clock was set back. */
function coolingUntil(untilTs: number, cooldownSec: number, nowMs: number): string | null {
  const leftMs = untilTs * 1_000 - nowMs
  return leftMs <= 0 || leftMs > (cooldownSec + cooldownSlackSec) * 1_000 ? null : iso(untilTs * 1_000)
}

function unmetDependency(task: Task, state: BoardState): string | null {
  for (const id of task.dependencies) {
    const wanted = state.tasks.get(id)
    if (wanted === undefined) return `it depends on ${id}, which does not exist`
    if (wanted.status !== 'done') return `it depends on ${id}, which is ${wanted.status}`
  }
  return null
}

/** Whether `from` depends on `target`, directly or not. The walk ends when `steps` is used up. */
export function dependsOn(
  state: BoardState,
  from: string,
  target: string,
  steps: { left: number } = { left: dependencyWalkMax },
): boolean {
  const seen = new Set<string>()
  const open = [from]
  while (open.length > 0 && steps.left > 0) {
    steps.left -= 1
    const id = open.pop()!
    if (id === target) return true
    if (seen.has(id)) continue
    seen.add(id)
    const task = state.tasks.get(id)
    if (task !== undefined && task.status !== 'done') open.push(...task.dependencies)
  }
  return false
}

export const weight = (number: number): number => (Number.isFinite(number) ? number : 0)

/** Higher priority first, then higher impact, then older, then by id: no two tasks are equal. */
export function byUrgency(a: Task, b: Task): number {
  return (
    weight(b.priority) - weight(a.priority) ||
    weight(b.impact) - weight(a.impact) ||
    compare(a.createdAt, b.createdAt) ||
    compare(a.taskId, b.taskId)
  )
}

/** By code unit: the order must not depend on the locale. */
function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
