/** Decides what the due instants of a schedule start: which were missed, which overlap, and which instant is next. Pure. */
import type { ScheduleDefinition } from '@bellwether/protocol/http'
import type { Timing } from './timing.js'

export interface Moment {
  /** The first instant that no one has decided about. */
  readonly dueMs: number
  readonly nowMs: number
  /** The turns and tasks of the schedule that have not ended. */
  readonly open: number
}

export interface Plan {
  /** The oldest first. */
  readonly start: readonly number[]
  readonly skipped: readonly SkippedInstants[]
  readonly nextMs: number | undefined
}

interface SkippedInstants {
  /** The newest of them. */
  readonly instantMs: number
  readonly count: number
  readonly reason: 'missed' | 'overlap'
}

// An instant that is decided about within this time was not missed: a PMO may restart.
const graceMs = 60_000
// More missed instants are not counted.
const missedCountMax = 1_000

export type PlanKeys = Pick<ScheduleDefinition, 'missed' | 'missed_max' | 'overlap' | 'queue_max'>

export function planFires(timing: Timing, keys: PlanKeys, { dueMs, nowMs, open }: Moment): Plan {
  const nextMs = timing.next(nowMs)
  if (dueMs > nowMs) return { start: [], skipped: [], nextMs }
  const due = timing.latest(nowMs, missedCountMax).filter((at) => at >= dueMs)
  const wanted = due.slice(due.length - startable(keys, due, nowMs))
  const missed = due.slice(0, due.length - wanted.length)
  const room = Math.max(0, (keys.overlap === 'skip' ? 1 : keys.queue_max) - open)
  // The newest instant replaces what is open, and the instants before it.
  const start = keys.overlap === 'replace' ? wanted.slice(-1) : wanted.slice(0, room)
  const overlapping = wanted.filter((at) => !start.includes(at))
  return { start, skipped: [...entry(missed, 'missed'), ...entry(overlapping, 'overlap')], nextMs }
}

/** How many of the newest due instants the schedule wants to start. */
function startable({ missed, missed_max: max }: PlanKeys, due: readonly number[], nowMs: number): number {
  const newest = due.at(-1)
  if (newest === undefined) return 0
  if (missed === 'all') return Math.min(max, due.length)
  return missed === 'latest' || nowMs - newest <= graceMs ? 1 : 0
}

function entry(instants: readonly number[], reason: SkippedInstants['reason']): SkippedInstants[] {
  const instantMs = instants.at(-1)
  return instantMs === undefined ? [] : [{ instantMs, count: instants.length, reason }]
}
