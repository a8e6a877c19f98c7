/** One run of a suite: the variants side by side, what became worse, and each case with each variant. */
import { dollars } from '@bellwether/protocol/spending'
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { evalCasesQuery, evalRunQuery, stopEval, type Shown } from '../../api/eval-queries.js'
import type { EvalCaseLine, EvalRun } from '../../api/types.js'
import { Page, Section } from '../../frame/page.js'
import { count, oneLine, percent } from '../../model/text.js'
import { Empty, QueryState } from '../../parts/query-state.js'
import { CaseDrawer } from './case-drawer.js'
import { RunState, timeOf, Verdict } from './numbers.js'

export function EvalRunPage() {
  const { project, run } = useParams({ from: '/p/$project/evals/$run' })
  const { show = 'all', case: opened } = useSearch({ from: '/p/$project/evals/$run' })
  const navigate = useNavigate()
  const query = useQuery(evalRunQuery(project, run))
  const search = (next: { show?: Shown | undefined; case?: string | undefined }) =>
    void navigate({ to: '/p/$project/evals/$run', params: { project, run }, search: next })
  return (
    <Page
      title={<Title run={query.data} project={project} />}
      tools={<Tools run={query.data} project={project} />}
      scrolls
    >
      <QueryState query={query}>
        {(found) => (
          <div className="space-y-3 p-3">
            <Variants run={found} />
            <Changes run={found} />
            <Cases project={project} run={found} shown={show} onShow={(next) => search({ show: next })} />
          </div>
        )}
      </QueryState>
      {opened !== undefined && (
        <CaseDrawer key={opened} project={project} run={run} number={Number(opened)} close={() => search({ show })} />
      )}
    </Page>
  )
}

function Title({ run, project }: { readonly run: EvalRun | undefined; readonly project: string }) {
  return (
    <>
      <Link to="/p/$project/evals" params={{ project }} className="text-ink-2 hover:underline">
        Evals
      </Link>{' '}
      <bdi>{oneLine(run?.suite ?? '', 40)}</bdi>
    </>
  )
}

function Tools({ run, project }: { readonly run: EvalRun | undefined; readonly project: string }) {
  const client = useQueryClient()
  const stop = useMutation({
    mutationFn: (id: string) => stopEval(project, id),
    onSettled: () => client.invalidateQueries({ queryKey: ['evals', project] }),
  })
  if (run === undefined) return null
  return (
    <>
      <RunState run={run} />
      <span className="text-ink-2">
        {dollars(run.cost_micros)}
        {run.max_cost_micros === null ? '' : ` of ${dollars(run.max_cost_micros)}`}
      </span>
      {run.reason !== null && <span className="text-ink-2">{oneLine(run.reason, 120)}</span>}
      {run.status === 'open' && (
        <button type="button" className="button" disabled={stop.isPending} onClick={() => stop.mutate(run.run_id)}>
          Stop
        </button>
      )}
    </>
  )
}

const numberCell = 'px-3 py-1.5 text-right tabular-nums'

