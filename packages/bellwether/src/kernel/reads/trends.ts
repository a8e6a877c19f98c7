/**
 * Reads the charts of the Trends page from the counts that the PMO keeps. Reads only; the cost depends on the number of buckets in the
 * range, not on the number of turns.
 */
import {
  otherSeries,
  trendRanges,
  unnamedSeries,
  type TrendChart,
  type TrendRangeName,
  type TrendUnit,
} from '@bellwether/protocol/trends'
import { outcomes } from '@bellwether/protocol'
import type { TrendsRow } from '@bellwether/protocol/http'
import type { Queryable } from '../../ports/database/database.js'

export interface TrendQuery {
  readonly projectId: string
  readonly agentId?: string | undefined
  readonly range: TrendRangeName
}

interface Amount {
  readonly bar: number
  readonly chart: string
  readonly name: string
  readonly amount: number
}

interface Gauge {
  readonly bar: number
  readonly gauge: 'samples' | 'queued' | 'slots' | 'busy'
  readonly total: number
  readonly highest: number
}

type Chart = TrendsRow['charts'][number]
type Series = Chart['series'][number]

// More colours than a person can distinguish.
const namesMax = 8

export async function readTrends(db: Queryable, { projectId, agentId, range }: TrendQuery): Promise<TrendsRow> {
  const { barSeconds, bars: count, grainSeconds } = trendRanges[range]
  const [window] = await db.query<{ now: Date; counted_until: Date }>({
    name: 'bw_trend_window',
    text: `select state.now() as now, coalesce((select least(state.now(), o.created_at) from state.trend_progress p
        cross join lateral (select o.created_at from state.outbox o where (o.xid, o.event_id) > (p.xid, p.event_id)
          order by o.xid, o.event_id limit 1) o), state.now()) as counted_until`,
  })
  if (window === undefined) throw new Error('The database returned no time')
  const barMs = barSeconds * 1_000
  const toMs = (Math.floor(window.now.getTime() / barMs) + 1) * barMs
  const fromMs = toMs - count * barMs
  const values = [projectId, agentId, new Date(fromMs), new Date(toMs), barSeconds, grainSeconds]
  const [amounts, gauges] = await Promise.all([
    db.query<Amount>({ ...amountsPerBar, values }),
    db.query<Gauge>({ ...gaugesPerBar, values }),
  ])
  const chartOf = chartsOf(amounts, count)
  return {
    range,
    agent: agentId ?? null,
    from: new Date(fromMs),
    to: new Date(toMs),
    bar_seconds: barSeconds,
    bars: Array.from({ length: count }, (_, bar) => new Date(fromMs + bar * barMs)),
    counted_until: window.counted_until,
    charts: [
      chartOf('turns', 'turns', sums(outcomes)),
      queueChart(gauges, count),
      chartOf('queue_time', 'ms', percentiles),
      chartOf('run_time', 'ms', percentiles),
      chartOf('cost_by_agent', 'micros', sums()),
      chartOf('cost_by_model', 'micros', sums()),
      chartOf('tokens', 'tokens', sums(['input', 'output', 'cache_read', 'cache_write'])),
      chartOf('interventions', 'interventions', sums()),
      workerChart(gauges, count),
    ],
  }
}

// A lookup per bucket: the rows of other projects, and for the whole project those of its agents, are not read.
const bucketsOf = (table: string, condition: string) => `
  (select at, floor(extract(epoch from at - $3::timestamptz) / $5)::int as bar from generate_series($3::timestamptz,
      $4::timestamptz - interval '1 second', make_interval(secs => $6::int)) as g (at) offset 0) as b
    cross join lateral (select * from state.${table} t where t.grain = $6::int and t.starts_at = b.at and ${condition}
      offset 0) t`
const largest = (column: string, rows: string) => `array(select ${column} from ${rows}
    group by 1 order by sum(amount) desc, 1 limit ${namesMax})`

const amountsPerBar = {
  name: 'bw_trend_amounts',
  text: `with rows as materialized (
      select b.bar, t.measure, t.label, t.amount
      from unnest(enum_range(null::state.trend_measure)) as m (measure) cross join ${bucketsOf(
        'trends',
        "t.project_id = $1 and t.measure = m.measure and t.agent_id = coalesce($2, '')",
      )}
    ), models as (
      select * from rows where measure = 'cost_micros'
    ), agents as materialized (
      select b.bar, t.agent_id, sum(t.amount) as amount from ${bucketsOf(
        'trends',
        `t.project_id = $1 and t.measure = 'cost_micros' and t.agent_id <> ''
          and ($2::text is null or t.agent_id = $2)`,
      )}
      group by 1, 2
    ), named as (
      select bar, case measure when 'queue_ms' then 'queue_time' when 'run_ms' then 'run_time'
          when 'turns' then 'turns' when 'interventions' then 'interventions' else 'tokens' end as chart,
        case when label = '' then replace(measure::text, '_tokens', '') else label end as name, amount
      from rows where measure <> 'cost_micros'
      union all
      select bar, 'cost_by_agent', case when agent_id = any (${largest('agent_id', 'agents')}) then agent_id
        else '${otherSeries}' end, amount
      from agents
      union all
      select bar, 'cost_by_model', case when label <> all (${largest('label', 'models')}) then '${otherSeries}'
        when label = '' then '${unnamedSeries}' else label end, amount
      from models
    )
    select bar, chart, name, sum(amount)::double precision as amount from named group by 1, 2, 3`,
}

