/**
 * Nothing waits for a person for ever. A task that needs somebody gets a date; past it they are reminded, and after the last
 * reminder the task fails with a reason, which ends the waiting of whoever asked. Always: the dates stand in the log, so any
 * process goes on with them; a clock that jumps ahead costs one reminder at most. Pure; the autopilot writes and alerts.
 */
import { readinessIndex } from './readiness-index.js'
import { clockWasSetBack, personNeeded } from './reminder-due.js'
import {
  deadlineSecOf,
  human,
  overdue,
  recoveriesOf,
  recoveryOf,
  recoveryPayload,
  type RecoveryEntry,
  type RecoveryPolicy,
} from '../policies/recovery.js'
import type { ReadyRules } from './ready.js'
import { draftsAlongPath, statusPath } from './status-path.js'
import type { BoardState, Draft, Task } from '../log/task.js'

export interface ReminderAlert {
  readonly kind: 'person_reminder' | 'person_gave_up'
  readonly taskId: string
  readonly text: string
}

export interface ReminderStep {
  readonly drafts: readonly Draft[]
  readonly alerts: readonly ReminderAlert[]
}

// One step of a board with a long queue of people must not hold the lock for long; the rest comes with the next step.
const perStepMax = 200

/** The decisions of a task without those for these reasons: what was waited for is over. */
export function withoutRecovery(
  task: Task,
  ...codes: readonly string[]
): { readonly recovery: Record<string, RecoveryEntry> } {
  return { recovery: Object.fromEntries([...recoveriesOf(task)].filter(([code]) => !codes.includes(code))) }
}

/** The hop to a human, dated. */
export function handoffEntry(
  policy: RecoveryPolicy,
  taskId: string,
  reasonCode: string,
  nowMs: number,
  action: 'human' | 'escalate' = 'human',
): RecoveryEntry {
  return {
    taskId,
    reasonCode,
    attempt: 0,
    nextAssignee: human,
    action,
    recoveryState: action === 'human' ? 'human_handoff' : 'escalated_to_human',
    cooldownUntilTs: 0,
    deadlineTs: Math.ceil(nowMs / 1_000) + Math.ceil(deadlineSecOf(policy, human)),
    reminders: 0,
  }
}

export function dueReminders(state: BoardState, nowMs: number, rules: ReadyRules, actor: string): ReminderStep {
  const drafts: Draft[] = []
  const alerts: ReminderAlert[] = []
  const policy = rules.recovery
  let touched = 0
  for (const { task, readiness: told, reminderMs: personMs } of readinessIndex(state, nowMs, rules).reminders) {
    if (touched === perStepMax || personMs! > nowMs) break
    const need = personNeeded(task, told)
    if (need === null) continue
    const { taskId } = task
    const note = (entry: RecoveryEntry) =>
      drafts.push({ taskId, actor, type: 'task_noted', payload: recoveryPayload(task, entry) })
    const entry = recoveryOf(task, need.code)
    if (entry?.nextAssignee !== human) {
      note(handoffEntry(policy, taskId, need.code, nowMs))
      touched += 1
      continue
    }
    const late = overdue(policy, clockWasSetBack(policy, entry, nowMs) ? { ...entry, deadlineTs: 0 } : entry, nowMs)
    if (late.what === 'in_time') continue
    touched += 1
    if (late.what !== 'given_up') {
      note(late.decision.entry)
      alerts.push({ kind: 'person_reminder', taskId, text: `${taskId} waits for a person: ${need.why}` })
      continue
    }
    const way = statusPath(task.status, 'failed')
    if (way === null) continue
    const payload = { reason: `no_answer: ${need.why}`, reasonCode: 'no_answer' }
    drafts.push(...draftsAlongPath(way, { taskId, actor, payload }))
    alerts.push({ kind: 'person_gave_up', taskId, text: `${taskId} failed, because nobody answered: ${need.why}` })
  }
  return { drafts, alerts }
}
