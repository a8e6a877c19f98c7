/**
 * Decides who retries a failed task: the same agent if the policy says so, the next agent of the chain, and finally a human. Attempts count per task
 * and reason over the whole chain and never exceed maxAttempts + 1; every hop has a deadline and a successor. Pure: the decision depends on the
 * policy, the last decision in the log, the failure and the time.
 */
import { defined } from '@bellwether/base'
import {
  flag,
  integer,
  list,
  number,
  object,
  oneOf,
  optional,
  partial,
  strictObject,
  text,
  valid,
  withDefault,
  type ValueOf,
} from '../../settings/shape.js'
import type { Task } from '../log/task.js'
import { entryKey, isoSeconds, recordField, type Named } from './entries.js'
import { bounds, nameMap, roleName, type PolicyFile } from './shape.js'

export const recoveryCacheFile = 'state/recovery.state.json'
export const human = 'human'

/** The reasons that need recovery; other reasons use the default rule. */
export const triggers = ['spawn_failed', 'incomplete_output', 'blocked_signal'] as const
const recoveryStates = { retry: 'recovery_scheduled', human: 'human_handoff', escalate: 'escalated_to_human' } as const

const rule = strictObject({ maxAttempts: bounds.count(1, 1_000), cooldownSec: bounds.seconds(0) })
type Rule = ValueOf<typeof rule>

const policyShape = strictObject({
  /** The agents in order; a human is always last. A longer chain is a mistake. */
  recoveryChain: list(roleName, 1, 16),
  /** Whether the agent that failed tries once more, with what failed, before the chain continues. */
  sameAgentFirst: flag,
  default: rule,
  reasonPolicies: nameMap(partial(rule)),
  /** The deadline of each hop; `default` for those that are not named. */
  hops: nameMap(strictObject({ deadlineSec: optional(bounds.seconds(1)) })),
  /** How often a human is reminded before the task fails. */
  humanReminders: bounds.count(0, 100),
})
export type RecoveryPolicy = ValueOf<typeof policyShape>
export const recoveryShape = partial(strictObject({ ...policyShape.fields, default: partial(rule) }))

export const defaultRecovery: RecoveryPolicy = {
  recoveryChain: ['coder', 'debugger', 'invest-analyst', human],
  sameAgentFirst: false,
  default: { maxAttempts: 2, cooldownSec: 180 },
  reasonPolicies: { incomplete_output: { cooldownSec: 120 }, merge_conflict: { cooldownSec: 0 } },
  hops: { default: { deadlineSec: 3_600 }, human: { deadlineSec: 86_400 } },
  humanReminders: 3,
}

export const recoveryFile: PolicyFile<RecoveryPolicy> = {
  path: 'config/recovery-policy.json',
  shape: recoveryShape,
  defaults: defaultRecovery,
  about: 'Who retries a failed task, in order, how often, and after which pause. A human is always last.',
}

/** One entry of state/recovery.state.json, and of `recovery` in a task's fields: the last decision. */
const entryShape = object({
  taskId: text(),
  reasonCode: text(),
  attempt: integer(0),
  nextAssignee: text({ min: 1 }),
  action: oneOf(['retry', 'human', 'escalate']),
  recoveryState: oneOf(['recovery_scheduled', 'human_handoff', 'escalated_to_human']),
  /** Seconds since the epoch; 0: no cool-down. */
  cooldownUntilTs: number(0),
  /**
   * Seconds since the epoch: until then `nextAssignee` has the task, then `overdue` decides. Roots written by other programs have no
   * deadline: it counts as passed.
   */
  deadlineTs: withDefault(number(0), 0),
  /** How often the human was reminded. */
  reminders: withDefault(integer(0), 0),
})
export type RecoveryEntry = Readonly<ValueOf<typeof entryShape>>

export interface TaskFailure {
  readonly taskId: string
  readonly reasonCode: string
  readonly assignee: string | null
}

/** The output fields of dispatch and autopilot, with the entry to record. */
export interface RecoveryDecision extends Pick<
  RecoveryEntry,
  'reasonCode' | 'attempt' | 'nextAssignee' | 'action' | 'recoveryState'
> {
  readonly cooldownActive: boolean
  readonly cooldownUntil: string | null
  readonly entry: RecoveryEntry
  /** The reason of the blocked task: `recovery_pending:<nextAssignee>` before a retry, else the reason code. */
  readonly blockedReason: string
}

/** What happens to a hop after its deadline. */
export type Overdue =
  | { readonly what: 'in_time' }
  | { readonly what: 'moved' | 'reminded'; readonly decision: RecoveryDecision }
  | { readonly what: 'given_up'; readonly reason: 'human_deadline_passed'; readonly entry: RecoveryEntry }

export function ruleFor(policy: RecoveryPolicy, reasonCode: string): Rule {
  const own = Object.hasOwn(policy.reasonPolicies, reasonCode) ? policy.reasonPolicies[reasonCode] : undefined
  return { ...policy.default, ...defined(own ?? {}) }
}

export function deadlineSecOf(policy: RecoveryPolicy, assignee: string): number {
  const of = (name: string) => (Object.hasOwn(policy.hops, name) ? policy.hops[name]?.deadlineSec : undefined)
  return of(assignee) ?? of('default') ?? 3_600
}

/** The successor of `assignee`. An assignee outside the chain is followed by its first agent, the last by a human. */
export function nextInChain(policy: RecoveryPolicy, assignee: string | null): string {
  const chain = [...policy.recoveryChain.filter((name) => name !== human), human]
  const at = chain.indexOf((assignee ?? '').trim().toLowerCase())
  return chain[at + 1] ?? human
}

