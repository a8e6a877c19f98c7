/** Formats times. Pure; every result has a bounded length, so that the layout does not move when a second passes. */
import { wholeDuration } from '@bellwether/protocol/counts'

export { duration } from '@bellwether/protocol/counts'

const second = 1_000
const minute = 60 * second
const hour = 60 * minute
const day = 24 * hour

export const msOf = (iso: string | null | undefined): number | null => {
  if (iso === null || iso === undefined) return null
  const ms = Date.parse(iso)
  return Number.isNaN(ms) ? null : ms
}

/** The length of a wait: whole seconds, and from ten minutes on whole minutes, because the seconds do not matter then. */
export function span(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / second))
  return wholeDuration(seconds < 600 ? seconds : seconds - (seconds % 60))
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
  if (left <= 0) return { text: `${span(-left)} late`, urgency: 'late' }
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

// Made once: each new one costs more than the text of a page.
const timed = new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium' })
const dated = new Intl.DateTimeFormat('en-CA', { dateStyle: 'short' })
const named = new Intl.DateTimeFormat('en-GB', { hour: 'numeric', timeZoneName: 'short' })

/** The browser's time zone at that time, such as CET. */
export const zoneOf = (atMs: number): string =>
  named.formatToParts(atMs).find(({ type }) => type === 'timeZoneName')?.value ?? ''

/** Local time of day without its zone, for lists and axes that name it once. */
export function timeOfDay(iso: string): string {
  const at = msOf(iso)
  return at === null ? '–' : timed.format(at)
}

/** Local date, time and time zone. */
export function instant(iso: string | null | undefined): string {
  const at = msOf(iso)
  return at === null ? '–' : `${dated.format(at)} ${timed.format(at)} ${zoneOf(at)}`
}

/** Local time of day with its zone; with the date when it was not today. */
export function clockTime(iso: string | null | undefined, nowMs: number): string {
  const at = msOf(iso)
  if (at === null) return '–'
  return dated.format(nowMs) === dated.format(at) ? `${timed.format(at)} ${zoneOf(at)}` : instant(iso)
}
