/**
 * The queries of the pages: cache key, route and refetch interval of each, once. Lists are bounded by what a page can
 * show. A route that the server does not offer (404) is an answer, not an error.
 */
import { defined } from '@bellwether/base'
import { infiniteQueryOptions, keepPreviousData, queryOptions } from '@tanstack/react-query'
import type { QueryFor, ResponseOf } from '@bellwether/protocol/http'
import type { Outcome, TaskStatus, TurnStatus } from '@bellwether/protocol'
import type { TrendRangeName } from '@bellwether/protocol/trends'
import { recent } from '../live/recent.js'
import { needsPerson } from '../model/board.js'
import { patchAgents } from '../live/patch.js'
import { ask, asks, asksIfOffered, ifOffered, serverNowMs } from './client.js'
import type { Agent, Agents, Choice, Health, Task } from './types.js'

export const meQuery = queryOptions({ queryKey: ['me'], queryFn: asks('GET /me', {}), staleTime: Infinity })

export async function listProjects(signal?: AbortSignal): Promise<readonly string[]> {
  const answer = ask('GET /projects', { signal, expects: 'projects' })
  return (await ifOffered(answer, { projects: [] })).projects.map((project) => project.project_id)
}

export const projectsQuery = queryOptions({
  queryKey: ['projects'],
  queryFn: ({ signal }) => listProjects(signal),
  staleTime: 60_000,
})

const pageSize = 1_000
// As many agents as a browser can hold; beyond that the page says that the list is cut.
const pagesMax = 20

export const agentsQuery = (project: string) =>
  queryOptions({
    queryKey: ['agents', project],
    queryFn: async ({ signal }): Promise<Agents> => {
      const startedAt = recent.mark()
      const agents: Agent[] = []
      let cursor: string | null = ''
      for (let page = 0; page < pagesMax && cursor !== null; page += 1) {
        const query: QueryFor<'GET /projects/:project/agents'> = { limit: pageSize, cursor: cursor || undefined }
        const chunk = await ask('GET /projects/:project/agents', {
          params: { project },
          query,
          signal,
          expects: 'agents',
        })
        agents.push(...chunk.agents)
        cursor = chunk.cursor
      }
      const read: Agents = { agents, cut: cursor !== null, readAtMs: serverNowMs() }
      // Events that arrived during the request may be newer than its response.
      return patchAgents(read, recent.since(startedAt))
    },
    // Not every move has an event: leases and claims are seen by refetching, less often for a large roster.
    refetchInterval: (query) => ((query.state.data?.agents.length ?? 0) > pageSize ? 20_000 : 5_000),
    structuralSharing: false,
  })

export const workersQuery = (project: string) =>
  queryOptions({
    queryKey: ['workers', project],
    queryFn: asksIfOffered(
      'GET /projects/:project/workers',
      { params: { project }, expects: 'workers' },
      { workers: undefined },
    ),
    refetchInterval: 10_000,
  })

/** A list that is read page by page while the person scrolls. */
const nextPage = <Cursor>(page: { readonly cursor: Cursor | null }) => page.cursor ?? undefined

/** The filters of a list, as the address has them. */
interface ListFilter {
  readonly agent?: string | undefined
  /** A word of `periods`. */
  readonly last?: Period | undefined
  readonly error?: string | undefined
  /** Dollars. */
  readonly cost?: string | undefined
  readonly text?: string | undefined
}
export interface TurnFilter extends ListFilter {
  readonly status?: TurnStatus | undefined
  /** Instants between which the turns ended: a bar of the Trends page. */
  readonly from?: string | undefined
  readonly to?: string | undefined
}
export interface TaskFilter extends ListFilter {
  readonly status?: TaskStatus | undefined
  /** How the last run ended. */
  readonly outcome?: Outcome | undefined
}

/** How far back the list goes, in hours. */
export const periods = { hour: 1, day: 24, week: 168, month: 720 } as const
export type Period = keyof typeof periods

/** Without what is empty, so that it fits a query and a body. */
function filterOf({ last, cost, error, agent, text }: ListFilter) {
  const micros = Math.ceil(Number(cost) * 1_000_000)
  return {
    ...defined({ agent, error, text }),
    ...(last === undefined ? {} : { since: new Date(serverNowMs() - periods[last] * 3_600_000).toISOString() }),
    ...(micros > 0 ? { min_cost_micros: micros } : {}),
  }
}

