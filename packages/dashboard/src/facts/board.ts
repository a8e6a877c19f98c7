/** Tasks of the board, as people look at them: columns, what needs a person, how much of a budget is gone. Pure. */
import type { Budget, Recovery, Task } from '../api/places.js'
import { own } from './own.js'
import { boardColumns } from './status.js'

export interface Column {
  readonly status: string
  readonly tasks: readonly Task[]
}

/** One column for each status, known ones in the order of a task's life; those that nobody knows last. */
export function columnsOf(tasks: readonly Task[]): Column[] {
  const groups = new Map<string, Task[]>(boardColumns.map((status) => [status, []]))
  for (const task of tasks) {
    const group = groups.get(task.status)
    if (group === undefined) groups.set(task.status, [task])
    else group.push(task)
  }
  return [...groups].map(([status, group]) => ({ status, tasks: group }))
}

const personCodes: ReadonlySet<string> = new Set(['approval', 'review', 'held', 'person'])

/** Whether a person has to act. A server that tells codes is believed; otherwise the words are read. */
export function needsPerson(task: Task): boolean {
  if (task.status === 'done' || task.status === 'failed') return false
  if (task.waitCode !== undefined && task.waitCode !== null) return personCodes.has(task.waitCode)
  if (task.status === 'review') return true
  const why = task.waitsFor ?? ''
  if (/needs an approval|waits for a (?:person|review)/.test(why)) return true
  return task.status === 'blocked' && !/may try again|waits for .*, which|froze it|aborted it|is at it since/.test(why)
}

export interface Burn {
  /** 0 to 1 and beyond; null: no limit is known. */
  readonly part: number | null
  readonly label: string
}

/** The limit that is nearest. */
export function burnOf(budget: Budget | null | undefined): Burn | null {
  if (budget === null || budget === undefined) return null
  const { maxTaskTokens: tokens, maxTaskWallTimeSec: seconds, maxTaskRetries: tries } = budget.limits ?? {}
  const of = (used: number, most: number | null | undefined, unit: string) =>
    most === null || most === undefined || most <= 0
      ? []
      : [{ part: used / most, label: `${compact(used)} of ${compact(most)} ${unit}` }]
  const burns = [
    ...of(budget.tokenUsage, tokens, 'tokens'),
    ...of(budget.elapsedMs / 1_000, seconds, 'seconds'),
    ...of(budget.retryCount ?? 0, tries, 'tries'),
  ]
  const [first] = burns.sort((one, other) => other.part - one.part)
  return first ?? { part: null, label: `${compact(budget.tokenUsage)} tokens` }
}

export function compact(number: number): string {
  if (!Number.isFinite(number)) return '–'
  if (number < 1_000) return String(Math.round(number))
  if (number < 1_000_000) return `${(number / 1_000).toFixed(number < 10_000 ? 1 : 0)}k`
  return `${(number / 1_000_000).toFixed(1)}M`
}

/** Millionths of a dollar. */
export function cost(micros: number | null | undefined): string {
  if (micros === null || micros === undefined) return ''
  return `$${(micros / 1_000_000).toFixed(micros < 1_000_000 ? 3 : 2)}`
}

const recoveryWords: Readonly<Record<string, string>> = {
  recovery_scheduled: 'will be tried again',
  human_handoff: 'handed to a person',
  escalated_to_human: 'escalated to a person',
}

export function recoverySays(recovery: Recovery): string {
  const what = own(recoveryWords, recovery.recoveryState) ?? recovery.recoveryState
  const who = recovery.action === 'retry' ? ` by ${recovery.nextAssignee}` : ''
  return `${what}${who}`
}

/** From a task's own fields, for servers that do not tell it in one. The latest decision speaks. */
export function recoveryIn(fields: Readonly<Record<string, unknown>>): Recovery | null {
  const all = entriesIn<Recovery>(fields['recovery'], 'recoveryState')
  return all.sort((one, other) => other.deadlineTs - one.deadlineTs)[0] ?? null
}

export function budgetIn(fields: Readonly<Record<string, unknown>>): Budget | null {
  const all = entriesIn<Budget>(fields['budget'], 'tokenUsage')
  return all.sort((one, other) => other.tokenUsage - one.tokenUsage)[0] ?? null
}

function entriesIn<T>(value: unknown, mark: string): T[] {
  if (typeof value !== 'object' || value === null) return []
  if (mark in value) return [value as T]
  return Object.values(value).filter((one) => typeof one === 'object' && one !== null && mark in one) as T[]
}