function Variants({ run }: { readonly run: EvalRun }) {
  return (
    <Section title="Variants">
      <div className="overflow-x-auto" tabIndex={0} role="group" aria-label="Variants">
        <table className="w-full min-w-max text-left">
          <thead className="text-sm text-ink-2">
            <tr>
              <th className="px-3 py-1.5 font-normal">Variant</th>
              {['Passed', 'Rate', 'Cost', 'Judge cost', 'Tokens', 'Time p50', 'Time p95'].map((name) => (
                <th key={name} className={`${numberCell} font-normal`}>
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody className="divide-y divide-line">
            {run.variants.map((one) => (
              <tr key={one.variant}>
                <th scope="row" className="px-3 py-1.5 font-medium">
                  <bdi>{oneLine(one.variant, 60)}</bdi>
                </th>
                <td className={numberCell}>
                  {one.passed} of {one.done}
                </td>
                <td className={`${numberCell} ${one.failed > 0 ? 'text-bad' : ''}`}>{percent(one.passed, one.done)}</td>
                <td className={numberCell}>{dollars(one.cost_micros)}</td>
                <td className={numberCell}>{dollars(one.judge_cost_micros)}</td>
                <td className={numberCell}>{count(one.tokens)}</td>
                <td className={numberCell}>{timeOf(one.duration_p50_ms)}</td>
                <td className={numberCell}>{timeOf(one.duration_p95_ms)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Section>
  )
}

const changesShown = 50

function Changes({ run: { comparison } }: { readonly run: EvalRun }) {
  const changes = [
    ...(comparison?.regressions ?? []).map((one) => ({ ...one, isWorse: true })),
    ...(comparison?.improvements ?? []).map((one) => ({ ...one, isWorse: false })),
  ]
  if (changes.length === 0) return null
  return (
    <Section title="Since the run before">
      <ul aria-label="Changes" className="divide-y divide-line">
        {changes.slice(0, changesShown).map((one) => (
          <li key={`${one.case} ${one.variant}`} className="flex flex-wrap gap-x-3 px-3 py-1">
            <span className={`font-medium ${one.isWorse ? 'text-bad' : 'text-done'}`}>
              {one.isWorse ? 'worse' : 'better'}
            </span>
            <bdi>{oneLine(one.case, 100)}</bdi>
            <span className="text-ink-2">{oneLine(one.variant, 60)}</span>
            <span className="tabular-nums">
              {one.before} → {one.now}
            </span>
          </li>
        ))}
      </ul>
    </Section>
  )
}

const showing: Readonly<Record<Shown, string>> = { all: 'All', failed: 'Failed', differing: 'Differing' }

interface CasesProps {
  readonly project: string
  readonly run: EvalRun
  readonly shown: Shown
  readonly onShow: (shown: Shown) => void
}

function Cases({ project, run, shown, onShow }: CasesProps) {
  const query = useInfiniteQuery(evalCasesQuery(project, run.run_id, shown, run.ended_at === null))
  const names = run.variants.map(({ variant }) => variant)
  const filter = (
    <div role="group" aria-label="Show cases" className="flex gap-1">
      {(Object.keys(showing) as Shown[]).map((one) => (
        <button
          key={one}
          type="button"
          className="button aria-pressed:bg-start-soft aria-pressed:font-semibold"
          aria-pressed={one === shown}
          onClick={() => onShow(one)}
        >
          {showing[one]}
        </button>
      ))}
    </div>
  )
  return (
    <Section title="Cases" aside={filter}>
      <QueryState
        query={query}
        isFramed
        isEmpty={({ pages }) => pages.every((page) => page.cases.length === 0)}
        empty={<Empty title={shown === 'failed' ? 'No case failed' : 'No case differs'} />}
      >
        {({ pages }) => (
          <>
            <div className="overflow-x-auto" tabIndex={0} role="group" aria-label="Cases and variants">
              <table className="w-full min-w-max text-left">
                <thead className="text-sm text-ink-2">
                  <tr>
                    <th className="px-3 py-1.5 font-normal">Case</th>
                    {names.map((name) => (
                      <th key={name} className="px-3 py-1.5 font-normal">
                        <bdi>{oneLine(name, 40)}</bdi>
                      </th>
                    ))}
                  </tr>
                </thead>
                <tbody className="divide-y divide-line">
                  {pages
                    .flatMap((page) => page.cases)
                    .map((one) => (
                      <CaseRow
                        key={one.number}
                        project={project}
                        run={run.run_id}
                        shown={shown}
                        line={one}
                        names={names}
                      />
                    ))}
                </tbody>
              </table>
            </div>
            {query.hasNextPage && (
              <button type="button" className="button m-2" onClick={() => void query.fetchNextPage()}>
                Show more
              </button>
            )}
          </>
        )}
      </QueryState>
    </Section>
  )
}

interface CaseRowProps {
  readonly project: string
  readonly run: string
  readonly shown: Shown
  readonly line: EvalCaseLine
  readonly names: readonly string[]
}

function CaseRow({ project, run, shown, line, names }: CaseRowProps) {
  return (
    <tr className="hover:bg-hover">
      <th scope="row" className="px-3 py-1.5 font-normal">
        <Link
          to="/p/$project/evals/$run"
          params={{ project, run }}
          search={{ show: shown, case: String(line.number) }}
          className="font-medium hover:underline"
        >
          <bdi>{oneLine(line.case, 80)}</bdi>
        </Link>
        {line.differs && <span className="ml-2 text-xs text-wait">differs</span>}
      </th>
      {names.map((name) => (
        <td key={name} className="px-3 py-1.5">
          <span className="flex flex-wrap gap-2">
            {line.results
              .filter(({ variant }) => variant === name)
              .map((cell) => (
                <Verdict key={cell.repeat} cell={cell} />
              ))}
          </span>
        </td>
      ))}
    </tr>
  )
}