export const turnsQueryOf = ({ status, from, to, ...filter }: TurnFilter) => ({
  ...filterOf(filter),
  ...defined({ status, ended_since: from, ended_until: to }),
})
export const taskQueryOf = ({ status, outcome, ...filter }: TaskFilter) => ({
  ...filterOf(filter),
  ...defined({ status, outcome }),
})

export const turnsQuery = (project: string, filter: TurnFilter) =>
  infiniteQueryOptions({
    queryKey: ['turns', project, filter],
    queryFn: ({ pageParam: cursor, signal }) => {
      const query: QueryFor<'GET /projects/:project/turns'> = {
        ...turnsQueryOf(filter),
        summary: true,
        cursor,
        limit: 100,
      }
      return ask('GET /projects/:project/turns', { params: { project }, query, signal, expects: 'turns' })
    },
    initialPageParam: undefined as string | undefined,
    getNextPageParam: nextPage,
    placeholderData: keepPreviousData,
    refetchInterval: 15_000,
  })

export const turnQuery = (project: string, turn: string) =>
  queryOptions({
    queryKey: ['turn', project, turn],
    queryFn: ({ signal }) =>
      ask('GET /projects/:project/turns/:turn', { params: { project, turn }, signal, expects: 'steps' }),
    refetchInterval: (query) => (query.state.data !== undefined && query.state.data.ended_at !== null ? false : 5_000),
  })

/** `isOver`: the turn has ended, so that its spans do not change. Undefined: unknown yet. */
export const spansQuery = (project: string, turn: string, isOver: boolean | undefined) =>
  queryOptions({
    queryKey: ['spans', project, turn],
    queryFn: asks('GET /projects/:project/turns/:turn/spans', { params: { project, turn }, expects: 'spans' }),
    refetchInterval: isOver === false ? 5_000 : false,
  })

/** Of an ended turn. A file that changes later has no diff any more: what was read once stays. */
export const turnChangesQuery = (project: string, turn: string) =>
  queryOptions({
    queryKey: ['turn-changes', project, turn],
    queryFn: asks('GET /projects/:project/turns/:turn/changes', { params: { project, turn }, expects: 'files' }),
    staleTime: Infinity,
  })

export const replayQuery = (project: string, turn: string) =>
  queryOptions({
    queryKey: ['replay', project, turn],
    queryFn: asks('GET /projects/:project/turns/:turn/replay', { params: { project, turn } }),
    // The trail of an ended turn never changes.
    staleTime: Infinity,
  })

export const exportTurn = (project: string, turn: string) =>
  ask('GET /projects/:project/turns/:turn/export', { params: { project, turn } })

export const cardQuery = (project: string, card: string) =>
  queryOptions({
    queryKey: ['card', project, card],
    queryFn: asks('GET /projects/:project/cards/:card', { params: { project, card } }),
    // Cards never change.
    staleTime: Infinity,
  })

export const schedulesQuery = (project: string) =>
  queryOptions({
    queryKey: ['schedules', project],
    queryFn: asks('GET /projects/:project/schedules', {
      params: { project },
      query: { limit: 500 },
      expects: 'schedules',
    }),
    refetchInterval: 10_000,
  })

export const scheduleQuery = (project: string, schedule: string) =>
  queryOptions({
    queryKey: ['schedules', project, schedule],
    queryFn: asks('GET /projects/:project/schedules/:schedule', {
      params: { project, schedule },
      expects: 'next_fires',
    }),
    refetchInterval: 10_000,
  })

