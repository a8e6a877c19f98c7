/**
 * What people do to tasks by hand: add, change, claim, finish, block, let try again. Always: decided under the lock on the
 * state as it then is; dependencies never form a circle; a hand's move wins over a turn that is under way, which the
 * reconciler then stops. Whether a person's "done" holds is checked before, by whoever calls `finish`.
 */
import { claimOf, isOver, openRun, textField } from './task-fields.js'
import { actorName, changeShape, checked, newTaskShape, type NewTask, type TaskChange } from './input.js'
import { refused, taskIn, type OperatorPorts, type OperatorInput } from './operator-commands.js'
import type { EvidenceRecord } from '../policies/acceptance.js'
import { recoveryCleared, type RecoveryEntry } from '../policies/recovery.js'
import { withoutRecovery } from './reminders.js'
import { dependsOn } from './ready.js'
import { draftsAlongPath, statusPath } from './status-path.js'
import type { BoardState, Draft, TaskEvent } from '../log/task.js'

type Lines = Promise<readonly TaskEvent[]>

export async function addTask({ board }: OperatorPorts, input: NewTask, by: string): Promise<string> {
  const { taskId: wanted, ...words } = checked(newTaskShape, input, 'the task')
  const actor = actorName(by)
  const lines = await board.write((state) => {
    if (wanted !== undefined && state.tasks.has(wanted)) {
      throw refused(`there is a task ${wanted} already`, 'task_exists', 'choose another id, or none: one is given then')
    }
    const taskId = wanted ?? freeId(state)
    checkDependencies(state, taskId, words.dependencies ?? [])
    return [{ taskId, type: 'task_created', actor, payload: words }]
  })
  return lines[0]!.taskId
}

/** T-1, T-2, …: the next after the highest that is taken. */
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
    if (id === taskId) throw refused(`${taskId} cannot depend on itself`, 'dependency_cycle')
    if (!state.tasks.has(id)) {
      throw refused(`there is no task ${id} to depend on`, 'unknown_dependency', 'add that one first')
    }
    if (dependsOn(state, id, taskId)) {
      throw refused(`${id} waits for ${taskId} already: they would wait for each other`, 'dependency_cycle')
    }
  }
}

export function changeTask({ board }: OperatorPorts, taskId: string, input: TaskChange, by: string): Lines {
  const words = checked(changeShape, input, 'the change')
  const actor = actorName(by)
  if (Object.keys(words).length === 0) throw refused('nothing is to be changed', 'empty_change')
  return board.write((state) => {
    const task = taskIn(state, taskId)
    if (task.status === 'done') throw refused(`${taskId} is done; done is final`, 'already_done')
    if (words.dependencies !== undefined) checkDependencies(state, taskId, words.dependencies)
    return [{ taskId, type: 'task_noted', actor, payload: words }]
  })
}

/** A person takes a task up. Attempts of agents before do not count any more. */
export function claimTask({ board, nowMs }: OperatorPorts, taskId: string, by: string): Lines {
  const actor = actorName(by)
  return board.write((state) => {
    const task = taskIn(state, taskId)
    const hold = claimOf(task)
    const run = openRun(task)
    if (run !== null) throw refused(`${run.agent} is at ${taskId} now`, 'under_way', `bellwether task abort ${taskId}`)
    if (task.status === 'claimed' && hold !== null && !isOver(hold, nowMs())) {
      throw refused(`${hold.by} is about to start ${taskId}`, 'claimed', 'try again in a minute, or freeze it')
    }
    const payload = { assignee: actor, claim: null, reasonCode: null, ...recoveryCleared }
    if (task.status === 'claimed') {
      if (hold === null && task.assignee !== actor) {
        throw refused(`${task.assignee ?? 'somebody'} has claimed ${taskId}`, 'claimed', 'ask them, or block it first')
      }
      return [{ taskId, type: 'task_noted', actor, payload }]
    }
    if (task.status !== 'pending' && task.status !== 'blocked') {
      throw refused(`${taskId} is ${task.status}, and cannot be claimed`, 'not_claimable')
    }
    return [{ taskId, type: 'task_claimed', actor, payload }]
  })
}

export interface FinishInput {
  readonly evidence: EvidenceRecord | null
  readonly note?: string
}

export function finishTask(
  { board }: OperatorPorts,
  taskId: string,
  by: string,
  { evidence, note }: FinishInput,
): Lines {
  const actor = actorName(by)
  return board.write((state) => {
    const task = taskIn(state, taskId)
    const way = statusPath(task.status, 'done')
    if (way === null || way.length === 0) throw refused(`${taskId} is done already`, 'already_done')
    const payload = {
      evidence,
      doneBy: actor,
      claim: null,
      reasonCode: null,
      ...(note === undefined ? {} : { note }),
      ...recoveryCleared,
    }
    return draftsAlongPath(way, { taskId, actor, payload })
  })
}

export function blockTask({ board }: OperatorPorts, taskId: string, { by, reason }: OperatorInput): Lines {
  const actor = actorName(by)
  return board.write((state) => {
    const task = taskIn(state, taskId)
    const payload = {
      reason: reason ?? `blocked by ${actor}`,
      reasonCode: 'blocked',
      claim: null,
      ...withoutRecovery(task, 'blocked'),
    }
    if (task.status === 'blocked') return [{ taskId, type: 'task_noted', actor, payload }]
    const way = statusPath(task.status, 'blocked')
    if (way === null) throw refused(`${taskId} is done; done is final`, 'already_done')
    return draftsAlongPath(way, { taskId, actor, payload })
  })
}

export interface RetryInput extends OperatorInput {
  /** Who is to try; absent: who would have tried first. */
  readonly agent?: string
  /** What was spent before does not count any more. */
  readonly freshBudget?: boolean
}

/** Lets agents try again, at once and from the first attempt: the answer to a task that waits for a person, or failed. */
export function retryTask(
  { board, nowMs, firstAgent }: OperatorPorts & { readonly firstAgent: string },
  taskId: string,
  { by, reason, agent, freshBudget }: RetryInput,
): Lines {
  const actor = actorName(by)
  return board.write((state): readonly Draft[] => {
    const task = taskIn(state, taskId)
    const run = openRun(task)
    if (run !== null) throw refused(`${run.agent} is at ${taskId} now`, 'under_way')
    if (task.status === 'pending') throw refused(`${taskId} is pending: it is tried when it is ready`, 'not_tried_yet')
    const way = statusPath(task.status, 'blocked')
    if (way === null) throw refused(`${taskId} is done; done is final`, 'already_done')
    const entry: RecoveryEntry = {
      taskId,
      reasonCode: 'requeued',
      attempt: 0,
      nextAssignee:
        agent ?? textField(task, 'agent') ?? textField(task, 'role') ?? task.runs.at(-1)?.agent ?? firstAgent,
      action: 'retry',
      recoveryState: 'recovery_scheduled',
      cooldownUntilTs: 0,
      deadlineTs: Math.ceil(nowMs() / 1_000),
      reminders: 0,
    }
    const payload = {
      reason: reason ?? `recovery_pending:${entry.nextAssignee}`,
      reasonCode: entry.reasonCode,
      claim: null,
      recovery: { [entry.reasonCode]: entry },
      ...(freshBudget === true ? { budget: {} } : {}),
    }
    if (way.length === 0) return [{ taskId, type: 'task_noted', actor, payload }]
    return draftsAlongPath(way, { taskId, actor, payload })
  })
}
