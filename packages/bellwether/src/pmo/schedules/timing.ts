/**
 * When a schedule fires: the instants of a cron expression in a time zone, or of an interval. Pure. A local time that does not exist
 * or exists twice follows the rule of Vixie cron, which docs/how-to/run-on-a-schedule.md states.
 */
import { errorMessage } from '@bellwether/base'
import type { ScheduleDefinition } from '@bellwether/protocol/http'
import { Cron } from 'croner'
import { editDistance } from '../../settings/nearest.js'

export interface Timing {
  /** The first instant after this time. Undefined: there is none. */
  next(afterMs: number): number | undefined
  /** The newest instants up to this time, at most `max`, the oldest of them first. */
  latest(upToMs: number, max: number): readonly number[]
}

/** Why a definition has no timing: the key, and what is wrong with its value. */
export interface TimingProblem {
  readonly key: 'cron' | 'every' | 'time_zone' | 'start'
  readonly problem: string
}

export type TimingKeys = Pick<ScheduleDefinition, 'cron' | 'every' | 'start' | 'time_zone'>

const unitMs = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const
// Each instant starts a turn or a task: shorter intervals are a loop, which an agent does better.
const everyMinMs = 10_000
const everyMaxMs = 366 * unitMs.d
const intervalExample = 'for example every = "15m"'
const cronExample =
  'Write five fields (minute, hour, day of month, month, day of week), for example cron = "30 2 * * 1-5"'

export function timingOf(keys: TimingKeys): Timing | TimingProblem {
  const zone = keys.time_zone
  if (!isZone(zone))
    return {
      key: 'time_zone',
      problem: `${JSON.stringify(zone)} is not an IANA time zone; did you mean "${nearestZone(zone)}"? For example time_zone = "Europe/Berlin"`,
    }
  const startMs = keys.start === undefined ? undefined : Date.parse(keys.start)
  const timing = keys.every === undefined ? cronTiming(keys.cron ?? '', zone) : intervalTiming(keys.every, startMs ?? 0)
  return 'problem' in timing || startMs === undefined ? timing : from(timing, startMs)
}

/** The timing without instants before `startMs`. */
function from(timing: Timing, startMs: number): Timing {
  return {
    next: (afterMs) => timing.next(Math.max(afterMs, startMs - 1)),
    latest: (upToMs, max) => timing.latest(upToMs, max).filter((at) => at >= startMs),
  }
}

/** `90s`, `15m`, `6h`, `1d`, or several of them as in `1h30m`. */
function intervalMs(text: string): number | undefined {
  if (!/^(?:\d{1,9}[smhd])+$/.test(text)) return undefined
  let sum = 0
  for (const [, count, unit] of text.matchAll(/(\d+)([smhd])/g))
    sum += Number(count) * unitMs[unit as keyof typeof unitMs]
  return sum
}

function intervalTiming(every: string, startMs: number): Timing | TimingProblem {
  const stepMs = intervalMs(every)
  if (stepMs === undefined)
    return {
      key: 'every',
      problem: `${JSON.stringify(every)} is not an interval: write a number and s, m, h or d, ${intervalExample}`,
    }
  if (stepMs < everyMinMs || stepMs > everyMaxMs)
    return { key: 'every', problem: `${JSON.stringify(every)} must be from 10s to 366d, ${intervalExample}` }
  const before = (ms: number) => startMs + Math.floor((ms - startMs) / stepMs) * stepMs
  return {
    next: (afterMs) => before(afterMs) + stepMs,
    latest(upToMs, max) {
      const last = before(upToMs)
      return Array.from({ length: max }, (_, at) => last - (max - 1 - at) * stepMs)
    },
  }
}

// No calendar repeats later: February 29 on a given weekday comes back within 40 years.
const lastYear = 2_200

function cronTiming(text: string, zone: string): Timing | TimingProblem {
  const wrong = (why: string): TimingProblem => ({
    key: 'cron',
    problem: `${JSON.stringify(text)} ${why}. ${cronExample}`,
  })
  const fields = text.trim().split(/\s+/).length
  if (!text.trim().startsWith('@') && fields !== 5) return wrong(`has ${fields} fields`)
  let cron: Cron
  try {
    cron = new Cron(text.trim(), { timezone: zone, mode: '5-part', paused: true })
  } catch (error) {
    return wrong(
      `is not a cron expression: ${errorMessage(error)
        .replace(/^\w+: /, '')
        .replace(/\.$/, '')}`,
    )
  }
  const next = (afterMs: number): number | undefined => {
    const found = cron.nextRun(new Date(afterMs))?.getTime()
    return found === undefined || found >= Date.UTC(lastYear) ? undefined : found
  }
  if (next(0) === undefined) return wrong('never matches a date')
  return {
    next,
    latest: (upToMs, max) =>
      cron
        // The reference itself is not included.
        .previousRuns(max, new Date(upToMs + 1_000))
        .map((one) => one.getTime())
        .filter((at) => at <= upToMs)
        .sort((one, other) => one - other),
  }
}

function isZone(name: string): boolean {
  // Offsets such as +01:00 are not zones: they have no daylight saving time.
  if (!/^[A-Za-z][A-Za-z0-9_+/-]*$/.test(name)) return false
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone !== ''
  } catch (error) {
    if (error instanceof RangeError) return false
    throw error
  }
}

function nearestZone(typed: string): string {
  const distance = (name: string) => editDistance(typed.slice(0, 64).toLowerCase(), name.toLowerCase())
  return Intl.supportedValuesOf('timeZone').reduce(
    (best, name) => (distance(name) < distance(best) ? name : best),
    'UTC',
  )
}
