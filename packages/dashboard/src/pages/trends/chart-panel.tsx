/**
 * One chart: its legend with totals, the plot, and the same numbers as a table. The arrow keys move from bar to bar, and the value of a
 * bar is announced; Enter or a click opens what the bar counts.
 */
import { defined } from '@bellwether/base'
import { trendsCsv } from '@bellwether/protocol/trends'
import { Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import type { Trends } from '../../api/types.js'
import {
  barLabel,
  barText,
  barTime,
  colourOf,
  faces,
  isEmptyChart,
  nameOf,
  summaryOf,
  valueText,
  type Chart,
  type Series,
} from '../../model/chart.js'
import { oneLine } from '../../model/text.js'
import { saveText } from '../../ports/download.js'
import { Plot } from './plot.js'

interface PanelProps {
  readonly project: string
  readonly trends: Trends
  readonly chart: Chart
}

export function ChartPanel({ project, trends, chart }: PanelProps) {
  const [isTable, setTable] = useState(false)
  const { title, about } = faces[chart.chart]
  const isAll = trends.agent !== null && !chart.by_agent
  return (
    <section className="panel flex h-[298px] min-w-0 flex-col" aria-label={title}>
      <header className="flex items-center gap-3 border-b border-line px-3 py-1.5">
        <h2 className="flex-1 font-semibold" title={about}>
          {title}
          {isAll && <span className="ml-2 text-sm font-normal text-ink-3">all agents</span>}
        </h2>
        <button
          type="button"
          className="link text-sm"
          onClick={() => saveText(`${project}-${chart.chart}.csv`, trendsCsv(trends.bars, [chart]))}
        >
          CSV<span className="sr-only"> of {title}</span>
        </button>
        <button type="button" className="link text-sm" aria-pressed={isTable} onClick={() => setTable(!isTable)}>
          Table<span className="sr-only"> of {title}</span>
        </button>
      </header>
      <Legend chart={chart} />
      {isTable ? (
        <Numbers project={project} trends={trends} chart={chart} />
      ) : (
        <Bars project={project} trends={trends} chart={chart} />
      )}
    </section>
  )
}

/** Three lines high, for the names of nine agents, so that other values do not move the plot. */
function Legend({ chart }: { readonly chart: Chart }) {
  return (
    <ul
      className="flex h-17 shrink-0 flex-wrap content-start gap-x-4 overflow-auto px-3 pt-1.5 text-sm"
      tabIndex={0}
      aria-label="Totals"
    >
      {chart.series.map((one, at) => (
        <li key={one.name} className="flex items-center gap-1.5">
          <svg aria-hidden="true" width="10" height="10" viewBox="0 0 10 10" className="shrink-0">
            <rect width="10" height="10" rx="2" fill={colourOf(chart.chart, one, at)} />
          </svg>
          <bdi className="text-ink-2">{oneLine(nameOf(one), 60)}</bdi>
          <span className="font-medium">{valueText(chart.unit, one.total)}</span>
        </li>
      ))}
      {chart.series.length === 0 && <li className="text-ink-3">{faces[chart.chart].about}</li>}
    </ul>
  )
}

function Bars({ project, trends, chart }: PanelProps) {
  const [bar, setBar] = useState<number | undefined>()
  const navigate = useNavigate()
  const { bars, bar_seconds: seconds, range } = trends
  const open = () => {
    if (bar === undefined) return
    const link = linkOf(project, trends, chart, undefined, bar)
    if (link !== undefined) void navigate(link)
  }
  const move = (by: number) => setBar((at) => Math.max(0, Math.min(bars.length - 1, (at ?? bars.length - by) + by)))
  return (
    <div
      role="group"
      tabIndex={0}
      className="min-w-0 px-3 pb-2"
      aria-label={`${faces[chart.chart].title}: ${oneLine(summaryOf(chart), 500)}. Left and right arrow read the bars`}
      onKeyDown={(event) => {
        const { key } = event
        const by = key === 'ArrowLeft' ? -1 : key === 'ArrowRight' ? 1 : 0
        if (by !== 0) move(by)
        else if (key === 'Home') setBar(0)
        else if (key === 'End') setBar(bars.length - 1)
        else if (key === 'Escape') setBar(undefined)
        else if (key === 'Enter') open()
        else return
        event.preventDefault()
      }}
      onBlur={() => setBar(undefined)}
    >
      <Plot chart={chart} bars={bars.length} chosen={bar} choose={setBar} open={open} note={noteOf(chart)} />
      <p className="mt-0.5 ml-13 flex justify-between text-xs text-ink-3" aria-hidden="true">
        {[0, 0.25, 0.5, 0.75].map((part) => (
          <span key={part} className="w-0 flex-1 whitespace-nowrap">
            {barLabel(range, bars[Math.floor(part * bars.length)]!)}
          </span>
        ))}
      </p>
      <p className="mt-1 h-5 truncate text-sm" aria-live="polite">
        {bar !== undefined && (
          <>
            <span className="text-ink-3">{barTime(range, bars[bar]!, seconds)}: </span>
            <bdi>{oneLine(barText(chart, bar), 300)}</bdi>
          </>
        )}
      </p>
    </div>
  )
}

/** Why a plot is empty. */
function noteOf(chart: Chart): string | undefined {
  if (!isEmptyChart(chart)) return undefined
  const isSampled = chart.chart === 'queue_depth' || chart.chart === 'workers'
  const measured = chart.series.some(({ values }) => values.some((value) => value !== null))
  if (isSampled) return measured ? 'Nothing in this time' : 'No samples in this time'
  if (chart.unit === 'micros') return 'No turn reported a cost'
  if (chart.unit === 'tokens') return 'No turn reported tokens'
  if (chart.chart === 'interventions') return 'No interventions'
  return 'No turn ended in this time'
}

/** Where the numbers of a bar come from: its turns, or the interventions of a rule. */
function linkOf(
  project: string,
  { bars, bar_seconds, agent }: Trends,
  chart: Chart,
  one: Series | undefined,
  bar: number,
) {
  const from = bars[bar]!
  const to = new Date(Date.parse(from) + bar_seconds * 1_000).toISOString()
  const params = { project }
  if (chart.chart === 'interventions') {
    const kind = one?.name ?? (chart.series.length === 1 ? chart.series[0]?.name : undefined)
    return { to: '/p/$project/health', params, search: defined({ kind }) } as const
  }
  if (chart.chart === 'queue_depth' || chart.chart === 'workers') return undefined
  const search = {
    from,
    to,
    agent:
      chart.chart === 'cost_by_agent' && one !== undefined && !one.name.startsWith('(')
        ? one.name
        : (agent ?? undefined),
    status: chart.chart === 'turns' && one !== undefined ? (one.name as 'success') : undefined,
  }
  return { to: '/p/$project/turns', params, search } as const
}

function Numbers({ project, trends, chart }: PanelProps) {
  const { bars, bar_seconds: seconds, range } = trends
  return (
    <div
      className="min-h-0 flex-1 overflow-auto"
      tabIndex={0}
      role="region"
      aria-label={`Table of ${faces[chart.chart].title}`}
    >
      <table className="w-full text-sm">
        <thead className="sticky top-0 bg-panel">
          <tr>
            <th scope="col" className="px-3 py-1 text-left font-medium">
              Time
            </th>
            {chart.series.map((one) => (
              <th key={one.name} scope="col" className="px-3 py-1 text-right font-medium">
                <bdi>{oneLine(nameOf(one), 60)}</bdi>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {bars
            .map((start, bar) => ({ start, bar }))
            .toReversed()
            .map(({ start, bar }) => (
              <tr key={start} className="border-t border-line">
                <th scope="row" className="px-3 py-1 text-left font-normal whitespace-nowrap text-ink-2">
                  {barTime(range, start, seconds)}
                </th>
                {chart.series.map((one) => {
                  const link = (one.values[bar] ?? 0) === 0 ? undefined : linkOf(project, trends, chart, one, bar)
                  const text = valueText(chart.unit, one.values[bar])
                  return (
                    <td key={one.name} className="px-3 py-1 text-right whitespace-nowrap">
                      {link === undefined ? (
                        text
                      ) : (
                        <Link {...link} className="link">
                          {text}
                        </Link>
                      )}
                    </td>
                  )
                })}
              </tr>
            ))}
        </tbody>
      </table>
    </div>
  )
}
