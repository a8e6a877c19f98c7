/** The queries of the workspace page. A folder is read when it is opened. */
import { keepPreviousData, queryOptions } from '@tanstack/react-query'
import { ask, ifOffered } from './client.js'
import type { BlindSpots, FileNode, Folder, Found, SensorSession, ViewLine, ViewStats } from './board-types.js'

const ofView = (view: string, rest: string) => `/views/${encodeURIComponent(view)}${rest}`

export const viewsQuery = queryOptions({
  queryKey: ['views'],
  queryFn: ({ signal }) =>
    ifOffered<{ views: readonly ViewLine[] }>(ask('/views', { signal, list: 'views' }), { views: [] }),
  refetchInterval: 15_000,
})

export const statsQuery = (view: string) =>
  queryOptions({
    queryKey: ['view', view, 'stats'],
    queryFn: ({ signal }) => ask<ViewStats>(ofView(view, '/stats'), { signal }),
    refetchInterval: 5_000,
  })

export const sessionsQuery = (view: string) =>
  queryOptions({
    queryKey: ['view', view, 'sessions'],
    queryFn: ({ signal }) =>
      ask<{ sessions: readonly SensorSession[] }>(ofView(view, '/sessions'), { signal, list: 'sessions' }),
    refetchInterval: 5_000,
  })

export const blindSpotsQuery = (view: string, source: string | undefined) =>
  queryOptions({
    queryKey: ['view', view, 'blind-spots', source ?? ''],
    queryFn: ({ signal }) =>
      ask<BlindSpots>(ofView(view, '/blind-spots'), { query: { source }, signal, list: 'deletions' }),
    refetchInterval: 15_000,
  })

interface TreeAnswer extends FileNode {
  /** If a view has several sources. */
  readonly members?: Readonly<Record<string, FileNode | null>>
}

export const folderQuery = (view: string, source: string | undefined, path: string) =>
  queryOptions({
    queryKey: ['view', view, 'folder', source ?? '', path],
    queryFn: async ({ signal }): Promise<Folder> => {
      const query = { path, recursive: false, source }
      const response = await ask<TreeAnswer>(ofView(view, '/tree'), { query, signal })
      const node =
        response.members === undefined ? response : Object.values(response.members).find((member) => member !== null)
      return { path, children: node?.children ?? [] }
    },
    staleTime: 30_000,
  })

// As many as a person reads; the response says if there are more.
const foundMax = 500

export const searchQuery = (view: string, source: string | undefined, words: string) =>
  queryOptions({
    queryKey: ['view', view, 'search', source ?? '', words],
    queryFn: ({ signal }) =>
      ask<Found>(ofView(view, '/search'), {
        query: { pattern: patternOf(words), limit: foundMax, source },
        signal,
        list: 'results',
      }),
    placeholderData: keepPreviousData,
  })

/** A pattern stays as it is; plain text matches anywhere in a name. */
export function patternOf(words: string): string {
  return /[*?[\]]/.test(words) ? words : `*${words}*`
}
