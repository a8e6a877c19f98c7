/**
 * Finds the message of a coding agent that its account has reached a limit, and the reset that it names. Pure. The messages are those of
 * Claude Code, Codex and Gemini; docs/how-to/work-within-quotas.md lists them.
 */
import { defined } from '@bellwether/base'
import { bodyResetMs, durationMs } from '../../ports/model/reset.js'

export interface ReachedLimit {
  /** The line that names the limit. */
  readonly reason: string
  /** Absent if the program does not say when the limit ends. */
  readonly until?: Date
}

const reached = new RegExp(
  [
    // Claude: "Claude AI usage limit reached|1753441200", "5-hour limit reached ∙ resets 3pm", "You've hit your limit · resets 3:30am (Asia/Calcutta)".
    // Gemini: "Usage limit reached for all Pro models.", "You have reached your daily gemini-2.5-pro quota limit."
    String.raw`(?:usage|5-hour|session|weekly|daily|opus|sonnet) limit reached`,
    String.raw`(?:hit|reached) your (?:[\w.-]+ ){0,4}limit`,
    // Codex: "You've hit your usage limit. … try again in 2 days 17 hours 14 minutes.", and the error of its API.
    String.raw`usage_limit_reached|usage limit has been reached`,
    // Gemini: "You have exhausted your capacity on this model. Your quota will reset after 2h19m37s.", and the error of its API.
    String.raw`exhausted your (?:capacity|daily quota)|quota exceeded for|exceeded your current quota|RESOURCE_EXHAUSTED`,
  ].join('|'),
  'i',
)

export const reasonMaxChars = 300

// Gemini repeats the request itself: "Attempt 1 failed: You have exhausted your capacity … Retrying after 6173ms..."
const repeated = /^.*\bRetrying after .*$/gim

/** `printed`: what the program printed about its failure. `timeZone`: the one of the machine that runs it. */
export function limitIn(printed: string, nowMs: number, timeZone?: string): ReachedLimit | undefined {
  const text = printed.replaceAll(repeated, '')
  const at = reached.exec(text)
  if (at === null) return undefined
  const lineFrom = text.lastIndexOf('\n', at.index) + 1
  const lineTo = text.indexOf('\n', at.index)
  const reason = text
    .slice(lineFrom, lineTo < 0 ? undefined : lineTo)
    .trim()
    .slice(0, reasonMaxChars)
  const untilMs = resetIn(text.slice(lineFrom), nowMs, timeZone)
  return untilMs === undefined ? { reason } : { reason, until: new Date(untilMs) }
}

// Limits of these programs end sooner: a later time is something else.
const farMs = 400 * 86_400_000

function resetIn(text: string, nowMs: number, timeZone: string | undefined): number | undefined {
  const stamp = /limit reached\|(\d{10,13})\b/.exec(text)?.[1]
  const found =
    (stamp && Number(stamp.padEnd(13, '0'))) ||
    (bodyResetMs(text, nowMs) && nowMs + bodyResetMs(text, nowMs)) ||
    inDuration(text, nowMs) ||
    atClockTime(text, nowMs, timeZone)
  return found !== undefined && found > nowMs && found < nowMs + farMs ? found : undefined
}

/** "try again in 2 days 17 hours", "will reset after 2h19m37s.", "retry in 34.07s", "quota reset within 24h". */
function inDuration(text: string, nowMs: number): number | undefined {
  const words =
    /(?:try again in|retry in|resets? in|reset (?:after|within))\s+((?:\d+(?:\.\d+)?\s*[a-z]+[\s,]*)+)/i.exec(text)?.[1]
  const ms = words === undefined ? 0 : durationMs(words.trim())
  return ms === 0 ? undefined : nowMs + ms
}

const months = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec']

