/**
 * The commands of people on one task: add, change, claim, finish, block, retry. Each is decided under the lock; dependencies
 * never form a cycle; a person's move wins over a running turn, which the reconciler then stops. Callers check the input
 * (input.ts) and the evidence of `finishTask` (dispatch/finish.ts).
 */
import { claimOf, isOver, mergingOf, openRun } from './task-fields.js'
import { retryAgent } from './next-step.js'
import { defined } from '@bellwether/base'
import type { NewTask, TaskChange } from '@bellwether/protocol'
import { actorName } from './input.js'
import { mustNotBeDone, rejected, taskIn } from './find-task.js'
import type { OperatorPorts, OperatorInput } from './operator-commands.js'
import type { EvidenceRecord } from '../policies/acceptance.js'
import { recoveryCleared } from '../policies/recovery.js'
import { retryEntry, withoutRecovery } from './reminders.js'
import { feedbackCleared, feedbackPayload, type FeedbackInput } from './feedback.js'
import { failureCleared } from './last-failure.js'
import { dependsOn } from './ready.js'
import { draftsTo, noted } from './status-path.js'
import type { BoardState, Draft, Task, TaskEvent } from '../log/task.js'

type Lines = Promise<readonly TaskEvent[]>

export async function addTask({ board }: OperatorPorts, input: NewTask, by: string): Promise<string> {
  const { taskId: wanted, ...fields } = input
  const actor = actorName(by)
  const lines = await board.write((state) => {
    if (wanted !== undefined && state.tasks.has(wanted)) {
      throw rejected(
        `Cannot add the task: task "${wanted}" already exists.`,
        'task_exists',
        'Choose another id, or omit it to get the next free one.',
      )
    }
    const taskId = wanted ?? freeId(state)
    checkDependencies(state, taskId, fields.dependencies ?? [])
    return [{ taskId, type: 'task_created', actor, payload: fields }]
  })
  return lines[0]!.taskId
}

/** T-1, T-2, …: one above the highest used number. */
function freeId(state: BoardState): string {
  let highest = 0
  for (const id of state.tasks.keys()) {
    const number = /^T-(\d{1,15})$/.exec(id)?.[1]
    if (number !== undefined) highest = Math.max(highest, Number(number))
  }
  return `T-${highest + 1}`
}

function checkDependencies(state: BoardState, taskId: string, dependencies: readonly string[]): void {
  for (const id of dependencies) {
    if (id === taskId) throw rejected(`Task "${taskId}" cannot depend on itself.`, 'dependency_cycle')
    if (!state.tasks.has(id)) {
      throw rejected(`The dependency "${id}" does not exist.`, 'unknown_dependency', 'Add that task first.')
    }
    if (dependsOn(state, id, taskId)) {
      throw rejected(
        `Task "${id}" already depends on "${taskId}": the two would wait for each other.`,
        'dependency_cycle',
      )
    }
  }
}

export function changeTask({ board }: OperatorPorts, taskId: string, change: TaskChange, by: string): Lines {
  const actor = actorName(by)
  if (Object.keys(change).length === 0)
    throw rejected('The request changes nothing.', 'empty_change', 'Name at least one field or an action.')
  return board.write((state) => {
    const task = taskIn(state, taskId)
    mustNotBeDone(task)
    if (change.dependencies !== undefined) checkDependencies(state, taskId, change.dependencies)
    return [noted(taskId, actor, change)]
  })
}

