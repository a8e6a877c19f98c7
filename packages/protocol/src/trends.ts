/**
 * What the Trends page, the command line and the server share: the ranges of time with their bars, the charts, and a chart as CSV. Pure,
 * without zod, so that a browser loads little.
 */

export interface TrendRange {
  readonly barSeconds: number
  readonly bars: number
  /** The stored bucket that the bars are made of. */
  readonly grainSeconds: number
}

const minute = 60
const hour = 60 * minute
const day = 24 * hour

/** Bars begin at whole multiples of their length in UTC. The last bar contains the present. */
export const trendRanges = {
  '1h': { barSeconds: 5 * minute, bars: 12, grainSeconds: 5 * minute },
  '6h': { barSeconds: 15 * minute, bars: 24, grainSeconds: 5 * minute },
  '24h': { barSeconds: hour, bars: 24, grainSeconds: hour },
  '7d': { barSeconds: 6 * hour, bars: 28, grainSeconds: hour },
  '30d': { barSeconds: day, bars: 30, grainSeconds: day },
  '90d': { barSeconds: day, bars: 90, grainSeconds: day },
} as const satisfies Readonly<Record<string, TrendRange>>

export type TrendRangeName = keyof typeof trendRanges
export const trendRangeNames = Object.keys(trendRanges) as [TrendRangeName, ...TrendRangeName[]]

export const trendCharts = [
  'turns',
  'queue_depth',
  'queue_time',
  'run_time',
  'cost_by_agent',
  'cost_by_model',
  'tokens',
  'interventions',
  'workers',
] as const
export type TrendChart = (typeof trendCharts)[number]

export const trendUnits = ['turns', 'ms', 'micros', 'tokens', 'interventions', 'slots'] as const
export type TrendUnit = (typeof trendUnits)[number]

/** The series that stands for all agents or models but the largest, and for steps that name no model. */
export const otherSeries = '(others)'
export const unnamedSeries = '(no name)'

interface CsvChart {
  readonly chart: string
  readonly unit: string
  readonly series: readonly { readonly name: string; readonly values: readonly (number | null)[] }[]
}

/** One line per series and bar. A bar without a sample has an empty value. */
export function trendsCsv(bars: readonly string[], charts: readonly CsvChart[]): string {
  const lines = charts.flatMap(({ chart, unit, series }) =>
    series.flatMap(({ name, values }) => bars.map((at, bar) => [chart, cell(name), unit, at, values[bar] ?? ''])),
  )
  return [['chart', 'series', 'unit', 'starts_at', 'value'], ...lines].map((line) => `${line.join(',')}\r\n`).join('')
}

/** The name of a model is text of a program: quoted, without control characters, and never a formula of a spreadsheet. */
function cell(text: string): string {
  const line = text.replaceAll(/\p{Cc}/gu, ' ')
  // Some spreadsheets separate cells at other characters too, and take the wide forms of these signs for the narrow ones.
  const safe = line.replaceAll(/(^|[,;|])(?=\s*[=+\-@＝＋－＠])/gu, "$1'")
  return /[",]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}
