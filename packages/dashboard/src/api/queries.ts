/**
 * The queries of the pages: cache key, route and refetch interval of each, once. Lists are bounded by what a page can
 * show. A route that the server does not offer (404) is an answer, not an error.
 */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from '@tanstack/react-query'
import type { QueryFor } from '@bellwether/protocol/http'
import type { TurnStatus } from '@bellwether/protocol'
import { recent } from '../live/recent.js'
import { patchAgents } from '../live/patch.js'
import { ask, ifOffered, serverNowMs } from './client.js'
import type { Agent, Agents, Choice, Health, Task } from './types.js'

export const meQuery = queryOptions({
  queryKey: ['me'],
  queryFn: ({ signal }) => ask('GET /me', { signal }),
  staleTime: Infinity,
})

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
    queryFn: ({ signal }) =>
      ifOffered(ask('GET /projects/:project/workers', { params: { project }, signal, expects: 'workers' }), {
        workers: undefined,
      }),
    refetchInterval: 10_000,
  })

/** A list that is read page by page while the person scrolls. */
const nextPage = <Cursor>(page: { readonly cursor: Cursor | null }) => page.cursor ?? undefined

/** The filters of the Turns page, as its address has them. */
export interface TurnFilter {
  readonly status?: TurnStatus | undefined
  readonly agent?: string | undefined
  /** A word of `periods`. */
  readonly last?: Period | undefined
  readonly error?: string | undefined
  /** Dollars. */
  readonly cost?: string | undefined
  readonly text?: string | undefined
}

/** How far back the list goes, in hours. */
export const periods = { hour: 1, day: 24, week: 168, month: 720 } as const
export type Period = keyof typeof periods

export const turnsQuery = (project: string, filter: TurnFilter) =>
  infiniteQueryOptions({
    queryKey: ['turns', project, filter],
    queryFn: ({ pageParam: cursor, signal }) => {
      const { status, agent, last, error, cost, text } = filter
      const micros = Math.ceil(Number(cost) * 1_000_000)
      const query: QueryFor<'GET /projects/:project/turns'> = {
        ...{ status, agent, error, text, cursor, limit: 100 },
        since: last && new Date(serverNowMs() - periods[last] * 3_600_000).toISOString(),
        min_cost_micros: micros > 0 ? micros : undefined,
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

/** `isOver`: the turn has ended, so that its spans do not change. */
export const spansQuery = (project: string, turn: string, isOver: boolean) =>
  queryOptions({
    queryKey: ['spans', project, turn, isOver],
    queryFn: ({ signal }) =>
      ask('GET /projects/:project/turns/:turn/spans', { params: { project, turn }, signal, expects: 'spans' }),
    placeholderData: keepPreviousData,
    refetchInterval: isOver ? false : 5_000,
  })

export const replayQuery = (project: string, turn: string) =>
  queryOptions({
    queryKey: ['replay', project, turn],
    queryFn: ({ signal }) => ask('GET /projects/:project/turns/:turn/replay', { params: { project, turn }, signal }),
    // The trail of an ended turn never changes.
    staleTime: Infinity,
  })

export const exportTurn = (project: string, turn: string) =>
  ask('GET /projects/:project/turns/:turn/export', { params: { project, turn } })

export const cardQuery = (project: string, card: string) =>
  queryOptions({
    queryKey: ['card', project, card],
    queryFn: ({ signal }) => ask('GET /projects/:project/cards/:card', { params: { project, card }, signal }),
    // Cards never change.
    staleTime: Infinity,
  })

export const schedulesQuery = (project: string) =>
  queryOptions({
    queryKey: ['schedules', project],
    queryFn: ({ signal }) =>
      ask('GET /projects/:project/schedules', {
        params: { project },
        query: { limit: 500 },
        signal,
        expects: 'schedules',
      }),
    refetchInterval: 10_000,
  })

export const scheduleQuery = (project: string, schedule: string) =>
  queryOptions({
    queryKey: ['schedules', project, schedule],
    queryFn: ({ signal }) =>
      ask('GET /projects/:project/schedules/:schedule', {
        params: { project, schedule },
        signal,
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

export const questionsQuery = (project: string) =>
  queryOptions({
    queryKey: ['questions', project],
    queryFn: ({ signal }) =>
      ifOffered(
        ask('GET /projects/:project/questions', {
          params: { project },
          query: { limit: 500 },
          signal,
          expects: 'questions',
        }),
        { questions: [] },
      ),
    refetchInterval: 10_000,
  })

export const approvalsQuery = (project: string) =>
  queryOptions({
    queryKey: ['approvals', project],
    queryFn: ({ signal }) =>
      ifOffered(
        ask('GET /projects/:project/approvals', {
          params: { project },
          query: { limit: 500 },
          signal,
          expects: 'approvals',
        }),
        { approvals: [] },
      ),
    // A program that asks while its turn runs causes no event.
    refetchInterval: 5_000,
  })

export const grantsQuery = (project: string) =>
  queryOptions({
    queryKey: ['grants', project],
    queryFn: ({ signal }) =>
      ifOffered(
        ask('GET /projects/:project/grants', { params: { project }, query: { limit: 500 }, signal, expects: 'grants' }),
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
  /** How many exist, shown or not. */
  readonly open: number
  readonly done: number
  readonly choice: Choice | null
  readonly isPaused: boolean
  /** False if the server has no board. */
  readonly isOffered: boolean
}

const openMax = 1_000
const doneMax = 50

export const boardQuery = queryOptions({
  queryKey: ['board'],
  queryFn: async ({ signal }): Promise<Board> => {
    const read = (query: QueryFor<'GET /board/tasks'>) =>
      ifOffered(ask('GET /board/tasks', { query, signal, expects: 'tasks' }), null)
    const [open, done] = await Promise.all([
      read({ done: false, limit: openMax }),
      read({ status: 'done', limit: doneMax }),
    ])
    return {
      tasks: [...(open?.tasks ?? []), ...(done?.tasks ?? [])],
      open: open?.total ?? 0,
      done: done?.total ?? 0,
      choice: open?.choice ?? null,
      isPaused: (open?.paused ?? null) !== null,
      isOffered: open !== null,
    }
  },
  refetchInterval: 10_000,
})

export const taskQuery = (task: string) =>
  queryOptions({
    queryKey: ['task', task],
    queryFn: ({ signal }) => ask('GET /board/tasks/:task', { params: { task }, signal, expects: 'runs' }),
    refetchInterval: 10_000,
  })

export const checksQuery = queryOptions({
  queryKey: ['checks'],
  queryFn: ({ signal }) => ifOffered(ask('GET /board/checks', { signal, expects: 'checks' }), { checks: [] }),
})

const noComponents: Health = {
  summary: { status: 'ok', units: 0, restarts: 0, changes: 0, troubled: {} },
  components: [],
}

export const quotasQuery = queryOptions({
  queryKey: ['quotas'],
  queryFn: ({ signal }) => ifOffered(ask('GET /quotas', { signal, expects: 'holds' }), { holds: [], limits: [] }),
  refetchInterval: 5_000,
})

export const healthQuery = queryOptions({
  queryKey: ['health'],
  queryFn: ({ signal }) => ifOffered(ask('GET /health/components', { signal, expects: 'components' }), noComponents),
  refetchInterval: 5_000,
})
