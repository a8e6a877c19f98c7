/** Health page: processes, components with their dependencies, and the interventions of the watchdogs. */
import { groupBy } from '@bellwether/base'
import { useInfiniteQuery, useQuery, type UseQueryResult } from '@tanstack/react-query'
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { healthQuery, interventionsQuery, quotasQuery } from '../../api/queries.js'
import type { Health, Intervention } from '../../api/types.js'
import { cascadeOf, keyOf, severityOf, type Branch } from '../../model/cascade.js'
import { count, oneLine, plural, shortNames } from '../../model/text.js'
import { meaningOf } from '../../model/watchdog.js'
import { useListKeys } from '../../keyboard/shortcut-list.js'
import { Page, Section } from '../../frame/page.js'
import { HeldAccounts } from './held-accounts.js'
import { Processes } from './processes.js'
import { SpendingLimits } from './spending-limits.js'
import { Empty, QueryState } from '../../parts/query-state.js'
import { Chip, Status } from '../../parts/status.js'
import { Ago } from '../../parts/time.js'

export function HealthPage() {
  const { project } = useParams({ from: '/p/$project/health' })
  const { kind } = useSearch({ from: '/p/$project/health' })
  const health = useQuery(healthQuery)
  const quotas = useQuery(quotasQuery)
  // Not `isPending`: a question that failed is pending again when the parts below ask it, which would hide them, and so on.
  const pending = [health, quotas].find(({ isFetched }) => !isFetched)
  const interventions = useInfiniteQuery(interventionsQuery(project, kind))
  return (
    <Page title="Health" scrolls>
      <div className="grid grid-cols-1 items-start gap-3 p-3 lg:grid-cols-[minmax(0,2fr)_minmax(0,3fr)]">
        {/* Accounts and limits stand above the rest: all of it appears together, so that nothing moves. */}
        {pending === undefined ? (
          <Parts query={health} />
        ) : (
          <Section title="Components">
            <QueryState<unknown> query={pending} isFramed>
              {() => null}
            </QueryState>
          </Section>
        )}
        {/* Below the parts on a small window, where it would move when they arrive. */}
        <div className={pending === undefined ? '' : 'max-lg:hidden'}>
          <Section title="Watchdog interventions" aside={kind !== undefined && <AllKinds />}>
            <QueryState
              query={interventions}
              isFramed
              isEmpty={({ pages }) =>
                pages.every((page) => page.interventions.length === 0) && !interventions.hasNextPage
              }
              empty={<Empty title="No interventions">Every turn so far ended without one.</Empty>}
            >
              {({ pages }) => (
                <InterventionList
                  project={project}
                  list={pages.flatMap((page) => page.interventions)}
                  more={interventions.hasNextPage ? () => void interventions.fetchNextPage() : undefined}
                  isReading={interventions.isFetchingNextPage}
                />
              )}
            </QueryState>
          </Section>
        </div>
      </div>
    </Page>
  )
}

/** Supervised processes, and components by dependency. */
function Parts({ query }: { readonly query: UseQueryResult<Health> }) {
  const all = query.data?.components ?? []
  const processes = all
    .filter(({ kind }) => kind === 'part')
    .sort((one, other) => severityOf(one) - severityOf(other) || (one.name < other.name ? -1 : 1))
  const rest = all.filter(({ kind }) => kind !== 'part')
  return (
    <div className="space-y-3">
      <HeldAccounts />
      <SpendingLimits />
      {processes.length > 0 && (
        <Section title="Processes" aside={query.data && <Summary health={query.data} />}>
          <Processes parts={processes} />
        </Section>
      )}
      {(rest.length > 0 || processes.length === 0) && (
        <Section title="Components" aside={query.data && processes.length === 0 && <Summary health={query.data} />}>
          <QueryState
            query={query}
            isFramed
            isEmpty={() => rest.length === 0}
            empty={
              <Empty title="No component reports its health">
                Views and sensors appear here when they run. Start a sensor with{' '}
                <code>bellwether sensor --root DIR</code>.
              </Empty>
            }
          >
            {() => (
              <ul className="px-3 py-2" aria-label="Components by dependency">
                {cascadeOf(rest).map((branch) => (
                  <Part key={keyOf(branch.component)} branch={branch} depth={0} />
                ))}
              </ul>
            )}
          </QueryState>
        </Section>
      )}
    </div>
  )
}

