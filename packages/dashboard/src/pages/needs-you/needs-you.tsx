/** Needs-you page: questions of agents, answered here, and tasks that need a person. The earliest deadline first. */
import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { serverNowMs, urlOf } from '../../api/client.js'
import { boardQuery, questionsQuery } from '../../api/queries.js'
import type { Task } from '../../api/types.js'
import type { Question } from '../../api/types.js'
import { needsPerson, reasonText, recoveryText } from '../../model/board.js'
import { oneLine, plural } from '../../model/text.js'
import { msOf } from '../../model/time.js'
import { useListKeys } from '../../keyboard/shortcut-list.js'
import { useStream } from '../../live/live.js'
import { Page } from '../../frame/page.js'
import { QuestionCard } from './question-card.js'
import { Empty, QueryState } from '../../parts/query-state.js'
import { Status } from '../../parts/status.js'
import { TaskMoves } from '../board/task-moves.js'
import { Ago, Countdown } from '../../parts/time.js'

export function NeedsYouPage() {
  const { project } = useParams({ from: '/p/$project/needs-you' })
  const questions = useQuery(questionsQuery(project))
  const board = useQuery(boardQuery)
  useStream(board.data?.isOffered === true ? urlOf('GET /board/events') : undefined, ['board'])
  // Combined, so that data of one query does not hide the failure of the other.
  const failed = questions.error ?? (board.data === undefined ? board.error : null)
  const both = {
    data:
      questions.data === undefined || board.data === undefined
        ? undefined
        : { questions: questions.data.questions, board: board.data },
    error: failed,
    isPending: questions.isPending || board.isPending,
    refetch: () => Promise.all([questions.refetch(), board.refetch()]),
  }
  return (
    <Page title="Needs you" scrolls>
      <QueryState query={both}>
        {(data) => <Lists project={project} questions={data.questions} tasks={data.board.tasks.filter(needsPerson)} />}
      </QueryState>
    </Page>
  )
}

interface ListsProps {
  readonly project: string
  readonly questions: readonly Question[]
  readonly tasks: readonly Task[]
}

function Lists({ project, questions, tasks }: ListsProps) {
  const soonest = questions.toSorted(
    (one, other) => (msOf(one.deadline) ?? Infinity) - (msOf(other.deadline) ?? Infinity) || 0,
  )
  const all = questions.length + tasks.length
  useListKeys({
    count: all,
    show: (at) => document.querySelector<HTMLElement>(`[data-need="${at}"]`)?.focus(),
    open: (at) => document.querySelector<HTMLElement>(`[data-need="${at}"] :is(input, textarea, select, a)`)?.focus(),
  })
  if (all === 0)
    return (
      <Empty title="Nothing needs you">
        Questions of agents and tasks that need a person appear here. The badge beside the page name counts them.
      </Empty>
    )
  return (
    <div className="mx-auto max-w-3xl space-y-5 p-3">
      {soonest.length > 0 && (
        <section aria-label="Questions">
          <h2 className="mb-2 font-semibold">{plural(soonest.length, 'question')}</h2>
          <ul className="space-y-3">
            {soonest.map((question, at) => (
              <li key={question.tool_call_id} data-need={at} tabIndex={-1}>
                <QuestionCard project={project} question={question} />
              </li>
            ))}
          </ul>
        </section>
      )}
      {tasks.length > 0 && (
        <section aria-label="Tasks">
          <h2 className="mb-2 font-semibold">{plural(tasks.length, 'task')} that cannot go on alone</h2>
          <ul className="space-y-3">
            {tasks.map((task, at) => (
              <li key={task.taskId} data-need={soonest.length + at} tabIndex={-1}>
                <TaskNeed project={project} task={task} />
              </li>
            ))}
          </ul>
        </section>
      )}
    </div>
  )
}

function TaskNeed({ project, task }: { readonly project: string; readonly task: Task }) {
  const { recovery } = task
  return (
    <article className="panel px-4 py-3" aria-label={oneLine(task.title, 120)}>
      <div className="flex items-baseline gap-3">
        <Link
          to="/p/$project/board"
          params={{ project }}
          search={{ task: task.taskId }}
          className="link min-w-0 flex-1 font-semibold"
        >
          <bdi>{oneLine(task.title, 200)}</bdi>
        </Link>
        <Status word={task.status} />
        <span className="text-sm text-ink-3">
          {task.waitUntil === null ? (
            <Ago at={task.updatedAt} />
          ) : (
            <>
              deadline <Countdown until={task.waitUntil} />
            </>
          )}
        </span>
      </div>
      <p className="mb-2 text-ink-2">
        <bdi>{oneLine(reasonText(task.waitsFor ?? task.reason ?? 'waits for a person', serverNowMs()), 500)}</bdi>
        {recovery === null ? '' : ` (${oneLine(recoveryText(recovery), 60)})`}
      </p>
      <TaskMoves task={task} />
    </article>
  )
}
