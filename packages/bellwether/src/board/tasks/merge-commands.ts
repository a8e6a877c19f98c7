/**
 * What a person decides about an accepted change in a worktree: merge it, send it back to its agent, or keep it on its branch. Also for a
 * change that could not be merged. Decided under the lock; dispatch/merge.ts merges.
 */
import { defined, isObject } from '@bellwether/base'
import { feedbackPayload, type FeedbackInput } from './feedback.js'
import { iso, mergingOf, openRun, type Merging } from './task-fields.js'
import { rejected, taskIn } from './find-task.js'
import { actorName, reasonText } from './input.js'
import type { OperatorInput, OperatorPorts } from './operator-commands.js'
import { recoveryCleared } from '../policies/recovery.js'
import { retryEntry } from './reminders.js'
import { draftsTo } from './status-path.js'
import type { Task, TaskEvent } from '../log/task.js'

type Lines = Promise<readonly TaskEvent[]>

function unmergedChange(task: Task): Merging {
  const merging = mergingOf(task)
  if (merging === null || openRun(task) !== null || (task.status !== 'review' && task.status !== 'blocked'))
    throw rejected(
      `Task "${task.taskId}" has no accepted change that waits for a merge.`,
      'nothing_to_merge',
      'Only a task with "workspace: worktree" has one, after its run was accepted.',
    )
  return merging
}

/** Queues the change: it is merged next. */
export function mergeTask({ board, nowMs }: OperatorPorts, taskId: string, { by }: OperatorInput): Lines {
  const actor = actorName(by)
  return board.write((state) => {
    const task = taskIn(state, taskId)
    const merging = unmergedChange(task)
    if (merging.state === 'queued')
      throw rejected(`The change of task "${taskId}" is already being merged.`, 'already_merging')
    const mergeBy = { by: actor, at: iso(nowMs()) }
    const payload = { merging: { ...merging, state: 'queued' }, mergeBy, reasonCode: null, ...recoveryCleared }
    return draftsTo(task, 'review', actor, payload) ?? []
  })
}

/** Lets the agent continue in the worktree, with the reason in its prompt. */
export function sendBack(
  { board, nowMs }: OperatorPorts,
  taskId: string,
  { by, reason, comments }: OperatorInput & Pick<FeedbackInput, 'comments'>,
): Lines {
  const actor = actorName(by)
  const why = reasonText(reason)
  return board.write((state) => {
    const task = taskIn(state, taskId)
    unmergedChange(task)
    const agent = task.runs.at(-1)?.agent ?? task.assignee ?? ''
    const reasonCode = 'sent_back'
    const entry = retryEntry(taskId, reasonCode, agent, nowMs())
    const error = `${actor} sent the change back${why === undefined ? '' : `: ${why}`}`
    const { spawn } = task.fields
    const payload = {
      reason: `${reasonCode}: ${error}`,
      reasonCode,
      merging: null,
      recovery: { [reasonCode]: entry },
      // The reason is in the error of the run.
      ...feedbackPayload(actor, { comments }, nowMs()),
      ...(isObject(spawn) ? { spawn: { ...spawn, reasonCode, error } } : {}),
    }
    return draftsTo(task, 'blocked', actor, payload) ?? []
  })
}

/** Finishes the task without a merge. Its commits stay on its branch. */
export function keepBranch({ board, nowMs }: OperatorPorts, taskId: string, { by, reason }: OperatorInput): Lines {
  const actor = actorName(by)
  const why = reasonText(reason)
  return board.write((state) => {
    const task = taskIn(state, taskId)
    const { branch, commit } = unmergedChange(task)
    const kept = { by: actor, at: iso(nowMs()), branch, commit, ...defined({ reason: why }) }
    return draftsTo(task, 'done', actor, { merging: null, kept, reasonCode: null, ...recoveryCleared }) ?? []
  })
}
