/** The queries of the workspace page. A folder is read when it is opened. */
import { keepPreviousData, queryOptions } from '@tanstack/react-query'
import { ask, asks, asksIfOffered } from './client.js'
import type { Entry, ViewStats } from './types.js'

export const viewsQuery = queryOptions({
  queryKey: ['views'],
  queryFn: asksIfOffered('GET /views', { expects: 'views' }, { views: [] }),
  refetchInterval: 15_000,
})

export const statsQuery = (view: string) =>
  queryOptions({
    queryKey: ['view', view, 'stats'],
    // Without a path the answer is about the whole view.
    queryFn: async ({ signal }) =>
      (await ask('GET /views/:view/stats', { params: { view }, signal, expects: 'sources' })) as ViewStats,
    refetchInterval: 5_000,
  })

export const sessionsQuery = (view: string) =>
  queryOptions({
    queryKey: ['view', view, 'sessions'],
    queryFn: asks('GET /views/:view/sessions', { params: { view }, expects: 'sessions' }),
    refetchInterval: 5_000,
  })

export const blindSpotsQuery = (view: string, source: string | undefined) =>
  queryOptions({
    queryKey: ['view', view, 'blind-spots', source ?? ''],
    queryFn: asks('GET /views/:view/blind-spots', { params: { view }, query: { source }, expects: 'deletions' }),
    refetchInterval: 15_000,
  })

export const folderQuery = (view: string, source: string | undefined, path: string) =>
  queryOptions({
    queryKey: ['view', view, 'folder', source ?? '', path],
    queryFn: async ({ signal }): Promise<readonly Entry[]> => {
      const query = { path, recursive: false, source }
      const answer = await ask('GET /views/:view/tree', { params: { view }, query, signal, expects: 'job_id' })
      // Several sources answer with one tree each.
      const node = 'members' in answer ? Object.values(answer.members).find((member) => member !== null) : answer
      return node !== undefined && 'children' in node ? (node.children ?? []) : []
    },
    staleTime: 30_000,
  })

// As many as a person reads; the response says if there are more.
const foundMax = 500

export const searchQuery = (view: string, source: string | undefined, words: string) =>
  queryOptions({
    queryKey: ['view', view, 'search', source ?? '', words],
    queryFn: asks('GET /views/:view/search', {
      params: { view },
      query: { pattern: patternOf(words), limit: foundMax, source },
      expects: 'results',
    }),
    placeholderData: keepPreviousData,
  })

/** A pattern stays as it is; plain text matches anywhere in a name. */
function patternOf(words: string): string {
  return /[*?[\]]/.test(words) ? words : `*${words}*`
}
