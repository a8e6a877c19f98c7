/** Tasks as the board page shows them: columns, what needs a person, how much of a budget is used. Pure. */
import { wholeDuration } from '@bellwether/protocol/counts'
import { dollars, reasonInWords } from '@bellwether/protocol/spending'
import { personWaits } from '@bellwether/protocol/vocabulary'
import type { QueuePlace, Recovery, Task, TaskBudget } from '../api/types.js'
import { own } from './own.js'
import { boardColumns } from './status.js'
import { count, plural } from './text.js'
import { plainTimes } from './time.js'

export interface Column {
  readonly status: string
  readonly tasks: readonly Task[]
}

/** One column per status: known ones in the order of a task's life, then unknown ones. */
export function columnsOf(tasks: readonly Task[]): Column[] {
  const groups = new Map<string, Task[]>(boardColumns.map((status) => [status, []]))
  for (const task of tasks) {
    const group = groups.get(task.status)
    if (group === undefined) groups.set(task.status, [task])
    else group.push(task)
  }
  return [...groups].map(([status, group]) => ({ status, tasks: group }))
}

const personCodes: ReadonlySet<string> = new Set(personWaits)

/** Whether a person has to act. */
export function needsPerson(task: Task): boolean {
  return task.waitCode !== null && personCodes.has(task.waitCode)
}

/** The task has ended. */
export const isOver = (task: Task): boolean => task.status === 'done' || task.status === 'failed'

export interface BudgetUse {
  /** Used share of the limit, may exceed 1; null if there is no limit. */
  readonly part: number | null
  readonly label: string
}

/** The use of the nearest limit; without a limit, only the amount used. */
export function budgetUseOf(budget: TaskBudget | null): BudgetUse | null {
  if (budget === null) return null
  const { nearest, tokenUsage } = budget
  if (nearest === null) return tokenUsage === 0 ? null : { part: null, label: `${compact(tokenUsage)} tokens` }
  const { unit, used, limit, fraction } = nearest
  const label = {
    tokens: `${compact(used)} of ${compact(limit)} tokens`,
    micros: `${dollars(used)} of ${dollars(limit)}`,
    ms: `${workingTime(used)} of ${workingTime(limit)}`,
    runs: `${used} of ${plural(limit, 'run')}`,
  }[unit]
  return { part: fraction, label }
}

/** In whole seconds, as limits are. */
export const workingTime = (ms: number): string => wholeDuration(Math.round(ms / 1_000))

export function compact(number: number): string {
  if (!Number.isFinite(number)) return '–'
  if (number < 1_000) return String(Math.round(number))
  if (number < 1_000_000) return `${(number / 1_000).toFixed(number < 10_000 ? 1 : 0)}k`
  return `${(number / 1_000_000).toFixed(1)}M`
}

const recoveryWords: Readonly<Record<string, string>> = {
  human_handoff: 'handed to a person',
  escalated_to_human: 'escalated to a person',
}

type RecoveryStep = Pick<Recovery, 'action' | 'nextAssignee' | 'recoveryState'>

/** The state of the recovery, in a few words. */
export function recoveryText({ action, nextAssignee, recoveryState }: RecoveryStep): string {
  if (action === 'retry') return `next: ${nextAssignee}`
  return own(recoveryWords, recoveryState) ?? recoveryState.replaceAll('_', ' ')
}

/** The position of a ready task. */
export function positionText({ place }: QueuePlace): string {
  return place === 1 ? 'next' : `position ${count(place)}`
}

/** A reason with its leading code as words (`incomplete_output: …`) and its instants as local times. */
export function reasonText(reason: string, nowMs: number): string {
  return reasonInWords(plainTimes(reason, nowMs))
}

/** The names in a field of a task that should be a list of them. */
export const namesIn = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((one) => typeof one === 'string') : []

/** The fields of a form that differ from what it showed at first. */
export function changedFields<Fields extends object>(before: Fields, now: Fields): Partial<Fields> {
  const entries = Object.entries(now).filter(
    ([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name as keyof Fields]),
  )
  return Object.fromEntries(entries) as Partial<Fields>
}
