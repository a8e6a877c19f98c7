/** Tasks of the board, as people look at them: columns, what needs a person, how much of a budget is gone. Pure. */
import type { Budget, Place, Recovery, Task } from '../api/board-types.js'
import { own } from './own.js'
import { boardColumns } from './status.js'
import { count, plural } from './text.js'
import { plainTimes, span } from './time.js'

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

/** Whether a person has to act. */
export function needsPerson(task: Task): boolean {
  return task.waitCode !== null && personCodes.has(task.waitCode)
}

/** Nothing more comes of it by itself. */
export const isOver = (task: Task): boolean => task.status === 'done' || task.status === 'failed'

export interface Burn {
  /** 0 to 1 and beyond; null: no limit is known. */
  readonly part: number | null
  readonly label: string
}

/** The limit that is nearest; without a limit, only what was used. */
export function burnOf(budget: Budget | null): Burn | null {
  if (budget === null) return null
  const { nearest, tokenUsage } = budget
  if (nearest === null) return tokenUsage === 0 ? null : { part: null, label: `${compact(tokenUsage)} tokens` }
  const { unit, used, limit, fraction } = nearest
  const label = {
    tokens: `${compact(used)} / ${compact(limit)} tokens`,
    ms: `${span(used)} / ${span(limit)}`,
    runs: `${used} / ${plural(limit, 'try', 'tries')}`,
  }[unit]
  return { part: fraction, label: label ?? `${used} / ${limit} ${unit}` }
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
  human_handoff: 'handed to a person',
  escalated_to_human: 'escalated to a person',
}

/** How recovery stands, in few words. */
export function recoverySays({ action, nextAssignee, recoveryState }: Recovery): string {
  if (action === 'retry') return `next: ${nextAssignee}`
  return own(recoveryWords, recoveryState) ?? recoveryState.replaceAll('_', ' ')
}

/** 1 is next; the others are told by their place. */
export function placeSays({ place }: Place): string {
  return place === 1 ? 'next' : `${count(place)} in line`
}

/** A code at the beginning of a reason, as words (`incomplete_output: …`), and its instants as times of day. */
export function reasonSays(reason: string, nowMs: number): string {
  return plainTimes(reason, nowMs).replace(/^[a-z]+(?:_[a-z]+)+(?=:|$)/, (code) => code.replaceAll('_', ' '))
}
