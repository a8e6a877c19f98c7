/**
 * Reminds people of tasks that wait for them. Such a task gets a deadline; after it the person is reminded, and after the last
 * reminder the task fails with a reason, so that nothing waits without end. The deadlines are in the log, so any process can
 * continue; a clock that jumps ahead causes at most one reminder. Pure; the autopilot writes the drafts.
 */
import { problemText } from './last-failure.js'
import { textField } from './task-fields.js'
import {
  deadlineSecOf,
  human,
  overdue,
  recoveriesOf,
  recoveryOf,
  recoveryPayload,
  ruleFor,
  type RecoveryEntry,
  type RecoveryPolicy,
} from '../policies/recovery.js'
import type { Readiness, WaitCode } from './ready.js'
import { draftsTo, noted } from './status-path.js'
import type { Draft, Task } from '../log/task.js'

export const noAnswer = 'no_answer'
// Bounds how long one step holds the lock; the next step handles the rest.
const perStepMax = 200

const personCodes: ReadonlySet<WaitCode> = new Set(['approval', 'review', 'merge', 'held', 'person', 'damaged'])

/** What the task needs a person for, with the reason code of its deadline; null: it needs none. */
export function personNeeded(task: Task, readiness: Readiness): { readonly code: string; readonly why: string } | null {
  if (readiness.ready || !personCodes.has(readiness.code)) return null
  const { code, why } = readiness
  return code === 'person'
    ? { code: textField(task, 'reasonCode') ?? 'blocked', why: task.reason === null ? why : problemText(task) }
    : { code, why }
}

/** When the next reminder is due. Null: the task needs no person. 0: now, because it has no deadline yet. */
export function reminderDueMs(task: Task, readiness: Readiness, nowMs: number, policy: RecoveryPolicy): number | null {
  const need = personNeeded(task, readiness)
  if (need === null) return null
  const entry = recoveryOf(task, need.code)
  if (entry?.nextAssignee !== human || clockWasSetBack(policy, entry, nowMs)) return 0
  return entry.deadlineTs * 1_000
}

/** A deadline further ahead than any hop may take: the clock was set back, and no one should wait for the difference. */
function clockWasSetBack(policy: RecoveryPolicy, entry: RecoveryEntry, nowMs: number): boolean {
  const longestSec = deadlineSecOf(policy, human) + ruleFor(policy, entry.reasonCode).cooldownSec + 2
  return entry.deadlineTs * 1_000 - nowMs > longestSec * 1_000
}

/** The recovery entries of a task without those for these reasons. */
export function withoutRecovery(
  task: Task,
  ...codes: readonly string[]
): { readonly recovery: Record<string, RecoveryEntry> } {
  return { recovery: Object.fromEntries([...recoveriesOf(task)].filter(([code]) => !codes.includes(code))) }
}

/** Hands the task to a person, with a deadline. */
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

/** Lets an agent try the task again at once. */
export const retryEntry = (taskId: string, reasonCode: string, agent: string, nowMs: number): RecoveryEntry => ({
  taskId,
  reasonCode,
  attempt: 0,
  nextAssignee: agent,
  action: 'retry',
  recoveryState: 'recovery_scheduled',
  cooldownUntilTs: 0,
  deadlineTs: Math.ceil(nowMs / 1_000),
  reminders: 0,
})

/** `candidates` in order of `reminderMs`, as the readiness index lists them. */
export function dueReminders(
  candidates: Iterable<{ readonly task: Task; readonly readiness: Readiness; readonly reminderMs: number | null }>,
  nowMs: number,
  policy: RecoveryPolicy,
  actor: string,
) {
  const drafts: Draft[] = []
  let touched = 0
  for (const { task, readiness, reminderMs } of candidates) {
    if (touched === perStepMax || reminderMs === null || reminderMs > nowMs) break
    const need = personNeeded(task, readiness)
    if (need === null) continue
    const { taskId } = task
    const note = (entry: RecoveryEntry) => drafts.push(noted(taskId, actor, recoveryPayload(task, entry)))
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
      continue
    }
    const payload = { reason: `${noAnswer}: ${need.why}`, reasonCode: noAnswer }
    drafts.push(...(draftsTo(task, 'failed', actor, payload) ?? []))
  }
  return drafts
}
