/** How a chart is drawn: its scale, the text of its values, the colour and title of its series. Pure. */
import { dollars } from '@bellwether/protocol/spending'
import { otherSeries, type TrendChart, type TrendRangeName, type TrendUnit } from '@bellwether/protocol/trends'
import type { Trends } from '../api/types.js'
import { count } from './text.js'
import { duration, timeOfDay, zoneOf } from './time.js'

const second = 1_000
const minute = 60 * second
const hour = 60 * minute

export type Chart = Trends['charts'][number]
export type Series = Chart['series'][number]

interface Face {
  readonly title: string
  readonly about: string
  /** Series add up in stacked bars; otherwise each is a line. */
  readonly isStacked: boolean
}

export const faces: Readonly<Record<TrendChart, Face>> = {
  turns: { title: 'Turns by outcome', about: 'Turns that ended', isStacked: true },
  queue_depth: { title: 'Queue depth', about: 'Queued turns of all agents, sampled once per minute', isStacked: false },
  queue_time: { title: 'Queue time', about: 'From queued to started', isStacked: false },
  run_time: { title: 'Run time', about: 'From started to ended, with waits', isStacked: false },
  cost_by_agent: { title: 'Cost by agent', about: 'What ended turns reported', isStacked: true },
  cost_by_model: { title: 'Cost by model', about: 'What ended turns reported', isStacked: true },
  tokens: { title: 'Tokens by kind', about: 'Of ended turns; input is without the cache', isStacked: true },
  interventions: { title: 'Interventions by rule', about: 'What the watchdogs did', isStacked: true },
  workers: { title: 'Worker slots', about: 'Busy and all slots, mean of one sample per minute', isStacked: false },
}

const outcomeColours: Readonly<Record<string, string>> = {
  success: 'var(--done)',
  failed: 'var(--bad)',
  timeout: 'var(--wait)',
  canceled: 'var(--rest)',
}
const coloursMax = 8

export function colourOf(chart: TrendChart, { name }: Series, at: number): string {
  if (chart === 'turns') return outcomeColours[name] ?? 'var(--rest)'
  return name === otherSeries ? 'var(--rest)' : `var(--series-${(at % coloursMax) + 1})`
}

const names: Readonly<Record<string, string>> = {
  '(no name)': 'not reported',
  cache_read: 'cache read',
  cache_write: 'cache write',
}
export const nameOf = ({ name }: Series): string => names[name] ?? name

export function valueText(unit: TrendUnit, value: number | null | undefined): string {
  if (value === null || value === undefined) return '–'
  if (unit === 'ms') return duration(value)
  if (unit === 'micros') return dollars(value)
  return count(value)
}

/** The same for an axis, where space is short. */
export function axisText(unit: TrendUnit, value: number): string {
  if (unit === 'ms') return timeText(value)
  if (unit === 'micros') return value > 0 && value < 1_000_000 ? dollars(value) : `$${short(value / 1_000_000)}`
  return short(value)
}

function timeText(ms: number): string {
  if (ms === 0) return '0'
  if (ms < second) return `${trimmed(ms)} ms`
  if (ms < minute) return `${trimmed(ms / second)} s`
  return ms < hour ? `${trimmed(ms / minute)} min` : `${trimmed(ms / hour)} h`
}

function short(value: number): string {
  if (value >= 1e9) return `${trimmed(value / 1e9)} G`
  if (value >= 1e6) return `${trimmed(value / 1e6)} M`
  if (value >= 1e4) return `${trimmed(value / 1e3)} k`
  return trimmed(value)
}
const trimmed = (value: number) => String(Number(value.toPrecision(3)))

const steps = [1, 2, 4, 5, 10]
// Up to a second as all numbers; then halves are whole seconds, minutes or hours.
const timeSteps = [
  ...[2, 4, 10, 20, 30, 60].map((count) => count * second),
  ...[2, 4, 10, 20, 30, 60].map((count) => count * minute),
  ...[2, 4, 6, 12, 24, 48, 96, 168].map((count) => count * hour),
]