/** A person takes a task. Earlier attempts of agents no longer count. */
export function claimTask({ board, nowMs }: OperatorPorts, taskId: string, by: string): Lines {
  const actor = actorName(by)
  return board.write((state) => {
    const task = taskIn(state, taskId)
    const claim = claimOf(task)
    const run = openRun(task)
    if (run !== null)
      throw rejected(
        `Cannot claim task "${taskId}": ${run.agent} is working on it.`,
        'open_run',
        `Stop the turn with bellwether task abort ${taskId}.`,
      )
    if (task.status === 'claimed' && claim !== null && !isOver(claim, nowMs())) {
      throw rejected(
        `Cannot claim task "${taskId}": ${claim.by} is about to start it.`,
        'claimed',
        'Retry in a minute, or freeze the task.',
      )
    }
    const payload = { assignee: actor, claim: null, reasonCode: null, damage: null, ...recoveryCleared }
    if (task.status === 'claimed') {
      if (claim === null && task.assignee !== actor) {
        throw rejected(
          `Cannot claim task "${taskId}": ${task.assignee ?? 'another person'} has claimed it.`,
          'claimed',
          'Ask them, or block the task first.',
        )
      }
      return [noted(taskId, actor, payload)]
    }
    if (task.status !== 'pending' && task.status !== 'blocked') {
      throw rejected(`Cannot claim task "${taskId}": it is ${task.status}.`, 'not_claimable')
    }
    return [{ taskId, type: 'task_claimed', actor, payload }]
  })
}

export function finishTask(
  { board }: OperatorPorts,
  taskId: string,
  by: string,
  { evidence, note }: { readonly evidence: EvidenceRecord | null; readonly note?: string },
): Lines {
  const actor = actorName(by)
  return board.write((state) => {
    const task = taskIn(state, taskId)
    mustNotBeDone(task)
    if (task.status === 'review' && mergingOf(task) !== null)
      throw rejected(
        `Cannot finish task "${taskId}": its change is not merged.`,
        'unmerged',
        `Merge it with bellwether task merge ${taskId}, or keep it on its branch with bellwether task keep ${taskId}.`,
      )
    const cleared = { ...recoveryCleared, ...failureCleared(task), ...feedbackCleared(task) }
    const payload = { evidence, doneBy: actor, claim: null, reasonCode: null, ...defined({ note }), ...cleared }
    return draftsTo(task, 'done', actor, payload) ?? []
  })
}

export function blockTask({ board }: OperatorPorts, taskId: string, { by, reason }: OperatorInput): Lines {
  const actor = actorName(by)
  return board.write((state) => {
    const task = taskIn(state, taskId)
    mustNotBeDone(task)
    const payload = {
      reason: reason ?? `blocked by ${actor}`,
      reasonCode: 'blocked',
      claim: null,
      ...withoutRecovery(task, 'blocked'),
    }
    return draftsTo(task, 'blocked', actor, payload) ?? []
  })
}

export interface RetryInput extends OperatorInput, Pick<FeedbackInput, 'comments'> {
  /** The agent to retry with; default: the first agent of the task. */
  readonly agent?: string
  /** Whether earlier usage no longer counts. */
  readonly freshBudget?: boolean
}

/** Lets agents retry a task that waits for a person or has failed, at once and from the first attempt. */
export function retryTask(
  { board, nowMs, firstAgent }: OperatorPorts & { readonly firstAgent: string },
  taskId: string,
  { by, reason, comments, agent, freshBudget }: RetryInput,
): Lines {
  const actor = actorName(by)
  return board.write((state): readonly Draft[] => {
    const task = taskIn(state, taskId)
    const run = openRun(task)
    if (run !== null) throw rejected(`Cannot retry task "${taskId}": ${run.agent} is working on it.`, 'open_run')
    if (task.status === 'pending')
      throw rejected(`Cannot retry task "${taskId}": it is pending and has not been tried yet.`, 'not_tried_yet')
    mustNotBeDone(task)
    const entry = retryEntry(taskId, 'requeued', agent ?? retryAgent(task, firstAgent), nowMs())
    const payload = {
      reason: reason ?? `recovery_pending:${entry.nextAssignee}`,
      reasonCode: entry.reasonCode,
      claim: null,
      damage: null,
      recovery: { [entry.reasonCode]: entry },
      ...feedbackPayload(actor, { reason, comments }, nowMs()),
      // The new number gives the task a new purse.
      ...(freshBudget === true ? { budget: {}, budgetGrants: grantsOf(task) + 1 } : {}),
    }
    return draftsTo(task, 'blocked', actor, payload) ?? []
  })
}

/** How often a person granted the task a fresh budget. */
const grantsOf = ({ fields: { budgetGrants } }: Task): number => (typeof budgetGrants === 'number' ? budgetGrants : 0)