const gaugesPerBar = {
  name: 'bw_trend_gauges',
  text: `select b.bar, t.gauge, sum(t.total)::double precision as total,
      max(t.highest)::double precision as highest
    from ${bucketsOf(
      'trend_gauges',
      `(t.gauge = 'samples' or (t.gauge = 'queued' and t.name = $1)
        or (t.gauge in ('slots', 'busy') and t.name in (select a.worker_target from resource.project_agents a
          where a.project_id = $1 and ($2::text is null or a.agent_id = $2))))`,
    )}
    group by 1, 2`,
}

type ToSeries = (rows: readonly Amount[], bars: number) => readonly Series[]

const chartsOf =
  (amounts: readonly Amount[], bars: number) =>
  (chart: TrendChart, unit: TrendUnit, toSeries: ToSeries): Chart => ({
    chart,
    unit,
    by_agent: true,
    series: toSeries(
      amounts.filter((row) => row.chart === chart),
      bars,
    ),
  })

/** One series per name; those that are always shown come first, then the largest. */
function sums(always: readonly string[] = []): ToSeries {
  return (rows, bars) => {
    const found = new Map(always.map((name) => [name, Array.from({ length: bars }, () => 0)]))
    for (const { bar, name, amount } of rows) {
      const values = found.get(name) ?? Array.from({ length: bars }, () => 0)
      values[bar]! += amount
      found.set(name, values)
    }
    const series = [...found].map(([name, values]) => ({ name, values, total: values.reduce((a, b) => a + b, 0) }))
    const rank = ({ name }: Series) =>
      always.includes(name) ? always.indexOf(name) : name === otherSeries ? Infinity : always.length
    return series.toSorted(
      (one, other) => compare(rank(one), rank(other)) || other.total - one.total || (one.name < other.name ? -1 : 1),
    )
  }
}

const compare = (one: number, other: number) => (one === other ? 0 : one < other ? -1 : 1)

const percentiles: ToSeries = (rows, bars) =>
  ([0.5, 0.95] as const).map((share) => {
    const perBar = Array.from({ length: bars }, (): Amount[] => [])
    for (const row of rows) perBar[row.bar]!.push(row)
    return {
      name: `p${share * 100}`,
      values: perBar.map((found) => percentileOf(found, share)),
      total: percentileOf(rows, share),
    }
  })

/** The middle of the bucket with the percentile; null without turns. */
function percentileOf(rows: readonly Pick<Amount, 'name' | 'amount'>[], share: number): number | null {
  const sorted = rows
    .map(({ name, amount }) => ({ bucket: Number(name), amount }))
    .toSorted((one, other) => one.bucket - other.bucket)
  const wanted = share * sorted.reduce((sum, { amount }) => sum + amount, 0)
  let passed = 0
  for (const { bucket, amount } of sorted) {
    passed += amount
    if (passed >= wanted) return middleOf(bucket)
  }
  return null
}

/** In milliseconds, with four digits. The buckets are those of `state.trend_bucket`. */
export const middleOf = (bucket: number): number =>
  bucket === 0 ? 0.5 : Number((2 ** ((bucket - 0.5) / 8)).toPrecision(4))

function perBar(gauges: readonly Gauge[], gauge: Gauge['gauge'], bars: number) {
  const values = Array.from({ length: bars }, () => ({ total: 0, highest: 0 }))
  for (const row of gauges) if (row.gauge === gauge) values[row.bar] = row
  return values
}

/** The mean of the samples, with two decimals. */
function means(gauges: readonly Gauge[], gauge: Gauge['gauge'], name: string, bars: number): Series {
  const samples = perBar(gauges, 'samples', bars)
  const found = perBar(gauges, gauge, bars)
  const sum = (all: readonly { readonly total: number }[]) => all.reduce((total, one) => total + one.total, 0)
  const mean = (total: number, count: number) => (count === 0 ? null : Math.round((100 * total) / count) / 100)
  return {
    name,
    values: found.map(({ total }, bar) => mean(total, samples[bar]!.total)),
    total: mean(sum(found), sum(samples)),
  }
}

function queueChart(gauges: readonly Gauge[], bars: number): Chart {
  const samples = perBar(gauges, 'samples', bars)
  const highest = perBar(gauges, 'queued', bars).map(({ highest: value }, bar) =>
    samples[bar]!.total === 0 ? null : value,
  )
  const measured = highest.filter((value) => value !== null)
  return {
    chart: 'queue_depth',
    unit: 'turns',
    by_agent: false,
    series: [
      means(gauges, 'queued', 'mean', bars),
      { name: 'highest', values: highest, total: measured.length === 0 ? null : Math.max(...measured) },
    ],
  }
}

const workerChart = (gauges: readonly Gauge[], bars: number): Chart => ({
  chart: 'workers',
  unit: 'slots',
  by_agent: true,
  series: [means(gauges, 'busy', 'busy', bars), means(gauges, 'slots', 'slots', bars)],
})
