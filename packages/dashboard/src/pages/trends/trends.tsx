/** Trends: what ended, what it cost and what waited, over one hour to 90 days. Range and agent are part of the address. */
import { trendRangeNames, trendsCsv, type TrendRangeName } from '@bellwether/protocol/trends'
import { useQuery } from '@tanstack/react-query'
import { useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { trendsQuery } from '../../api/queries.js'
import type { Trends } from '../../api/types.js'
import { isEmptyChart } from '../../model/chart.js'
import { clockTime, zoneOf } from '../../model/time.js'
import { Page } from '../../frame/page.js'
import { saveText } from '../../ports/download.js'
import { Empty, QueryState } from '../../parts/query-state.js'
import { Search } from '../../parts/search.js'
import { serverNowMs } from '../../api/client.js'
import { ChartPanel } from './chart-panel.js'

const defaultRange: TrendRangeName = '24h'

export function TrendsPage() {
  const { project } = useParams({ from: '/p/$project/trends' })
  const search = useSearch({ from: '/p/$project/trends' })
  const navigate = useNavigate({ from: '/p/$project/trends' })
  const range = trendRangeNames.find((name) => name === search.range) ?? defaultRange
  const trends = useQuery(trendsQuery(project, range, search.agent))
  return (
    <Page
      title="Trends"
      scrolls
      tools={
        <>
          <Ranges
            range={range}
            choose={(name) => void navigate({ search: (old) => ({ ...old, range: name }), replace: true })}
          />
          <Search
            label="Agent"
            value={search.agent ?? ''}
            change={(agent) => void navigate({ search: (old) => ({ ...old, agent: nameIn(agent) }), replace: true })}
          />
          <button
            type="button"
            className="button"
            disabled={trends.data === undefined}
            onClick={() => trends.data && save(project, trends.data)}
          >
            Export CSV
          </button>
        </>
      }
    >
      <QueryState query={trends} skeleton={<Skeletons />} isEmpty={isEmpty} empty={<NothingYet agent={search.agent} />}>
        {(found) => <Charts project={project} trends={found} />}
      </QueryState>
    </Page>
  )
}

/** The characters that names of agents have. */
const nameIn = (words: string | undefined) => words?.toLowerCase().replaceAll(/[^a-z0-9_-]/g, '') || undefined

const isEmpty = ({ charts }: Trends) =>
  charts.every((chart) => chart.chart === 'workers' || chart.chart === 'queue_depth' || isEmptyChart(chart))

function NothingYet({ agent }: { readonly agent: string | undefined }) {
  return (
    <Empty
      title={agent === undefined ? 'No turn has ended in this time' : 'No turn of this agent has ended in this time'}
    >
      Choose a longer range above, or run a turn: <code>bellwether turn run AGENT &quot;…&quot;</code>. It appears here
      within 15 seconds of its end.
    </Empty>
  )
}

function save(project: string, { range, bars, charts }: Trends): void {
  saveText(`${project}-trends-${range}.csv`, trendsCsv(bars, charts))
}

function Ranges({
  range,
  choose,
}: {
  readonly range: TrendRangeName
  readonly choose: (name: TrendRangeName) => void
}) {
  return (
    <div role="group" aria-label="Range" className="flex">
      {trendRangeNames.map((name) => (
        <button
          key={name}
          type="button"
          className="button rounded-none px-2 -ml-px first:ml-0 first:rounded-l last:rounded-r aria-pressed:bg-start-soft aria-pressed:font-semibold"
          aria-pressed={name === range}
          onClick={() => choose(name)}
        >
          {name.replace(/(\d+)/, '$1 ')}
        </button>
      ))}
    </div>
  )
}

const grid = 'grid grid-cols-1 gap-3 p-3 lg:grid-cols-2 2xl:grid-cols-3'

function Charts({ project, trends }: { readonly project: string; readonly trends: Trends }) {
  return (
    <>
      <div className={grid}>
        {trends.charts.map((chart) => (
          <ChartPanel key={chart.chart} project={project} trends={trends} chart={chart} />
        ))}
      </div>
      <p className="px-3 pb-3 text-sm text-ink-3">
        Turns that ended until {clockTime(trends.counted_until, serverNowMs())}. Times of day are in{' '}
        {zoneOf(serverNowMs())}; bars of a day are days in UTC. Percentiles are less than 4.5 % off.
      </p>
    </>
  )
}

// As high as a chart, so that nothing moves when the data comes.
const Skeletons = () => (
  <div className={grid}>
    {Array.from({ length: 9 }, (_, at) => (
      <div key={at} className="panel h-[298px] p-4">
        <div className="skeleton h-4 w-2/5" />
        <div className="skeleton mt-6 h-40" />
      </div>
    ))}
  </div>
)
