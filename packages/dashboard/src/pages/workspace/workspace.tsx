/** Workspace page: the file tree of a view with its marks, its sensors and its last audit. */
import { useQuery } from '@tanstack/react-query'
import { useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useDeferredValue } from 'react'
import { urlOf } from '../../api/client.js'
import type { ViewStats } from '../../api/types.js'
import { blindSpotsQuery, searchQuery, sessionsQuery, statsQuery, viewsQuery } from '../../api/view-queries.js'
import { oneLine } from '../../model/text.js'
import { useStream } from '../../live/live.js'
import { FileTree } from './file-tree.js'
import { FoundFiles } from './found-files.js'
import { Page } from '../../frame/page.js'
import { Search } from '../../parts/search.js'
import { Empty, QueryState } from '../../parts/query-state.js'
import { ViewFacts } from './view-facts.js'
import { useWide } from '../../parts/wide.js'

export function WorkspacePage() {
  const { project } = useParams({ from: '/p/$project/workspace' })
  const { view: wanted, source, q } = useSearch({ from: '/p/$project/workspace' })
  const navigate = useNavigate({ from: '/p/$project/workspace' })
  const viewList = useQuery(viewsQuery)
  const views = (viewList.data?.views ?? []).map(({ view_id: name }) => name)
  const view = wanted ?? views[0]
  return (
    <Page
      title="Workspace"
      tools={
        <>
          <Search
            label="Search files"
            value={q ?? ''}
            change={(words) => void navigate({ search: (old) => ({ ...old, q: words }), replace: true })}
          />
          {views.length > 1 && (
            <select
              className="field"
              aria-label="View"
              value={view}
              onChange={(event) => void navigate({ search: { view: event.target.value } })}
            >
              {views.map((name) => (
                <option key={name} value={name}>
                  {oneLine(name, 60)}
                </option>
              ))}
            </select>
          )}
        </>
      }
    >
      <QueryState
        query={viewList}
        isEmpty={() => view === undefined}
        empty={
          <Empty title="No folder is watched">
            Start <code>bellwether sensor --root DIR</code> to show its files here.
          </Empty>
        }
      >
        {() => <Workspace key={`${project} ${view}`} view={view ?? ''} source={source} words={q ?? ''} />}
      </QueryState>
    </Page>
  )
}

interface WorkspaceProps {
  readonly view: string
  readonly source: string | undefined
  readonly words: string
}

function Workspace({ view, source, words }: WorkspaceProps) {
  const stats = useQuery(statsQuery(view))
  const sessions = useQuery(sessionsQuery(view))
  const wanted = useDeferredValue(words.trim())
  const found = useQuery({ ...searchQuery(view, source, wanted), enabled: wanted !== '' })
  useStream(urlOf('GET /views/:view/events', { view }), ['view', view])
  const sources = Object.keys(stats.data?.sources ?? {})
  const spots = useQuery(blindSpotsQuery(view, undefined)).data
  const blindSpots = spots && spots.additions_count + spots.deletion_count
  const chosen = source ?? (sources.length > 1 ? sources[0] : undefined)
  const isWide = useWide()
  const facts = (data: ViewStats) => (
    <ViewFacts stats={data} sessions={sessions.data?.sessions ?? []} blindSpots={blindSpots} chosen={chosen} />
  )
  return (
    <QueryState query={stats}>
      {(data) => (
        <div className="flex min-h-0 flex-1 flex-col-reverse gap-3 p-3 min-[900px]:flex-row">
          <div className="panel min-h-64 min-w-0 flex-1 overflow-hidden">
            {wanted === '' ? (
              <FileTree key={chosen} view={view} source={chosen} />
            ) : (
              <QueryState query={found} isFramed>
                {(answer) => <FoundFiles found={answer} />}
              </QueryState>
            )}
          </div>
          {isWide ? (
            <div className="w-72 shrink-0 overflow-auto" tabIndex={0} role="group" aria-label="About this view">
              {facts(data)}
            </div>
          ) : (
            // On a small window files come before the summary.
            <details className="max-h-[60%] shrink-0 overflow-auto">
              <summary className="panel px-3 py-1.5 font-semibold">About this view</summary>
              <div className="pt-3">{facts(data)}</div>
            </details>
          )}
        </div>
      )}
    </QueryState>
  )
}
