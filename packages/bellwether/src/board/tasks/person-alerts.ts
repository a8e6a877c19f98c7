/**
 * Messages to people about tasks that wait for them. They follow from the state and not from the moment of a change, so that a
 * process that starts again raises the same alerts with the same keys. Pure.
 */
import { reasonInWords } from '@bellwether/protocol'
import { human, recoveryOf } from '../policies/recovery.js'
import type { Task } from '../log/task.js'
import type { Readiness } from './ready.js'
import { problemText } from './last-failure.js'
import { noAnswer, personNeeded } from './reminders.js'
import { iso, textField } from './task-fields.js'

export interface PersonAlert {
  readonly kind: 'approval' | 'review' | 'handoff' | 'escalated' | 'person_reminder' | 'person_gave_up'
  readonly taskId: string
  readonly text: string
  /** The same hand-off or reminder has the same key. */
  readonly key: string
  readonly details: { readonly reasonCode: string; readonly deadline?: string }
}

const titleMaxChars = 120
const named = ({ taskId, title }: Task) => `${taskId} "${title.slice(0, titleMaxChars)}"`

/** The message about a task that waits for a person; null until its deadline is in the log. */
export function personAlert(task: Task, readiness: Readiness): PersonAlert | null {
  const need = personNeeded(task, readiness)
  const entry = need === null ? undefined : recoveryOf(task, need.code)
  if (need === null || entry?.nextAssignee !== human) return null
  const { taskId } = task
  const { reminders, deadlineTs, reasonCode } = entry
  const first =
    need.code === 'approval' || need.code === 'review'
      ? need.code
      : need.code === 'merge'
        ? 'review'
        : entry.action === 'escalate'
          ? 'escalated'
          : 'handoff'
  const why = reasonInWords(need.why)
  return {
    kind: reminders > 0 ? 'person_reminder' : first,
    taskId,
    text: reminders > 0 ? `${named(task)} still waits for a person: ${why}` : `${named(task)} needs a person: ${why}`,
    key: `task ${taskId} ${reasonCode} ${deadlineTs}`,
    details: { reasonCode, deadline: iso(deadlineTs * 1_000) },
  }
}

/** The same for a task whose run has just ended, and for one that stopped because of it. */
export function closedAlert(task: Task): PersonAlert {
  const why = problemText(task)
  const reasonCode = textField(task, 'reasonCode') ?? 'blocked'
  return (
    personAlert(task, { ready: false, code: 'person', why }) ?? {
      kind: 'escalated',
      taskId: task.taskId,
      text: `${named(task)} needs a person: ${why}`,
      key: `task ${task.taskId} ${reasonCode} ${task.updatedAt}`,
      details: { reasonCode },
    }
  )
}

/** The message about a task that failed because no person answered; null for other tasks. */
export function gaveUpAlert(task: Task): PersonAlert | null {
  if (task.status !== 'failed' || textField(task, 'reasonCode') !== noAnswer) return null
  return {
    kind: 'person_gave_up',
    taskId: task.taskId,
    text: `${named(task)} failed because no person answered: ${(task.reason ?? '').replace(`${noAnswer}: `, '')}`,
    key: `task ${task.taskId} ${noAnswer} ${task.updatedAt}`,
    details: { reasonCode: noAnswer },
  }
}
