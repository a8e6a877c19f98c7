/**
 * Whether a task waits for a person, for what, and when somebody must be told next. Pure; what is then said and written is
 * people.ts'.
 */
import { textField } from './task-fields.js'
import {
  deadlineSecOf,
  human,
  recoveryOf,
  ruleFor,
  type RecoveryEntry,
  type RecoveryPolicy,
} from '../policies/recovery.js'
import type { Readiness, WaitCode } from './ready.js'
import type { Task } from '../log/task.js'

const personCodes: ReadonlySet<WaitCode> = new Set(['approval', 'review', 'held', 'person'])

/** What a person is wanted for, under which reason code it is dated; null: nobody is. */
export function personNeeded(task: Task, told: Readiness): { readonly code: string; readonly why: string } | null {
  if (told.ready || !personCodes.has(told.code)) return null
  return { code: told.code === 'person' ? (textField(task, 'reasonCode') ?? 'blocked') : told.code, why: told.why }
}

/** Null: nobody is waited for. 0: at once, because they were not asked yet, or because the clock was set back. */
export function reminderDueMs(task: Task, told: Readiness, nowMs: number, policy: RecoveryPolicy): number | null {
  const need = personNeeded(task, told)
  if (need === null) return null
  const entry = recoveryOf(task, need.code)
  if (entry?.nextAssignee !== human || clockWasSetBack(policy, entry, nowMs)) return 0
  return entry.deadlineTs * 1_000
}

/** A date further ahead than any hop may take: the clock was set back since, and nobody waits the jump out. */
export function clockWasSetBack(policy: RecoveryPolicy, entry: RecoveryEntry, nowMs: number): boolean {
  const longestSec = deadlineSecOf(policy, human) + ruleFor(policy, entry.reasonCode).cooldownSec + 2
  return entry.deadlineTs * 1_000 - nowMs > longestSec * 1_000
}