export const firesQuery = (project: string, schedule: string) =>
  infiniteQueryOptions({
    queryKey: ['schedules', project, schedule, 'fires'],
    queryFn: ({ pageParam: cursor, signal }) =>
      ask('GET /projects/:project/schedules/:schedule/fires', {
        params: { project, schedule },
        query: { cursor, limit: 50 },
        signal,
        expects: 'fires',
      }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: nextPage,
    refetchInterval: 10_000,
  })

export const trendsQuery = (project: string, range: TrendRangeName, agent: string | undefined) =>
  queryOptions({
    queryKey: ['trends', project, range, agent ?? ''],
    queryFn: asks('GET /projects/:project/trends', { params: { project }, query: { range, agent }, expects: 'charts' }),
    placeholderData: keepPreviousData,
    // The PMO counts every 15 s.
    refetchInterval: 15_000,
  })

export const questionsQuery = (project: string) =>
  queryOptions({
    queryKey: ['questions', project],
    queryFn: asksIfOffered(
      'GET /projects/:project/questions',
      { params: { project }, query: { limit: 500 }, expects: 'questions' },
      { questions: [] },
    ),
    refetchInterval: 10_000,
  })

export const approvalsQuery = (project: string) =>
  queryOptions({
    queryKey: ['approvals', project],
    queryFn: asksIfOffered(
      'GET /projects/:project/approvals',
      { params: { project }, query: { limit: 500 }, expects: 'approvals' },
      { approvals: [] },
    ),
    // A program that asks while its turn runs causes no event.
    refetchInterval: 5_000,
  })

export const grantsQuery = (project: string) =>
  queryOptions({
    queryKey: ['grants', project],
    queryFn: asksIfOffered(
      'GET /projects/:project/grants',
      { params: { project }, query: { limit: 500 }, expects: 'grants' },
      { grants: [] },
    ),
    refetchInterval: 30_000,
  })

export const interventionsQuery = (project: string, kind: string | undefined) =>
  infiniteQueryOptions({
    queryKey: ['interventions', project, kind ?? ''],
    queryFn: ({ pageParam: cursor, signal }) =>
      ask('GET /watchdog/interventions', {
        query: { project, kind, cursor, limit: 100 },
        signal,
        expects: 'interventions',
      }),
    initialPageParam: undefined as number | undefined,
    getNextPageParam: nextPage,
    placeholderData: keepPreviousData,
    refetchInterval: 10_000,
  })

export interface Board {
  readonly tasks: readonly Task[]
  /** Those in which a person has to act, also if they are not among the tasks. */
  readonly needs: readonly Task[]
  /** How many match, shown or not. */
  readonly open: number
  readonly done: number
  readonly choice: Choice | null
  /** Who paused the board; null: it is not paused. */
  readonly paused: ResponseOf<'GET /board/tasks'>['paused']
  /** False if the server has no board. */
  readonly isOffered: boolean
}

const openMax = 1_000
const doneMax = 50

export const boardQuery = (filter: TaskFilter = {}) =>
  queryOptions({
    queryKey: ['board', filter],
    queryFn: async ({ signal }): Promise<Board> => {
      const { status, ...rest } = filter
      const wanted = taskQueryOf(rest)
      const read = (query: QueryFor<'GET /board/tasks'>) =>
        ifOffered(ask('GET /board/tasks', { query: { ...wanted, ...query }, signal, expects: 'tasks' }), null)
      const [open, done] = await Promise.all([
        status === 'done' ? read({ done: false, limit: 1 }) : read({ status, done: false, limit: openMax }),
        status === undefined || status === 'done' ? read({ status: 'done', limit: doneMax }) : null,
      ])
      const openTasks = status === 'done' ? [] : (open?.tasks ?? [])
      const tasks = [...openTasks, ...(done?.tasks ?? [])]
      const isCut = (open?.total ?? 0) > openMax
      const needs = isCut ? await read({ needs_person: true, limit: openMax }) : null
      return {
        tasks,
        needs: needs?.tasks ?? tasks.filter(needsPerson),
        open: status === 'done' ? 0 : (open?.total ?? 0),
        done: done?.total ?? 0,
        choice: open?.choice ?? null,
        paused: open?.paused ?? null,
        isOffered: open !== null,
      }
    },
    placeholderData: keepPreviousData,
    refetchInterval: 10_000,
  })

export const taskQuery = (task: string) =>
  queryOptions({
    queryKey: ['task', task],
    queryFn: asks('GET /board/tasks/:task', { params: { task }, expects: 'runs' }),
    refetchInterval: 10_000,
  })

export const checksQuery = queryOptions({
  queryKey: ['checks'],
  queryFn: asksIfOffered('GET /board/checks', { expects: 'checks' }, { checks: [] }),
})

const noComponents: Health = {
  summary: { status: 'ok', units: 0, restarts: 0, changes: 0, troubled: {} },
  components: [],
}

export const quotasQuery = queryOptions({
  queryKey: ['quotas'],
  queryFn: asksIfOffered('GET /quotas', { expects: 'holds' }, { holds: [], limits: [] }),
  refetchInterval: 5_000,
})

export const healthQuery = queryOptions({
  queryKey: ['health'],
  queryFn: asksIfOffered('GET /health/components', { expects: 'components' }, noComponents),
  refetchInterval: 5_000,
})
