/** What pages show about a schedule: when it fires, what it starts, what became of an instant. Pure. */
import type { Fire, Schedule } from '../api/types.js'
import { own } from './own.js'

export interface ScheduleKeys {
  readonly description?: string
  readonly cron?: string
  readonly every?: string
  readonly time_zone?: string
  readonly missed?: string
  readonly missed_max?: number
  readonly overlap?: string
  readonly queue_max?: number
  readonly agent?: string
  readonly instruction?: string
  readonly task?: { readonly title: string; readonly instruction?: string; readonly agent?: string }
}

export const keysOf = ({ definition }: Pick<Schedule, 'definition'>): ScheduleKeys => definition ?? {}

export function whenOf(schedule: Pick<Schedule, 'definition'>): string {
  const { cron, every, time_zone: zone = 'UTC' } = keysOf(schedule)
  if (every !== undefined) return `every ${every}`
  return cron === undefined ? '–' : `${cron} (${zone})`
}

export function startsOf(schedule: Pick<Schedule, 'definition'>): string {
  const { agent, task } = keysOf(schedule)
  if (agent === undefined && task === undefined) return 'nothing'
  return task === undefined ? `turn of ${agent}` : `task “${task.title}”`
}

/** A word of the status palette. */
export function stateOf({ paused_at: paused, problem, definition }: Schedule): 'paused' | 'failed' | 'active' {
  if (paused !== null) return 'paused'
  return problem !== null && definition === null ? 'failed' : 'active'
}

export function resultOf({ status, reason, skipped, outcome }: Fire): string {
  if (status === 'skipped') {
    const why = reason === 'missed' ? 'missed while nothing ran' : 'an earlier one was open'
    return skipped > 1 ? `${skipped.toLocaleString('en')} skipped: ${why}` : `skipped: ${why}`
  }
  if (status === 'failed') return `failed: ${reason ?? ''}`
  return outcome ?? (status === 'waiting' ? 'waits for the board' : 'open')
}

/** What happens to instants that passed while nothing ran, and to one that comes while an earlier turn or task is open. */
export const missedWords: Readonly<Record<string, string>> = {
  skip: 'skip it',
  latest: 'start the latest',
  all: 'start all',
}
export const overlapWords: Readonly<Record<string, string>> = {
  skip: 'skip it',
  queue: 'queue it',
  replace: 'replace the open turn',
}

export function policyText(words: typeof missedWords, policy: string | undefined, most: number | undefined): string {
  const text = policy === undefined ? undefined : (own(words, policy) ?? policy)
  if (text === undefined) return '–'
  return most !== undefined && (policy === 'all' || policy === 'queue') ? `${text}, at most ${most}` : text
}
