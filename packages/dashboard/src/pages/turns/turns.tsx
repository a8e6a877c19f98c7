/** Turns, newest first, filtered. Older ones load when the end of the list comes near. */
import { reasonInWords } from '@bellwether/protocol/spending'
import { useInfiniteQuery } from '@tanstack/react-query'
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { memo } from 'react'
import { turnsQuery } from '../../api/queries.js'
import type { Turn } from '../../api/types.js'
import { count, oneLine, shortId } from '../../model/text.js'
import { duration, msOf } from '../../model/time.js'
import { Page } from '../../frame/page.js'
import { RunTurn } from './run-turn.js'
import { TurnFilters } from './turn-filters.js'
import { Empty, QueryState } from '../../parts/query-state.js'
import { Status } from '../../parts/status.js'
import { NarrowRow, Table, type Columns } from '../../parts/rows.js'
import { Ago, Countdown, useNow } from '../../parts/time.js'
import { useWide } from '../../parts/wide.js'

export function TurnsPage() {
  const { project } = useParams({ from: '/p/$project/turns' })
  const filter = useSearch({ from: '/p/$project/turns' })
  const navigate = useNavigate({ from: '/p/$project/turns' })
  const turns = useInfiniteQuery(turnsQuery(project, filter))
  const isWide = useWide()
  const open = (turn: Turn) =>
    void navigate({ to: '/p/$project/turns/$turn', params: { project, turn: turn.agent_turn_id } })
  const more = () => {
    if (turns.hasNextPage && !turns.isFetchingNextPage) void turns.fetchNextPage()
  }
  return (
    <Page
      title="Turns"
      tools={
        <>
          <TurnFilters
            filter={filter}
            change={(changed, replace) => void navigate({ search: (old) => ({ ...old, ...changed }), replace })}
            show={(saved) => void navigate({ search: saved })}
          />
          <RunTurn project={project} agent={filter.agent} />
        </>
      }
    >
      <QueryState query={turns}>
        {({ pages }) => {
          const all = pages.flatMap((page) => page.turns)
          if (all.length === 0 && turns.hasNextPage)
            return <SearchOlder search={more} isSearching={turns.isFetchingNextPage} />
          if (all.length === 0)
            return (
              <Empty title={Object.values(filter).some(Boolean) ? 'No matching turns' : 'No turns yet'}>
                Run one with <em>Run a turn…</em>, or with <code>bellwether turn run AGENT &quot;…&quot;</code>.
              </Empty>
            )
          return (
            <div className="panel m-3 flex min-h-0 flex-1 flex-col overflow-hidden">
              <Table
                label="Turns"
                items={all}
                columns={columns}
                isWide={isWide}
                keyOf={(turn) => turn.agent_turn_id}
                open={open}
                onEnd={more}
                note={`${count(all.length)} shown${turns.hasNextPage ? '; scroll for older ones' : ''}`}
              >
                {(turn) => <TurnRow project={project} turn={turn} isWide={isWide} />}
              </Table>
            </div>
          )
        }}
      </QueryState>
    </Page>
  )
}

function SearchOlder({ search, isSearching }: { readonly search: () => void; readonly isSearching: boolean }) {
  return (
    <Empty title="No matches among the newest turns">
      <button type="button" className="button mt-2" disabled={isSearching} onClick={search}>
        Search older turns
      </button>
    </Empty>
  )
}

const columns: Columns = {
  className:
    'grid grid-cols-[112px_minmax(110px,1fr)_minmax(90px,110px)_minmax(120px,1.6fr)_84px_90px_96px] items-center gap-x-3 px-3',
  titles: ['Status', 'Agent', 'Turn', 'Activity', 'Duration', 'Deadline', 'Queued'],
}

interface RowProps {
  readonly project: string
  readonly turn: Turn
  readonly isWide: boolean
}

const TurnRow = memo(({ project, turn, isWide }: RowProps) => {
  const what =
    (turn.error === null ? null : reasonInWords(turn.error)) ??
    turn.current_tool ??
    turn.activity?.replaceAll('_', ' ') ??
    ''
  const id = (
    <Link
      to="/p/$project/turns/$turn"
      params={{ project, turn: turn.agent_turn_id }}
      className="link font-mono text-xs"
      title={oneLine(turn.agent_turn_id)}
    >
      {shortId(turn.agent_turn_id)}
    </Link>
  )
  const activity = (
    <span className={`block truncate ${turn.error === null ? 'text-ink-2' : 'text-bad'}`} title={oneLine(what, 500)}>
      <bdi>{oneLine(what, 120)}</bdi>
    </span>
  )
  if (!isWide)
    return (
      <NarrowRow name={<bdi>{oneLine(turn.agent_id, 80)}</bdi>} status={turn.status}>
        <span role="cell">{id}</span>
        <span role="cell" className="min-w-0 flex-1">
          {activity}
        </span>
        <span role="cell" className="text-ink-3">
          <Ago at={turn.created_at} />
        </span>
      </NarrowRow>
    )
  return (
    <div className={`${columns.className} h-full`}>
      <span role="cell" className="flex min-w-0">
        <Status word={turn.status} />
      </span>
      <span role="cell" className="truncate font-medium">
        <bdi>{oneLine(turn.agent_id, 120)}</bdi>
      </span>
      <span role="cell">{id}</span>
      <span role="cell" className="min-w-0 text-sm">
        {activity}
      </span>
      <span role="cell" className="text-sm text-ink-2">
        <Duration turn={turn} />
      </span>
      <span role="cell" className="text-sm">
        <Countdown until={turn.ended_at === null ? (turn.resume_deadline ?? turn.turn_deadline) : null} />
      </span>
      <span role="cell" className="text-sm text-ink-3">
        <Ago at={turn.created_at} />
      </span>
    </div>
  )
})

function Duration({ turn }: { readonly turn: Turn }) {
  const now = useNow()
  const from = msOf(turn.started_at)
  return <>{from === null ? '–' : duration((msOf(turn.ended_at) ?? now) - from)}</>
}
