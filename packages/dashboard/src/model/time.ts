/** Formats times. Pure; every result has a bounded length, so that the layout does not move when a second passes. */
const second = 1_000
const minute = 60 * second
const hour = 60 * minute
const day = 24 * hour

export const msOf = (iso: string | null | undefined): number | null => {
  if (iso === null || iso === undefined) return null
  const ms = Date.parse(iso)
  return Number.isNaN(ms) ? null : ms
}

/** 7 s, 1:05, 2:03:09, 4 d. */
export function span(ms: number): string {
  const total = Math.max(0, Math.floor(ms / second))
  if (total < 60) return `${total} s`
  const [seconds, minutes, hours] = [total % 60, Math.floor(total / 60) % 60, Math.floor(total / 3_600)]
  const two = (number: number) => String(number).padStart(2, '0')
  if (hours < 1) return `${minutes}:${two(seconds)}`
  if (hours < 48) return `${hours}:${two(minutes)}:${two(seconds)}`
  return `${Math.floor(hours / 24)} d`
}

/** A duration: 850 ms, 3.2 s, 1:05. */
export function duration(ms: number): string {
  if (!Number.isFinite(ms) || ms < 0) return '–'
  if (ms < second) return `${Math.round(ms)} ms`
  if (ms < minute) return `${(ms / second).toFixed(1)} s`
  return span(ms)
}

export type Urgency = 'none' | 'calm' | 'soon' | 'late'

export interface Countdown {
  readonly text: string
  readonly urgency: Urgency
}

/** Time until a deadline, or since it. */
export function countdown(deadline: string | null | undefined, nowMs: number): Countdown {
  const at = msOf(deadline)
  if (at === null) return { text: '–', urgency: 'none' }
  const left = at - nowMs
  if (left <= 0) return { text: `late ${span(-left)}`, urgency: 'late' }
  return { text: span(left), urgency: left < minute ? 'soon' : 'calm' }
}

/** now, 5 s ago, 3 min ago, 2 h ago, 4 d ago. */
export function ago(iso: string | null | undefined, nowMs: number): string {
  const at = msOf(iso)
  return at === null ? '–' : agoMs(nowMs - at)
}

export function agoMs(ms: number): string {
  if (ms < 2 * second) return 'now'
  if (ms < minute) return `${Math.floor(ms / second)} s ago`
  if (ms < hour) return `${Math.floor(ms / minute)} min ago`
  if (ms < 2 * day) return `${Math.floor(ms / hour)} h ago`
  return `${Math.floor(ms / day)} d ago`
}

/** Replaces ISO instants in a text by local times. */
export function plainTimes(text: string, nowMs: number): string {
  return text.replace(/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z/g, (iso) => clockTime(iso, nowMs))
}

/** Local time of day. */
export function timeOfDay(iso: string): string {
  const at = msOf(iso)
  return at === null ? '–' : new Date(at).toLocaleTimeString('en-GB')
}

/** Local date, time and time zone, for a title. */
export function instant(iso: string | null | undefined): string {
  const at = msOf(iso)
  if (at === null) return '–'
  const date = new Date(at)
  return `${date.toLocaleDateString('en-CA')} ${date.toLocaleTimeString('en-GB', { timeZoneName: 'short' })}`
}

/** Local time of day; with the date when it was not today. */
export function clockTime(iso: string | null | undefined, nowMs: number): string {
  const at = msOf(iso)
  if (at === null) return '–'
  const date = new Date(at)
  const time = date.toLocaleTimeString('en-GB')
  return new Date(nowMs).toDateString() === date.toDateString() ? time : `${date.toLocaleDateString('en-CA')} ${time}`
}
