/** `bellwether trends`: what ended, what it cost and what waited over time, as totals, as costs by agent, model or day, or as CSV. */
import { count, dollars, duration, InvalidInput, percent } from '@bellwether/protocol'
import type { Trends } from '@bellwether/protocol/http'
import {
  trendCharts,
  trendRangeNames,
  trendsCsv,
  type TrendChart,
  type TrendRangeName,
  type TrendUnit,
} from '@bellwether/protocol/trends'
import { Command, Option } from 'commander'
import { openClient, toServer, type ServerFlags } from '../shared/client.js'
import { print } from '../shared/output.js'
import { facts, instant, table } from '../shared/terminal.js'

interface Flags extends ServerFlags {
  readonly since?: TrendRangeName
  readonly agent?: string
  readonly by?: 'agent' | 'model' | 'day'
  readonly chart?: TrendChart
  readonly csv?: boolean
}

export function trendsCommand(): Command {
  return toServer(new Command('trends'))
    .description('show turns by outcome, times, costs, tokens, interventions, queue and workers over time')
    .addOption(new Option('--since <range>', 'how far back (default: 24h; 30d with --by day)').choices(trendRangeNames))
    .option('-a, --agent <agent>', 'only what this agent did')
    .addOption(
      new Option('--by <what>', 'list the cost by agent, by model or by day (UTC)').choices(['agent', 'model', 'day']),
    )
    .addOption(new Option('--chart <chart>', 'with --csv: only this chart').choices(trendCharts).implies({ csv: true }))
    .addOption(new Option('--csv', 'print one line per chart, series and bar').conflicts(['json', 'by']))
    .action(async (flags: Flags) => {
      const range = flags.since ?? (flags.by === 'day' ? '30d' : '24h')
      if (flags.by === 'day' && range !== '30d' && range !== '90d')
        throw new InvalidInput(`Cannot list days of ${range}`, {
          code: 'no_days',
          hint: 'use --since 30d or --since 90d',
        })
      const query = { range, agent: flags.agent }
      const trends = await openClient(flags).ask('GET /projects/:project/trends', { query })
      if (flags.csv === true) {
        const charts = trends.charts.filter(({ chart }) => flags.chart === undefined || chart === flags.chart)
        process.stdout.write(trendsCsv(trends.bars, charts))
      } else print(flags, trends, () => textOf(trends, flags.by))
    })
}

function textOf(trends: Trends, by: Flags['by']): string {
  const until = instant(trends.counted_until)
  const about = `${trends.agent === null ? '' : `agent ${trends.agent}, `}${instant(trends.from)} to ${until} UTC`
  return `${about}\n\n${by === undefined ? totals(trends) : by === 'day' ? days(trends) : costs(trends, by)}`
}

const titles: Readonly<Record<TrendChart, string>> = {
  turns: 'turns ended',
  queue_depth: 'queued turns',
  queue_time: 'queue time',
  run_time: 'run time',
  cost_by_agent: 'cost by agent',
  cost_by_model: 'cost by model',
  tokens: 'tokens',
  interventions: 'interventions',
  workers: 'worker slots',
}

const show: Readonly<Record<TrendUnit, (value: number) => string>> = {
  turns: count,
  ms: duration,
  micros: dollars,
  tokens: count,
  interventions: count,
  slots: count,
}

function totals({ charts }: Trends): string {
  return facts(
    charts.map(({ chart, unit, series }) => {
      const parts = series.map(
        ({ name, total }) =>
          `${chart === 'tokens' ? name.replace('_', ' ') : name} ${total === null ? '–' : show[unit](total)}`,
      )
      return [titles[chart], parts.length === 0 ? 'none' : parts.join(', ')] as const
    }),
  )
}

const seriesOf = ({ charts }: Trends, name: TrendChart) => charts.find(({ chart }) => chart === name)?.series ?? []
const sum = (values: readonly (number | null)[]) => values.reduce<number>((total, value) => total + (value ?? 0), 0)

function costs(trends: Trends, by: 'agent' | 'model'): string {
  const found = seriesOf(trends, by === 'agent' ? 'cost_by_agent' : 'cost_by_model')
  if (found.length === 0) return 'No turn that ended in this time reported a cost'
  const all = sum(found.map(({ total }) => total))
  const rows = found.map(({ name, total }) => [name, dollars(total ?? 0), percent(total ?? 0, all)])
  return table([by.toUpperCase(), 'COST', 'SHARE'], [...rows, ['total', dollars(all), '']], process.stdout.columns, [0])
}

function days(trends: Trends): string {
  const at = (name: TrendChart, bar: number) => sum(seriesOf(trends, name).map(({ values }) => values[bar] ?? 0))
  const failed = (bar: number) =>
    sum(
      seriesOf(trends, 'turns')
        .filter(({ name }) => name !== 'success')
        .map(({ values }) => values[bar] ?? 0),
    )
  const rows = trends.bars.flatMap((start, bar) =>
    at('turns', bar) === 0
      ? []
      : [
          [
            start.slice(0, 10),
            count(at('turns', bar)),
            count(failed(bar)),
            count(at('tokens', bar)),
            dollars(at('cost_by_agent', bar)),
          ],
        ],
  )
  if (rows.length === 0) return 'No turn ended in this time'
  return table(['DAY (UTC)', 'TURNS', 'NOT SUCCESSFUL', 'TOKENS', 'COST'], rows, process.stdout.columns, [0])
}
