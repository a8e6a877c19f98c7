/** Board page: tasks by status, each with its assignee, what it waits for and what it has cost. */
import { useQuery } from '@tanstack/react-query'
import { useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import { serverNowMs, urlOf } from '../../api/client.js'
import { boardQuery, type Board } from '../../api/queries.js'
import type { Choice } from '../../api/types.js'
import { columnsOf, type Column } from '../../model/board.js'
import { appearanceOf } from '../../model/status.js'
import { count, oneLine, plural } from '../../model/text.js'
import { plainTimes } from '../../model/time.js'
import { useListKeys } from '../../keyboard/shortcut-list.js'
import { useStream } from '../../live/live.js'
import { Glyph } from '../../parts/glyph.js'
import { Page } from '../../frame/page.js'
import { Search } from '../../parts/search.js'
import { Empty, QueryState } from '../../parts/query-state.js'
import { Chip, toneText } from '../../parts/status.js'
import { TaskCard } from './task-card.js'
import { TaskDrawer } from './task-drawer.js'
import { TaskForm } from './task-form.js'

// How many tasks a column renders at first; a button loads more.
const drawnMax = 50

export function BoardPage() {
  const { project } = useParams({ from: '/p/$project/board' })
  const { task, q } = useSearch({ from: '/p/$project/board' })
  const navigate = useNavigate({ from: '/p/$project/board' })
  const board = useQuery(boardQuery)
  useStream(board.data?.isOffered === true ? urlOf('GET /board/events') : undefined, ['board'])
  const [isAdding, setAdding] = useState(false)
  const open = (id: string | undefined) => void navigate({ search: (old) => ({ ...old, task: id }) })
  return (
    <Page
      title="Board"
      tools={
        <>
          <Search
            label="Search tasks"
            value={q ?? ''}
            change={(words) => void navigate({ search: (old) => ({ ...old, q: words }), replace: true })}
          />
          {board.data?.isOffered === true && (
            <button type="button" className="button" onClick={() => setAdding(true)}>
              New task…
            </button>
          )}
        </>
      }
    >
      <QueryState
        query={board}
        skeleton={<BoardSkeleton />}
        isEmpty={(data) => !data.isOffered || data.tasks.length === 0}
        empty={<NoTasks isOffered={board.data?.isOffered ?? false} />}
      >
        {(data) => <Columns board={data} words={q ?? ''} open={open} />}
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

function NoTasks({ isOffered }: { readonly isOffered: boolean }) {
  if (!isOffered)
    return (
      <Empty title="This server has no board.">
        Give it a task root: <code>[board] root</code> in <code>bellwether.toml</code>.
      </Empty>
    )
  return (
    <Empty title="No tasks yet">
      Add one with <em>New task…</em>, or with <code>bellwether task add &quot;…&quot;</code>.
    </Empty>
  )
}

interface ColumnsProps {
  readonly board: Board
  readonly words: string
  readonly open: (id: string) => void
}

function Columns({ board, words, open }: ColumnsProps) {
  const wanted = words.toLowerCase()
  const tasks = board.tasks.filter((task) =>
    `${task.taskId} ${task.title} ${task.assignee ?? ''}`.toLowerCase().includes(wanted),
  )
  const columns = columnsOf(tasks)
  const inOrder = columns.flatMap((column) => column.tasks.slice(0, drawnMax))
  useListKeys({
    count: inOrder.length,
    show: (at) => document.querySelector<HTMLElement>(`[data-task="${CSS.escape(inOrder[at]!.taskId)}"]`)?.focus(),
    open: (at) => open(inOrder[at]!.taskId),
  })
  return (
    <>
      <Next choice={board.choice} isPaused={board.isPaused} open={open} />
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
            open={open}
          />
        ))}
      </div>
      {board.open > board.tasks.length && (
        <p className="label px-3 pb-2">
          Showing the first {plural(board.tasks.length, 'task')} of {count(board.open)}.
        </p>
      )}
    </>
  )
}

interface NextProps {
  readonly choice: Choice | null
  readonly isPaused: boolean
  readonly open: (id: string) => void
}

/** The next task and the reason. */
function Next({ choice, isPaused, open }: NextProps) {
  if (choice === null) return null
  const id = choice.taskId
  return (
    <p className="flex h-9 items-center gap-2 border-b border-line px-4 text-sm">
      {isPaused && <Chip tone="wait">paused</Chip>}
      <span className="font-medium">Next:</span>
      {id === null ? (
        'none'
      ) : (
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
  open,
}: {
  readonly column: Column
  readonly total: number
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
          <li key={task.taskId} className="[contain-intrinsic-size:auto_92px] [content-visibility:auto]">
            <TaskCard task={task} open={() => open(task.taskId)} />
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
    <div className="flex gap-2 p-3">
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
