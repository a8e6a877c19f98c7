/** Turns, newest first, filtered. Older ones load when the end of the list comes near. */
import { turnStatuses } from '@bellwether/protocol/vocabulary'
import { dollars, reasonInWords } from '@bellwether/protocol/spending'
import { useInfiniteQuery } from '@tanstack/react-query'
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { memo } from 'react'
import { turnsQuery, type TurnFilter } from '../../api/queries.js'
import type { Turn } from '../../api/types.js'
import { count, oneLine, shortId, shortNames } from '../../model/text.js'
import { duration, msOf } from '../../model/time.js'
import { Page } from '../../frame/page.js'
import { RunTurn } from './run-turn.js'
import { TurnBulk } from '../bulk/turn-bulk.js'
import { Filters } from '../../parts/filters.js'
import type { Filter } from '../../parts/saved-filters.js'
import { useSelection } from '../../parts/selection.js'
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
          <Filters
            place="turn-filters"
            filter={filter as Filter}
            statuses={turnStatuses}
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
            return Object.values(filter).some(Boolean) ? (
              <Empty title="No matching turns">Change or clear the filter above.</Empty>
            ) : (
              <Empty title="No turns yet">
                Run one with <em>Run a turn…</em>, or with <code>bellwether turn run AGENT &quot;…&quot;</code>.
              </Empty>
            )
          return (
            <TurnList
              project={project}
              filter={filter}
              turns={all}
              open={open}
              more={more}
              hasMore={turns.hasNextPage}
            />
          )
        }}
      </QueryState>
    </Page>
  )
}

interface TurnListProps {
  readonly project: string
  readonly filter: TurnFilter
  readonly turns: readonly Turn[]
  readonly open: (turn: Turn) => void
  readonly more: () => void
  readonly hasMore: boolean
}

function TurnList({ project, filter, turns, open, more, hasMore }: TurnListProps) {
  const isWide = useWide()
  const selection = useSelection(
    JSON.stringify(filter),
    turns.map((turn) => turn.agent_turn_id),
  )
  return (
    <div className="panel m-3 flex min-h-0 flex-1 flex-col overflow-hidden">
      <Table
        label="Turns"
        items={turns}
        columns={columns}
        isWide={isWide}
        keyOf={(turn) => turn.agent_turn_id}
        open={open}
        onEnd={more}
        selecting={{
          selection,
          nameOf: (turn) => `turn ${shortId(turn.agent_turn_id)} of ${oneLine(turn.agent_id, 80)}`,
        }}
        note={`${count(turns.length)} shown${hasMore ? '; scroll for older ones' : ''}`}
        actions={<TurnBulk project={project} filter={filter} selection={selection} />}
      >
        {(turn) => <TurnRow project={project} turn={turn} isWide={isWide} />}
      </Table>
    </div>
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
    'grid grid-cols-[96px_minmax(70px,0.8fr)_minmax(120px,2fr)_minmax(80px,1fr)_84px_60px_84px_80px] items-center gap-x-3 px-3',
  titles: ['Status', 'Agent', 'Instruction', 'Activity, error', 'Duration', 'Cost', 'Time left', 'Queued'],
  alignedRight: ['Duration', 'Cost', 'Time left'],
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
  const title = titleOf(turn.instruction ?? '')
  const link = (
    <Link
      to="/p/$project/turns/$turn"
      params={{ project, turn: turn.agent_turn_id }}
      className={`link block truncate ${title === '' ? 'font-mono text-xs' : ''}`}
      title={oneLine(`${shortId(turn.agent_turn_id)} ${turn.instruction ?? ''}`, 300)}
    >
      <bdi>{title === '' ? shortId(turn.agent_turn_id) : title}</bdi>
    </Link>
  )
  const activity = (
    <span className={`block truncate ${turn.error === null ? 'text-ink-2' : 'text-bad'}`} title={oneLine(what, 500)}>
      <bdi>{oneLine(what, 120)}</bdi>
    </span>
  )
  const cost = turn.cost_micros ?? null
  if (!isWide)
    return (
      <NarrowRow name={<bdi>{oneLine(shortNames(turn.agent_id), 80)}</bdi>} status={turn.status}>
        <span role="cell" className="min-w-0 flex-1">
          {link}
        </span>
        {turn.error !== null && (
          <span role="cell" className="max-w-2/5 min-w-0">
            {activity}
          </span>
        )}
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
      <span role="cell" className="truncate font-medium" title={oneLine(turn.agent_id, 200)}>
        <bdi>{oneLine(shortNames(turn.agent_id), 120)}</bdi>
      </span>
      <span role="cell" className="min-w-0">
        {link}
      </span>
      <span role="cell" className="min-w-0 text-sm">
        {activity}
      </span>
      <span role="cell" className="text-right text-sm whitespace-nowrap text-ink-2">
        <Duration turn={turn} />
      </span>
      <span role="cell" className="text-right text-sm text-ink-2">
        {/* A new element per amount: a right-aligned text that grows would count as a layout shift. */}
        <span key={cost}>{cost === null ? '–' : dollars(cost)}</span>
      </span>
      <span role="cell" className="text-right text-sm">
        <Countdown until={turn.ended_at === null ? (turn.resume_deadline ?? turn.turn_deadline) : null} />
      </span>
      <span role="cell" className="text-sm text-ink-3">
        <Ago at={turn.created_at} />
      </span>
    </div>
  )
})

/** The first line of an instruction; the board begins with the title of the task as a heading. */
const titleOf = (instruction: string) => oneLine(instruction.replace(/^#+ /, '').split('\n')[0] ?? '', 160)

function Duration({ turn }: { readonly turn: Turn }) {
  const now = useNow()
  const from = msOf(turn.started_at)
  const text = from === null ? '–' : duration((msOf(turn.ended_at) ?? now) - from)
  return <span key={text}>{text}</span>
}
