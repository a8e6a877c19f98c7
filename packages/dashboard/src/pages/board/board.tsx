/** Board page: tasks by status, each with its assignee, what it waits for and what it has cost. */
import { taskStatuses } from '@bellwether/protocol/vocabulary'
import { useQuery } from '@tanstack/react-query'
import { useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { serverNowMs, urlOf } from '../../api/client.js'
import { boardQuery, type Board, type TaskFilter } from '../../api/queries.js'
import type { Choice } from '../../api/types.js'
import { columnsOf, type Column } from '../../model/board.js'
import { appearanceOf } from '../../model/status.js'
import { count, oneLine, plural } from '../../model/text.js'
import { plainTimes } from '../../model/time.js'
import { useListKeys } from '../../keyboard/shortcut-list.js'
import { useStream } from '../../live/live.js'
import { Glyph } from '../../parts/glyph.js'
import { Page } from '../../frame/page.js'
import { Filters } from '../../parts/filters.js'
import type { Filter } from '../../parts/saved-filters.js'
import { SelectBox } from '../../parts/select-box.js'
import { useSelection, type Selection } from '../../parts/selection.js'
import { Ago } from '../../parts/time.js'
import { TaskBulk } from '../bulk/task-bulk.js'
import { PauseBoard } from './pause-board.js'
import { Empty, QueryState } from '../../parts/query-state.js'
import { Chip, toneText } from '../../parts/status.js'
import { TaskCard } from './task-card.js'
import { TaskDrawer } from './task-drawer.js'
import { TaskForm } from './task-form.js'

// How many tasks a column renders at first; a button loads more.
const drawnMax = 50

export function BoardPage() {
  const { project } = useParams({ from: '/p/$project/board' })
  const { task, ...filter } = useSearch({ from: '/p/$project/board' })
  const navigate = useNavigate({ from: '/p/$project/board' })
  const board = useQuery(boardQuery(filter))
  useStream(board.data?.isOffered === true ? urlOf('GET /board/events') : undefined, ['board'])
  const [isAdding, setAdding] = useState(false)
  const open = (id: string | undefined) => void navigate({ search: (old) => ({ ...old, task: id }) })
  const isFiltered = Object.values(filter).some(Boolean)
  return (
    <Page
      title="Board"
      tools={
        <>
          <Filters
            place="task-filters"
            filter={filter as Filter}
            statuses={taskStatuses}
            hasOutcome
            change={(changed, replace) => void navigate({ search: (old) => ({ ...old, ...changed }), replace })}
            show={(saved) => void navigate({ search: saved })}
          />
          {/* There from the start: on a small window they have a row of their own. */}
          {board.data?.isOffered !== false && (
            <>
              <button
                type="button"
                className="button"
                aria-keyshortcuts="n"
                disabled={board.data === undefined}
                onClick={() => setAdding(true)}
              >
                New task…
              </button>
              <PauseBoard paused={board.data?.paused} isOff={board.data === undefined} />
            </>
          )}
        </>
      }
    >
      <QueryState
        query={board}
        skeleton={<BoardSkeleton />}
        isEmpty={(data) => !data.isOffered || data.tasks.length === 0}
        empty={<NoTasks isOffered={board.data?.isOffered ?? false} isFiltered={isFiltered} />}
      >
        {(data) => <Columns project={project} filter={filter} board={data} open={open} />}
      </QueryState>
      {isAdding && (
        <TaskForm
          project={project}
          close={() => setAdding(false)}
          saved={(id) => {
            setAdding(false)
            open(id)
          }}
        />
      )}
      {task !== undefined && <TaskDrawer key={task} project={project} id={task} close={() => open(undefined)} />}
    </Page>
  )
}

function NoTasks({ isOffered, isFiltered }: { readonly isOffered: boolean; readonly isFiltered: boolean }) {
  if (!isOffered)
    return (
      <Empty title="This server has no board.">
        Give it a task root: <code>[board] root</code> in <code>bellwether.toml</code>.
      </Empty>
    )
  if (isFiltered)
    return (
      <Empty title="No matching tasks">
        Change or clear the filter above. Without the status <em>done</em>, only the newest finished tasks are searched.
      </Empty>
    )
  return (
    <Empty title="No tasks yet">
      Add one with <em>New task…</em>, or with <code>bellwether task add &quot;…&quot;</code>.
    </Empty>
  )
}

interface ColumnsProps {
  readonly project: string
  readonly filter: TaskFilter
  readonly board: Board
  readonly open: (id: string) => void
}

function Columns({ project, filter, board, open }: ColumnsProps) {
  const columns = columnsOf(board.tasks)
  const inOrder = columns.flatMap((column) => column.tasks.slice(0, drawnMax))
  const ids = inOrder.map(({ taskId }) => taskId)
  const selection = useSelection(
    JSON.stringify(filter),
    columns.flatMap((column) => column.tasks.map(({ taskId }) => taskId)),
  )
  useListKeys({
    count: inOrder.length,
    show: (at) => document.querySelector<HTMLElement>(`[data-task="${CSS.escape(ids[at]!)}"]`)?.focus(),
    open: (at) => open(ids[at]!),
    select: (at, isRange) => selection.toggle(ids[at]!, isRange),
    clear: selection.clear,
  })
  const total = board.open + board.done
  return (
    <>
      <Next choice={board.choice} paused={board.paused} open={open} />
      <Jumps columns={columns} />
      <div
        className="flex min-h-0 flex-1 gap-2 overflow-x-auto p-3"
        tabIndex={0}
        role="group"
        aria-label="Board columns"
      >
        {columns.map((column) => (
          <ColumnOf
            key={column.status}
            column={column}
            total={column.status === 'done' ? board.done : column.tasks.length}
            selection={selection}
            open={open}
          />
        ))}
      </div>
      <div className="flex flex-wrap items-center gap-x-3 border-t border-line bg-panel px-3 py-1">
        <p className="label">
          {total > board.tasks.length
            ? `${plural(board.tasks.length, 'task')} of ${count(total)} shown`
            : plural(board.tasks.length, 'task')}
        </p>
        <TaskBulk project={project} filter={filter} tasks={board.tasks} total={total} selection={selection} />
      </div>
    </>
  )
}

interface NextProps {
  readonly choice: Choice | null
  readonly paused: Board['paused']
  readonly open: (id: string) => void
}

/** The next task and the reason, or why none is dispatched. */
function Next({ choice, paused, open }: NextProps) {
  if (choice === null) return null
  const id = choice.taskId
  return (
    <p className="flex h-9 items-center gap-2 border-b border-line px-4 text-sm">
      {paused !== null && (
        <Chip tone="wait" title={oneLine(paused.reason ?? 'no reason was given', 300)}>
          paused by {oneLine(paused.by, 40)}, <Ago at={paused.at} />
        </Chip>
      )}
      <span className="font-medium">{id === null ? 'No task starts next' : 'Next:'}</span>
      {id !== null && (
        <button type="button" className="link font-mono text-xs" onClick={() => open(id)}>
          {oneLine(id, 40)}
        </button>
      )}
      <span className="min-w-0 flex-1 truncate text-ink-2" title={oneLine(choice.because, 500)}>
        because {oneLine(plainTimes(choice.because, serverNowMs()), 300)}
      </span>
    </p>
  )
}

/** Links to the columns, which do not all fit on a small window. */
function Jumps({ columns }: { readonly columns: readonly Column[] }) {
  const show = (status: string) =>
    document.getElementById(columnId(status))?.scrollIntoView({ inline: 'start', block: 'nearest' })
  return (
    <nav aria-label="Columns" className="flex shrink-0 gap-1.5 overflow-x-auto px-3 pt-2 md:hidden">
      {columns
        .filter(({ tasks }) => tasks.length > 0)
        .map(({ status, tasks }) => {
          const appearance = appearanceOf(status)
          return (
            <button key={status} type="button" className="button gap-1.5 px-2 text-sm" onClick={() => show(status)}>
              <span className={toneText[appearance.tone]}>
                <Glyph shape={appearance.shape} />
              </span>
              {oneLine(appearance.word, 30)}
              <span className="text-ink-3">{count(tasks.length)}</span>
            </button>
          )
        })}
    </nav>
  )
}

const columnId = (status: string) => `column-${status}`

function ColumnOf({
  column,
  total,
  selection,
  open,
}: {
  readonly column: Column
  readonly total: number
  readonly selection: Selection
  readonly open: (id: string) => void
}) {
  const [drawn, setDrawn] = useState(drawnMax)
  const appearance = appearanceOf(column.status)
  const rest = column.tasks.length - drawn
  return (
    <section
      id={columnId(column.status)}
      className="flex w-[264px] shrink-0 scroll-ml-3 flex-col md:w-auto md:min-w-[138px] md:flex-1"
      aria-label={appearance.word}
    >
      <h2 className="flex items-center gap-1.5 px-1 pb-1.5 text-sm font-semibold" title={appearance.means}>
        <span className={toneText[appearance.tone]}>
          <Glyph shape={appearance.shape} />
        </span>
        <span className="flex-1">{oneLine(appearance.word, 30)}</span>
        <span className="text-ink-3">{count(total)}</span>
      </h2>
      <ul
        className="min-h-0 flex-1 space-y-2 overflow-y-auto rounded bg-sunk p-1.5"
        tabIndex={0}
        aria-label={`${appearance.word} tasks`}
      >
        {column.tasks.slice(0, drawn).map((task) => (
          <li key={task.taskId} className="relative [contain-intrinsic-size:auto_92px] [content-visibility:auto]">
            <TaskCard task={task} open={() => open(task.taskId)} />
            <span className="absolute top-2 right-2 flex">
              <SelectBox id={task.taskId} name={oneLine(task.taskId, 60)} selection={selection} />
            </span>
          </li>
        ))}
        {rest > 0 && (
          <li>
            <button type="button" className="button w-full justify-center" onClick={() => setDrawn(drawn + drawnMax)}>
              {plural(rest, 'more', 'more')}
            </button>
          </li>
        )}
      </ul>
    </section>
  )
}

function BoardSkeleton() {
  return (
    <div className="flex gap-2 p-3 pt-12">
      {[3, 1, 2, 1, 2].map((cards, column) => (
        <div key={column} className="w-[232px] space-y-2 md:flex-1">
          <div className="skeleton h-4 w-1/2" />
          {Array.from({ length: cards }, (_, at) => (
            <div key={at} className="skeleton h-20" />
          ))}
        </div>
      ))}
    </div>
  )
}
