/**
 * The queries of the pages: cache key, URL and refetch interval of each, once. Lists are bounded by what a page can
 * show. A route that the server does not offer (404) is an answer, not an error.
 */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from '@tanstack/react-query'
import { recent } from '../live/recent.js'
import { patchAgents } from '../live/patch.js'
import { ask, ifOffered, serverNowMs } from './client.js'
import type { Choice, Components, Task, TaskDetail, Tasks } from './board-types.js'
import type { Agent, Agents, Card, Intervention, Me, Question, Turn, TurnDetail, Worker } from './types.js'

const encode = encodeURIComponent
const inProject = (project: string, rest: string) => `/projects/${encode(project)}${rest}`

export const meQuery = queryOptions({
  queryKey: ['me'],
  queryFn: ({ signal }) => ask<Me>('/me', { signal }),
  staleTime: Infinity,
})

export async function listProjects(signal?: AbortSignal): Promise<readonly string[]> {
  const none = { projects: [] }
  const response = ask<{ projects: readonly { project_id: string }[] }>('/projects', {
    list: 'projects',
    ...(signal === undefined ? {} : { signal }),
  })
  return (await ifOffered(response, none)).projects.map((one) => one.project_id)
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
        const query = { limit: pageSize, ...(cursor === '' ? {} : { cursor }) }
        const chunk: { agents: Agent[]; cursor: string | null } = await ask(inProject(project, '/agents'), {
          query,
          signal,
          list: 'agents',
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
      ifOffered<{ workers: readonly Worker[] | undefined }>(
        ask(inProject(project, '/workers'), { signal, list: 'workers' }),
        {
          workers: undefined,
        },
      ),
    refetchInterval: 10_000,
  })

export interface TurnFilter {
  readonly status?: string | undefined
  readonly agent?: string | undefined
}

export const turnsQuery = (project: string, { status, agent }: TurnFilter) =>
  infiniteQueryOptions({
    queryKey: ['turns', project, status ?? '', agent ?? ''],
    queryFn: ({ pageParam, signal }) =>
      ask<{ turns: readonly Turn[]; cursor: string | null }>(inProject(project, '/turns'), {
        query: { status, agent, cursor: pageParam, limit: 100 },
        signal,
        list: 'turns',
      }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.cursor ?? undefined,
    placeholderData: keepPreviousData,
    refetchInterval: 15_000,
  })

export const turnQuery = (project: string, turn: string) =>
  queryOptions({
    queryKey: ['turn', project, turn],
    queryFn: ({ signal }) => ask<TurnDetail>(inProject(project, `/turns/${encode(turn)}`), { signal, list: 'steps' }),
    refetchInterval: (query) => (query.state.data !== undefined && query.state.data.ended_at !== null ? false : 5_000),
  })

export const cardQuery = (project: string, card: string) =>
  queryOptions({
    queryKey: ['card', project, card],
    queryFn: ({ signal }) => ask<Card>(inProject(project, `/cards/${encode(card)}`), { signal }),
    // Cards never change.
    staleTime: Infinity,
  })

export const questionsQuery = (project: string) =>
  queryOptions({
    queryKey: ['questions', project],
    queryFn: ({ signal }) =>
      ifOffered<{ questions: readonly Question[] }>(
        ask(inProject(project, '/questions'), { query: { limit: 500 }, signal, list: 'questions' }),
        { questions: [] },
      ),
    refetchInterval: 10_000,
  })

export const interventionsQuery = (project: string, kind: string | undefined) =>
  infiniteQueryOptions({
    queryKey: ['interventions', project, kind ?? ''],
    queryFn: ({ pageParam, signal }) =>
      ask<{ interventions: readonly Intervention[]; cursor: number | null }>('/watchdog/interventions', {
        query: { project, kind, cursor: pageParam, limit: 100 },
        signal,
        list: 'interventions',
      }),
    initialPageParam: undefined as number | undefined,
    getNextPageParam: (page) => page.cursor ?? undefined,
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
    const none: Tasks | null = null
    const [open, done] = await Promise.all([
      ifOffered<Tasks | null>(
        ask('/board/tasks', { query: { done: false, limit: openMax }, signal, list: 'tasks' }),
        none,
      ),
      ifOffered<Tasks | null>(
        ask('/board/tasks', { query: { status: 'done', limit: doneMax }, signal, list: 'tasks' }),
        none,
      ),
    ])
    return {
      tasks: [...(open?.tasks ?? []), ...(done?.tasks ?? [])],
      open: open?.total ?? 0,
      done: done?.total ?? 0,
      choice: open?.choice ?? null,
      isPaused: open?.paused !== undefined && open.paused !== null && open.paused !== false,
      isOffered: open !== null,
    }
  },
  refetchInterval: 10_000,
})

export const taskQuery = (id: string) =>
  queryOptions({
    queryKey: ['task', id],
    queryFn: ({ signal }) => ask<TaskDetail>(`/board/tasks/${encode(id)}`, { signal, list: 'runs' }),
    refetchInterval: 10_000,
  })

export const healthQuery = queryOptions({
  queryKey: ['health'],
  queryFn: ({ signal }) =>
    ifOffered<Components>(ask('/health/components', { signal, list: 'components' }), {
      summary: { status: 'ok', units: 0, restarts: 0, changes: 0 },
      components: [],
    }),
  refetchInterval: 5_000,
})