/** The end of the axis: a round number; of counts at least 2, so that its middle is a count too. */
export function niceMax(most: number, unit: TrendUnit): number {
  if (!(most > 0)) return unit === 'micros' ? 1_000_000 : unit === 'ms' ? second : 2
  if (unit === 'ms' && most > second) {
    const found = timeSteps.find((step) => step >= most)
    if (found !== undefined) return found
  }
  const power = 10 ** Math.floor(Math.log10(most))
  const nice = steps.find((step) => step * power >= most)! * power
  return unit === 'ms' || unit === 'micros' ? nice : Math.max(2, nice)
}

/** The largest value of a bar: of stacked series their sum. */
export function highestOf({ chart, series }: Chart, bars: number): number {
  const { isStacked } = faces[chart]
  let most = 0
  for (let bar = 0; bar < bars; bar += 1) {
    const values = series.map(({ values: all }) => all[bar] ?? 0)
    most = Math.max(most, isStacked ? values.reduce((sum, value) => sum + value, 0) : Math.max(0, ...values))
  }
  return most
}

export interface Block {
  readonly bar: number
  /** From the bottom; 1 is the end of the axis. */
  readonly from: number
  readonly to: number
}

/** The blocks of each series, one on top of the other. */
export function blocksOf(series: readonly Series[], bars: number, max: number): readonly (readonly Block[])[] {
  const base = Array.from({ length: bars }, () => 0)
  return series.map(({ values }) =>
    values.slice(0, bars).flatMap((value, bar) => {
      if (value === null || value === 0) return []
      const from = base[bar]! / max
      base[bar]! += value
      return [{ bar, from, to: base[bar]! / max }]
    }),
  )
}

/** The path of a line through the middles of the bars, in units of one bar by `height`. Bars without a value interrupt it. */
export function pathOf(values: Series['values'], max: number, height: number): string {
  let isOpen = false
  const parts: string[] = []
  for (const [bar, value] of values.entries()) {
    if (value === null) {
      isOpen = false
      continue
    }
    const point = `${bar + 0.5} ${round(height * (1 - value / max))}`
    // A value without neighbours is a dot.
    parts.push(isOpen ? `L${point}` : `M${point}L${point}`)
    isOpen = true
  }
  return parts.join('')
}

const round = (value: number) => Math.round(value * 100) / 100

const dayBars = (range: TrendRangeName) => range === '30d' || range === '90d'

/** When a bar begins, short: a time of day; a weekday and a time; or a day in UTC. */
export function barLabel(range: TrendRangeName, start: string): string {
  if (dayBars(range)) return start.slice(5, 10)
  const time = timeOfDay(start).slice(0, 5)
  return range === '7d' ? `${new Date(start).toLocaleDateString('en-GB', { weekday: 'short' })} ${time}` : time
}

/** The time of a bar, whole. */
export function barTime(range: TrendRangeName, start: string, seconds: number): string {
  if (dayBars(range)) return `${start.slice(0, 10)} (UTC)`
  const date = new Date(start).toLocaleDateString('en-CA')
  const end = new Date(Date.parse(start) + seconds * 1_000).toISOString()
  return `${date} ${timeOfDay(start).slice(0, 5)}–${timeOfDay(end).slice(0, 5)} ${zoneOf(Date.parse(start))}`
}

/** What a bar says: "success 3, failed 1". Series without a value are left out if another has one. */
export function barText({ series, unit }: Chart, bar: number): string {
  const found = series.filter(({ values }) => (values[bar] ?? 0) !== 0)
  if (found.length === 0) return series.some(({ values }) => values[bar] === 0) ? 'nothing' : 'not measured'
  return found.map((one) => `${nameOf(one)} ${valueText(unit, one.values[bar])}`).join(', ')
}

export const isEmptyChart = ({ series }: Chart): boolean =>
  series.every(({ values }) => values.every((value) => value === null || value === 0))

export const summaryOf = ({ series, unit }: Chart): string =>
  series.length === 0 ? 'none' : series.map((one) => `${nameOf(one)} ${valueText(unit, one.total)}`).join(', ')
