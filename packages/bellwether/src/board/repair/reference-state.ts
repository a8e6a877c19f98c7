/**
 * Parses the entries of the reference's state files: keyed by `taskId|reasonCode` or `taskId|agent`, flat or nested, with or
 * without an `entries` object around them. Pure. The board's own entries, which have more fields, are recognised. An entry
 * without a count, a task or a name is invalid; nothing is guessed.
 */
import { isObject } from '@bellwether/base'
import { z } from 'zod'
import { noKinds, type BudgetEntry } from '../policies/budget.js'
import { human, type RecoveryEntry } from '../policies/recovery.js'

/** An entry with the two parts of its key. */
export interface Found {
  readonly taskId: string
  readonly name: string
  readonly value: Readonly<Record<string, unknown>>
}

const isEntry = (value: Readonly<Record<string, unknown>>): boolean =>
  ['attempt', 'nextAssignee', 'tokenUsage', 'elapsedMs', 'retryCount'].some((key) => Object.hasOwn(value, key))

const text = (value: unknown): string => (typeof value === 'string' ? value.trim() : '')

export function entriesIn(file: Readonly<Record<string, unknown>>): readonly Found[] {
  const map = isObject(file['entries']) ? file['entries'] : file
  const found: Found[] = []
  for (const [key, value] of Object.entries(map)) {
    if (!isObject(value)) continue
    if (isEntry(value)) found.push(named(key, value))
    else
      for (const [name, inner] of Object.entries(value))
        if (isObject(inner) && isEntry(inner)) found.push({ taskId: text(inner['taskId']) || key, name, value: inner })
  }
  return found
}

/** The fields of an entry take precedence over its key: a task id may contain the separator. */
function named(key: string, value: Readonly<Record<string, unknown>>): Found {
  const at = Math.max(key.lastIndexOf('|'), key.lastIndexOf('::'))
  const [left, right] = at < 0 ? [key, ''] : [key.slice(0, at), key.slice(at).replace(/^(?:\||::)/, '')]
  const name = text(value['reasonCode']) || text(value['agent']) || right
  return { taskId: text(value['taskId']) || left, name, value }
}

const count = z.number().finite().min(0)
const actions = ['retry', 'human', 'escalate'] as const
const recoveryStates = { retry: 'recovery_scheduled', human: 'human_handoff', escalate: 'escalated_to_human' } as const

const recoveryShape = z.object({
  attempt: count,
  nextAssignee: z.string().min(1).catch(human),
  action: z.enum(actions).optional().catch(undefined),
  recoveryState: z.string().optional().catch(undefined),
  cooldownUntilTs: count.optional().catch(undefined),
  cooldownUntil: z.string().nullish().catch(undefined),
})

// Seconds of this century have ten digits; a larger number is in milliseconds.
const secondsMax = 1e11

export function referenceRecovery({ taskId, name: reasonCode, value }: Found): RecoveryEntry | 'ours' | undefined {
  if (Object.hasOwn(value, 'deadlineTs')) return 'ours'
  const entry = recoveryShape.safeParse(value).data
  if (entry === undefined || taskId === '' || reasonCode === '') return undefined
  const { attempt, nextAssignee, cooldownUntilTs } = entry
  const escalated = entry.recoveryState === recoveryStates.escalate
  const action = entry.action ?? (escalated ? 'escalate' : nextAssignee === human ? 'human' : 'retry')
  const shown = Date.parse(entry.cooldownUntil ?? '') / 1_000
  const untilTs = cooldownUntilTs ?? (Number.isFinite(shown) ? shown : 0)
  return {
    taskId,
    reasonCode,
    attempt: Math.floor(attempt),
    nextAssignee,
    action,
    recoveryState: recoveryStates[action],
    cooldownUntilTs: Math.ceil(untilTs > secondsMax ? untilTs / 1_000 : untilTs),
    // The reference has no deadlines: the board sets one at its next step.
    deadlineTs: 0,
    reminders: 0,
  }
}

const budgetShape = z.object({
  tokenUsage: count.default(0),
  elapsedMs: count.default(0),
  retryCount: count.default(0),
  updatedAt: z.string().catch(''),
})

export function referenceBudget({ taskId, name, value }: Found): BudgetEntry | 'ours' | undefined {
  if (Object.hasOwn(value, 'exceededCount')) return 'ours'
  const entry = budgetShape.safeParse(value).data
  const agent = name.trim().toLowerCase()
  if (entry === undefined || taskId === '' || agent === '') return undefined
  const wholeCount = (number: number) => Math.min(Math.ceil(number), Number.MAX_SAFE_INTEGER)
  return {
    taskId,
    agent,
    tokenUsage: wholeCount(entry.tokenUsage),
    ...noKinds,
    elapsedMs: wholeCount(entry.elapsedMs),
    retryCount: wholeCount(entry.retryCount),
    exceededCount: 0,
    updatedAt: entry.updatedAt,
  }
}