function firstHop(policy: RecoveryPolicy, assignee: string | null): string {
  return policy.sameAgentFirst && assignee !== null && assignee !== human ? assignee : nextInChain(policy, assignee)
}

function decide(
  policy: RecoveryPolicy,
  last: RecoveryEntry | undefined,
  failure: TaskFailure,
  nowMs: number,
): RecoveryEntry {
  const { maxAttempts, cooldownSec } = ruleFor(policy, failure.reasonCode)
  const attempt = Math.min((last?.attempt ?? 0) + 1, maxAttempts + 1)
  const hop = attempt === 1 ? firstHop(policy, failure.assignee) : nextInChain(policy, failure.assignee)
  const action = attempt > maxAttempts ? 'escalate' : hop === human ? 'human' : 'retry'
  const nextAssignee = action === 'retry' ? hop : human
  const nowTs = Math.ceil(nowMs / 1_000)
  const cooldownUntilTs = cooldownSec > 0 ? nowTs + Math.ceil(cooldownSec) : 0
  return {
    taskId: failure.taskId,
    reasonCode: failure.reasonCode,
    attempt,
    nextAssignee,
    action,
    recoveryState: recoveryStates[action],
    cooldownUntilTs,
    // The deadline counts from the end of the cool-down.
    deadlineTs: Math.max(nowTs, cooldownUntilTs) + Math.ceil(deadlineSecOf(policy, nextAssignee)),
    reminders: 0,
  }
}

const cooling = (entry: RecoveryEntry, nowMs: number) => nowMs < entry.cooldownUntilTs * 1_000

function decisionOf(entry: RecoveryEntry, cooldownActive: boolean): RecoveryDecision {
  const { reasonCode, attempt, nextAssignee, action, recoveryState, cooldownUntilTs } = entry
  return {
    reasonCode,
    attempt,
    nextAssignee,
    action,
    recoveryState,
    cooldownActive,
    cooldownUntil: cooldownUntilTs > 0 ? isoSeconds(cooldownUntilTs) : null,
    entry,
    blockedReason: action === 'retry' ? `recovery_pending:${nextAssignee}` : reasonCode,
  }
}

/** `last`: the earlier decision for this task and reason (`recoveryOf`). */
export function recover(
  policy: RecoveryPolicy,
  last: RecoveryEntry | undefined,
  failure: TaskFailure,
  nowMs: number,
): RecoveryDecision {
  if (last !== undefined && cooling(last, nowMs)) return decisionOf(last, true)
  return decisionOf(decide(policy, last, failure, nowMs), false)
}

/** As `recover`, but the agent that failed tries again: it knows the work best. */
export function recoverSame(
  policy: RecoveryPolicy,
  last: RecoveryEntry | undefined,
  failure: TaskFailure & { readonly assignee: string },
  nowMs: number,
): RecoveryDecision {
  const recoveryChain = [failure.assignee, human]
  return recover({ ...policy, recoveryChain }, last, { ...failure, assignee: null }, nowMs)
}

/** Decides about a hop at `nowMs`: past its deadline, the next hop follows. */
export function overdue(policy: RecoveryPolicy, entry: RecoveryEntry, nowMs: number): Overdue {
  if (nowMs < entry.deadlineTs * 1_000) return { what: 'in_time' }
  if (entry.nextAssignee !== human) {
    const failure = { taskId: entry.taskId, reasonCode: entry.reasonCode, assignee: entry.nextAssignee }
    return { what: 'moved', decision: decisionOf(decide(policy, entry, failure, nowMs), false) }
  }
  if (entry.reminders >= policy.humanReminders) return { what: 'given_up', reason: 'human_deadline_passed', entry }
  const reminded: RecoveryEntry = {
    ...entry,
    action: 'escalate',
    recoveryState: recoveryStates.escalate,
    reminders: entry.reminders + 1,
    deadlineTs: Math.ceil(nowMs / 1_000) + Math.ceil(deadlineSecOf(policy, human)),
  }
  return { what: 'reminded', decision: decisionOf(reminded, cooling(reminded, nowMs)) }
}

/** The current decisions for a task, by reason code. */
export function recoveriesOf(task: Task): ReadonlyMap<string, RecoveryEntry> {
  return recordField(task, 'recovery', (value) => valid(entryShape, value))
}

/** The last decision for this task and reason. */
export function recoveryOf(task: Task, reasonCode: string): RecoveryEntry | undefined {
  return recoveriesOf(task).get(reasonCode)
}

/** The part of an event's payload that records the decision. */
export function recoveryPayload(
  task: Task,
  entry: RecoveryEntry,
): { readonly recovery: Record<string, RecoveryEntry> } {
  return { recovery: { ...Object.fromEntries(recoveriesOf(task)), [entry.reasonCode]: entry } }
}

/** The payload that clears all decisions: a person took the task, or it is done. */
export const recoveryCleared = { recovery: {} } as const

/** The entries of a task in state/recovery.state.json. */
export function recoveryEntries(task: Task): readonly Named[] {
  return [...recoveriesOf(task).values()].map((entry) => [
    entryKey(task.taskId, entry.reasonCode),
    { ...entry, cooldownUntil: entry.cooldownUntilTs > 0 ? isoSeconds(entry.cooldownUntilTs) : null },
  ])
}
