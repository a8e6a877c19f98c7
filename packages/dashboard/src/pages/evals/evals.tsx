/** Evaluations page: the suites of the project's files and their runs. */
import { dollars } from '@bellwether/protocol/spending'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { evalRunsQuery, evalsQuery, startEval } from '../../api/eval-queries.js'
import type { EvalRunLine, EvalSuite } from '../../api/types.js'
import { Page, Section } from '../../frame/page.js'
import { oneLine, percent, plural } from '../../model/text.js'
import { Empty, QueryState } from '../../parts/query-state.js'
import { Ago } from '../../parts/time.js'
import { RunState } from './numbers.js'

export function EvalsPage() {
  const { project } = useParams({ from: '/p/$project/evals' })
  const suites = useQuery(evalsQuery(project))
  const runs = useQuery(evalRunsQuery(project))
  return (
    <Page title="Evals" scrolls>
      {/* Read together: the runs stand below the suites, and must not move when these arrive. */}
      <QueryState query={runs.isPending ? { ...suites, data: undefined } : suites}>
        {(all) => (
          <div className="space-y-3 p-3">
            <Section title="Suites">
              {all.suites.length === 0 ? (
                <Empty title="No suites yet">
                  A suite compares agents or prompts with recorded inputs and checks. Write a file{' '}
                  <code>evals/NAME.toml</code> in the project folder; it appears here at once.
                </Empty>
              ) : (
                <ul className="divide-y divide-line" aria-label="Suites">
                  {all.suites.map((suite) => (
                    <SuiteLine key={suite.suite} project={project} suite={suite} />
                  ))}
                </ul>
              )}
            </Section>
            <Section title="Runs">
              <QueryState
                query={runs}
                isFramed
                isEmpty={(all) => all.runs.length === 0}
                empty={
                  <Empty title="No runs yet">
                    Press <em>Run</em> beside a suite, or start one with <code>bellwether eval run SUITE</code>.
                  </Empty>
                }
              >
                {(all) => (
                  <ul className="divide-y divide-line" aria-label="Runs">
                    {all.runs.map((run) => (
                      <RunLine key={run.run_id} project={project} run={run} />
                    ))}
                  </ul>
                )}
              </QueryState>
            </Section>
          </div>
        )}
      </QueryState>
    </Page>
  )
}

function SuiteLine({ project, suite }: { readonly project: string; readonly suite: EvalSuite }) {
  const client = useQueryClient()
  const navigate = useNavigate()
  const start = useMutation({
    mutationFn: () => startEval(project, suite.suite),
    onSuccess: ({ run_id: run }) => navigate({ to: '/p/$project/evals/$run', params: { project, run } }),
    onSettled: () => client.invalidateQueries({ queryKey: ['evals', project] }),
  })
  const { last_run: last } = suite
  const isOpen = last !== null && last.ended_at === null
  return (
    <li className="grid grid-cols-1 items-start gap-x-4 gap-y-1 px-3 py-2 md:grid-cols-[14rem_minmax(0,1fr)_auto]">
      <span className="flex items-center gap-2">
        <bdi className="truncate font-medium">{suite.suite}</bdi>
        {last !== null && <RunState run={last} />}
      </span>
      <span className="min-w-0">
        <span className="block truncate">
          {suite.cases === 0
            ? 'The file is invalid'
            : `${plural(suite.cases, 'case')} × ${plural(suite.variants.length, 'variant')}: ${suite.variants.map(({ name }) => oneLine(name, 40)).join(', ')}`}
        </span>
        {suite.description !== null && (
          <span className="block truncate text-sm text-ink-2">{oneLine(suite.description, 200)}</span>
        )}
        {suite.problem !== null && <span className="block text-sm text-bad">{oneLine(suite.problem, 400)}</span>}
        {start.error !== null && (
          <span role="alert" className="block text-sm text-bad">
            {oneLine(start.error.message, 300)}
          </span>
        )}
      </span>
      {suite.cases > 0 &&
        (isOpen ? (
          <Link
            className="button justify-self-start"
            to="/p/$project/evals/$run"
            params={{ project, run: last.run_id }}
          >
            Follow
          </Link>
        ) : (
          <button
            type="button"
            className="button justify-self-start"
            aria-label={`Run ${suite.suite}`}
            disabled={start.isPending}
            onClick={() => start.mutate()}
          >
            Run
          </button>
        ))}
    </li>
  )
}

function RunLine({ project, run }: { readonly project: string; readonly run: EvalRunLine }) {
  return (
    <li>
      <Link
        to="/p/$project/evals/$run"
        params={{ project, run: run.run_id }}
        className="flex flex-wrap items-center gap-x-4 gap-y-1 px-3 py-1.5 hover:bg-hover"
      >
        <bdi className="min-w-32 font-medium">{run.suite}</bdi>
        <RunState run={run} />
        <span>
          {run.passed} of {run.done} passed ({percent(run.passed, run.done)})
        </span>
        <span className="text-ink-2">{dollars(run.cost_micros)}</span>
        <span className="text-ink-2">{oneLine(run.requested_by, 60)}</span>
        <span className="ml-auto text-ink-2">
          <Ago at={run.created_at} />
        </span>
      </Link>
    </li>
  )
}