function Summary({ health }: { readonly health: Health }) {
  const { status, units, restarts } = health.summary
  return (
    <span className="flex items-center gap-3 text-sm">
      <span className="text-ink-3">
        {plural(units, 'component')}, {plural(restarts, 'restart')}, overall
      </span>
      <Status word={status} />
    </span>
  )
}

function Part({ branch, depth }: { readonly branch: Branch; readonly depth: number }) {
  const { component, effects } = branch
  return (
    <li>
      <div className="flex flex-wrap items-center gap-x-2 py-0.5">
        <span className="text-xs text-ink-3">{oneLine(component.kind.replaceAll('_', ' '), 40)}</span>
        <bdi className="min-w-0 flex-1 truncate font-medium" title={oneLine(component.name, 300)}>
          {oneLine(shortNames(component.name), 120)}
        </bdi>
        {component.restarts > 0 && <Chip tone="wait">{plural(component.restarts, 'restart')}</Chip>}
        <Status word={component.state} />
      </div>
      {component.because !== null && component.because !== '' && (
        <p className="text-sm text-ink-2">
          {component.kind === 'target' ? '' : 'because of '}
          {oneLine(shortNames(component.because), 200)}
        </p>
      )}
      {component.error !== null && component.error !== '' && (
        <p className="text-sm text-bad">
          <bdi>{oneLine(component.error, 300)}</bdi>
        </p>
      )}
      {effects.length > 0 && (
        <ul className={`border-l border-line-strong pl-3 ${depth < 8 ? 'ml-1.5' : ''}`}>
          {effects.map((effect) => (
            <Part key={keyOf(effect.component)} branch={effect} depth={depth + 1} />
          ))}
        </ul>
      )}
    </li>
  )
}

function AllKinds() {
  const navigate = useNavigate({ from: '/p/$project/health' })
  return (
    <button type="button" className="link text-sm" onClick={() => void navigate({ search: {} })}>
      all kinds
    </button>
  )
}

interface InterventionListProps {
  readonly project: string
  readonly list: readonly Intervention[]
  readonly more: (() => void) | undefined
  readonly isReading: boolean
}

function InterventionList({ project, list, more, isReading }: InterventionListProps) {
  const kinds = [...groupBy(list, (one) => one.kind)].sort(([, one], [, other]) => other.length - one.length)
  useListKeys({
    count: list.length,
    show: (at) => document.querySelector<HTMLElement>(`[data-intervention="${at}"]`)?.focus(),
    open: (at) => document.querySelector<HTMLElement>(`[data-intervention="${at}"] a`)?.click(),
  })
  return (
    <>
      <p className="flex flex-wrap gap-2 border-b border-line px-3 py-2">
        {kinds.map(([kind, some]) => (
          <Link
            key={kind}
            to="/p/$project/health"
            params={{ project }}
            search={{ kind }}
            className="button text-sm"
            title={meaningOf(kind).found}
          >
            <span className="font-mono text-xs">{oneLine(kind, 60)}</span> {count(some.length)}
          </Link>
        ))}
      </p>
      <ol className="divide-y divide-line">
        {list.map((one, at) => (
          <li key={one.intervention_id} data-intervention={at} tabIndex={-1} className="px-3 py-2 focus:bg-hover">
            <div className="flex items-baseline gap-3">
              <span className="min-w-0 flex-1">
                {one.agent_id !== null && one.agent_id !== undefined && (
                  <>
                    <bdi className="font-medium">{oneLine(one.agent_id, 80)}</bdi>:{' '}
                  </>
                )}
                {oneLine(meaningOf(one.kind).found, 200)}. Action: {oneLine(meaningOf(one.kind).how, 200)}.
              </span>
              <span className="text-sm whitespace-nowrap text-ink-3">
                <Ago at={one.created_at} />
              </span>
            </div>
            <p className="flex gap-3 text-sm text-ink-2">
              <bdi className="min-w-0 flex-1">{oneLine(one.reason, 300)}</bdi>
              {one.agent_turn_id !== null && one.agent_turn_id !== undefined && (
                <Link
                  to="/p/$project/turns/$turn"
                  params={{ project, turn: one.agent_turn_id }}
                  className="link whitespace-nowrap"
                >
                  Turn
                </Link>
              )}
            </p>
          </li>
        ))}
      </ol>
      {more !== undefined && (
        <p className="p-3">
          <button type="button" className="button" disabled={isReading} onClick={more}>
            Show older
          </button>
        </p>
      )}
    </>
  )
}
