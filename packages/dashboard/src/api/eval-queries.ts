/** The queries and mutations of the evaluation pages. */
import type { QueryOf } from '@bellwether/protocol/http'
import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { ask, asks } from './client.js'

const casesPage = 100
const runsShown = 50

export const evalsQuery = (project: string) =>
  queryOptions({
    queryKey: ['evals', project],
    queryFn: asks('GET /projects/:project/evals', { params: { project }, expects: 'suites' }),
    refetchInterval: 10_000,
  })

export const evalRunsQuery = (project: string) =>
  queryOptions({
    queryKey: ['evals', project, 'runs'],
    queryFn: asks('GET /projects/:project/eval-runs', {
      params: { project },
      query: { limit: runsShown },
      expects: 'runs',
    }),
    refetchInterval: 5_000,
  })

export const evalRunQuery = (project: string, run: string) =>
  queryOptions({
    queryKey: ['evals', project, 'run', run],
    queryFn: ({ signal }) =>
      ask('GET /projects/:project/eval-runs/:run', {
        params: { project, run },
        query: { against: 'last' },
        signal,
        expects: 'variants',
      }),
    // A run that has ended never changes.
    refetchInterval: ({ state }) => ((state.data?.ended_at ?? null) === null ? 2_000 : false),
  })

export type Shown = QueryOf<'GET /projects/:project/eval-runs/:run/results'>['show']

export const evalCasesQuery = (project: string, run: string, shown: Shown, isOpen: boolean) =>
  infiniteQueryOptions({
    queryKey: ['evals', project, 'run', run, 'cases', shown],
    queryFn: ({ pageParam: cursor, signal }) =>
      ask('GET /projects/:project/eval-runs/:run/results', {
        params: { project, run },
        query: { show: shown, cursor, limit: casesPage },
        signal,
        expects: 'cases',
      }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.cursor ?? undefined,
    refetchInterval: isOpen ? 3_000 : false,
  })

export const evalCaseQuery = (project: string, run: string, number: number) =>
  queryOptions({
    queryKey: ['evals', project, 'run', run, 'case', number],
    queryFn: asks('GET /projects/:project/eval-runs/:run/results/:number', {
      params: { project, run, number: String(number) },
      expects: 'results',
    }),
  })

export const startEval = (project: string, suite: string) =>
  ask('POST /projects/:project/evals/:suite/runs', { params: { project, suite }, body: {} })

export const stopEval = (project: string, run: string) =>
  ask('POST /projects/:project/eval-runs/:run/stop', { params: { project, run } })