const minuteMs = 60_000
const clockTime = new RegExp(
  [
    String.raw`(?:resets?(?: at)?|try again at)\s+`,
    String.raw`(?:(?<month>[a-z]{3})[a-z]*\.? (?<day>\d{1,2})(?:st|nd|rd|th)?,?\s+(?:(?<year>\d{4}),?\s+)?(?:at )?)?`,
    String.raw`(?<hour>\d{1,2})(?::(?<minute>\d\d))?(?:\s*(?<half>[ap]m)|(?<=:\d\d)(?!\d))`,
    String.raw`(?:\s*\((?<zone>[\w+/-]+)\)|\s+(?<offset>UTC|GMT)(?<sign>[+-])?(?<hours>\d{1,2})?(?::(?<minutes>\d\d))?)?`,
  ].join(''),
  'i',
)

/** "resets 3pm", "resets Oct 9 at 5pm", "will reset at 3:30am (Asia/Calcutta)", "resets at 10:57 PM GMT-3", "try again at Nov 20th, 2026 3:05 PM". */
function atClockTime(text: string, nowMs: number, timeZone: string | undefined): number | undefined {
  const parts = clockTime.exec(text)?.groups
  if (parts === undefined) return undefined
  const { month, day, year, hour = '', minute = '0', half } = parts
  const monthAt = month === undefined ? undefined : months.indexOf(month.toLowerCase())
  if (monthAt === -1 || Number(hour) > (half === undefined ? 23 : 12)) return undefined
  const hour24 = half === undefined ? Number(hour) : (Number(hour) % 12) + (half.toLowerCase() === 'pm' ? 12 : 0)
  const zone = zoneOf(parts, timeZone)
  const local = localParts(nowMs, zone)
  const wall = Date.UTC(
    year === undefined ? local.year : Number(year),
    monthAt ?? local.month,
    day === undefined ? local.day : Number(day),
    hour24,
    Number(minute),
  )
  const at = instantOf(wall, zone)
  if (at > nowMs) return at
  // Codex names the minute of the reset without its seconds.
  if (at > nowMs - minuteMs) return at + minuteMs
  if (year !== undefined) return at
  // The clock time of tomorrow, or the date of next year.
  const next = new Date(wall)
  if (monthAt === undefined) next.setUTCDate(next.getUTCDate() + 1)
  else next.setUTCFullYear(next.getUTCFullYear() + 1)
  return instantOf(next.getTime(), zone)
}

/** A name, or the milliseconds that the clocks of the zone are ahead of UTC. Undefined: the zone of this machine. */
type Zone = string | number | undefined

/** The zone that the message names, else the one of the machine. */
function zoneOf(parts: Readonly<Record<string, string | undefined>>, timeZone: string | undefined): Zone {
  const { zone, offset, sign, hours = '0', minutes = '0' } = parts
  if (offset !== undefined) return (sign === '-' ? -60_000 : 60_000) * (Number(hours) * 60 + Number(minutes))
  return zone !== undefined && isTimeZone(zone) ? zone : timeZone
}

function isTimeZone(name: string): boolean {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }).format(0) !== ''
  } catch (error) {
    if (error instanceof RangeError) return false
    throw error
  }
}

function localParts(ms: number, timeZone: Zone) {
  if (typeof timeZone === 'number') {
    const local = new Date(ms + timeZone)
    const [year, month, day] = [local.getUTCFullYear(), local.getUTCMonth(), local.getUTCDate()]
    return { year, month, day, wall: Math.floor(local.getTime() / 1_000) * 1_000 }
  }
  const format = new Intl.DateTimeFormat('en-CA', {
    ...defined({ timeZone }),
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  })
  const part = Object.fromEntries(format.formatToParts(ms).map(({ type, value }) => [type, Number(value)]))
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = part
  return { year, month: month - 1, day, wall: Date.UTC(year, month - 1, day, hour, minute, second) }
}

/** The instant at which clocks of the zone show `wall`. */
function instantOf(wall: number, timeZone: Zone): number {
  const offset = (ms: number) => localParts(ms, timeZone).wall - Math.floor(ms / 1_000) * 1_000
  const near = wall - offset(wall)
  return wall - offset(near)
}
