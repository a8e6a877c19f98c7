/** Needs-you page: calls that wait for approval, questions of agents, answered here, and tasks that need a person. The earliest deadline first. */
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Link, useParams, useSearch } from '@tanstack/react-router'
import { useEffect, useRef, useState } from 'react'
import { serverNowMs, urlOf } from '../../api/client.js'
import { approvalsQuery, boardQuery, questionsQuery, taskQuery } from '../../api/queries.js'
import type { Approval, Question, Task } from '../../api/types.js'
import { reasonText } from '../../model/board.js'
import { oneLine, plural } from '../../model/text.js'
import { msOf } from '../../model/time.js'
import { useListKeys } from '../../keyboard/shortcut-list.js'
import { useStream } from '../../live/live.js'
import { Page } from '../../frame/page.js'
import { ApprovalCard } from './approval-card.js'
import { Grants } from './grants.js'
import { QuestionCard } from './question-card.js'
import { Empty, QueryState } from '../../parts/query-state.js'
import { Status } from '../../parts/status.js'
import { TaskReview } from '../board/task-review.js'
import { Ago, Countdown } from '../../parts/time.js'

export function NeedsYouPage() {
  const { project } = useParams({ from: '/p/$project/needs-you' })
  const { question, approval } = useSearch({ from: '/p/$project/needs-you' })
  const questions = useQuery(questionsQuery(project))
  const approvals = useQuery(approvalsQuery(project))
  const board = useQuery(boardQuery())
  useStream(board.data?.isOffered === true ? urlOf('GET /board/events') : undefined, ['board'])
  // Combined, so that data of one query does not hide the failure of the other.
  const failed = questions.error ?? approvals.error ?? (board.data === undefined ? board.error : null)
  const both = {
    data:
      questions.data === undefined || approvals.data === undefined || board.data === undefined
        ? undefined
        : { questions: questions.data.questions, approvals: approvals.data.approvals, board: board.data },
    error: failed,
    isPending: questions.isPending || approvals.isPending || board.isPending,
    refetch: () => Promise.all([questions.refetch(), approvals.refetch(), board.refetch()]),
  }
  return (
    <Page title="Needs you" scrolls>
      <QueryState query={both}>
        {(data) => (
          <Lists
            project={project}
            questions={data.questions}
            approvals={data.approvals}
            tasks={data.board.needs}
            linked={question ?? approval}
          />
        )}
      </QueryState>
    </Page>
  )
}

interface ListsProps {
  readonly project: string
  readonly questions: readonly Question[]
  readonly approvals: readonly Approval[]
  readonly tasks: readonly Task[]
  /** The question or approval that a link names. */
  readonly linked: string | undefined
}

const bySoonest = (one: { readonly deadline: string | null }, other: { readonly deadline: string | null }) =>
  (msOf(one.deadline) ?? Infinity) - (msOf(other.deadline) ?? Infinity) || 0

function Lists({ project, questions, approvals, tasks, linked }: ListsProps) {
  const soonest = questions.toSorted(bySoonest)
  const calls = approvals.toSorted(bySoonest)
  const all = calls.length + questions.length + tasks.length
  useListKeys({
    count: all,
    show: (at) => document.querySelector<HTMLElement>(`[data-need="${at}"]`)?.focus(),
    open: (at) => {
      const item = document.querySelector(`[data-need="${at}"]`)
      const first = item?.querySelector('[data-first]') ?? item?.querySelector(':is(input, textarea, select, a)')
      if (first instanceof HTMLElement) first.focus()
    },
  })
  const shown = useRef<HTMLLIElement>(null)
  const isOver =
    linked !== undefined &&
    !questions.some((question) => question.tool_call_id === linked) &&
    !approvals.some((approval) => approval.approval_id === linked)
  const linkedProps = (id: string) =>
    id === linked ? { ref: shown, 'aria-current': true as const, className: 'rounded-md outline-2 outline-start' } : {}
  // Once per link: later refreshes must not move the focus of a person who is writing.
  useEffect(() => {
    shown.current?.scrollIntoView({ block: 'center' })
    shown.current?.focus()
  }, [linked])
  if (all === 0 && !isOver)
    return (
      <Empty title="Nothing needs you">
        Calls that wait for approval, questions of agents and tasks that need a person appear here. The badge beside the
        page name counts them.
        <Grants project={project} />
      </Empty>
    )
  return (
    <div className="mx-auto max-w-3xl space-y-5 p-3">
      {isOver && (
        <p role="status" className="panel px-4 py-3">
          The linked item does not wait any more: it was answered, or its deadline has passed.
        </p>
      )}
      {calls.length > 0 && (
        <section aria-label="Approvals">
          <h2 className="mb-2 font-semibold">{plural(calls.length, 'call')} to allow or deny</h2>
          <ul className="space-y-3">
            {calls.map((approval, at) => (
              <li key={approval.approval_id} data-need={at} tabIndex={-1} {...linkedProps(approval.approval_id)}>
                <ApprovalCard project={project} approval={approval} />
              </li>
            ))}
          </ul>
        </section>
      )}
      {soonest.length > 0 && (
        <section aria-label="Questions">
          <h2 className="mb-2 font-semibold">{plural(soonest.length, 'question')}</h2>
          <ul className="space-y-3">
            {soonest.map((question, at) => (
              <li
                key={question.tool_call_id}
                data-need={calls.length + at}
                tabIndex={-1}
                {...linkedProps(question.tool_call_id)}
              >
                <QuestionCard project={project} question={question} />
              </li>
            ))}
          </ul>
        </section>
      )}
      {tasks.length > 0 && (
        <section aria-label="Tasks">
          <h2 className="mb-2 font-semibold">{plural(tasks.length, 'task')} to decide</h2>
          <ul className="space-y-3">
            {tasks.map((task, at) => (
              <li key={task.taskId} data-need={calls.length + soonest.length + at} tabIndex={-1}>
                <TaskNeed project={project} task={task} isOpened={at < openedMax} />
              </li>
            ))}
          </ul>
        </section>
      )}
      <Grants project={project} />
    </div>
  )
}

// Each open card loads its task.
const openedMax = 10

interface TaskNeedProps {
  readonly project: string
  readonly task: Task
  readonly isOpened: boolean
}

function TaskNeed({ project, task, isOpened }: TaskNeedProps) {
  const [isOpen, setOpen] = useState(isOpened)
  return (
    <article className="panel space-y-2 px-4 py-3" aria-label={oneLine(task.title, 120)}>
      <div className="flex flex-wrap items-baseline gap-x-3">
        <Link
          to="/p/$project/board"
          params={{ project }}
          search={{ task: task.taskId }}
          className="link min-w-40 flex-1 font-semibold"
        >
          <bdi>{oneLine(task.title, 200)}</bdi>
        </Link>
        <Status word={task.status} />
        <span className="text-sm text-ink-3">
          {task.waitUntil === null ? <Ago at={task.updatedAt} /> : <Countdown until={task.waitUntil} lead="due in" />}
        </span>
      </div>
      {(task.problem === null || !isOpen) && (
        <p className="text-ink-2">
          <bdi>
            {oneLine(
              reasonText(task.problem ?? task.waitsFor ?? task.reason ?? 'waits for a person', serverNowMs()),
              500,
            )}
          </bdi>
        </p>
      )}
      {isOpen ? (
        <Decision id={task.taskId} changedAt={task.updatedAt} />
      ) : (
        <button type="button" className="button" onClick={() => setOpen(true)}>
          Show result, diff and choices
        </button>
      )}
    </article>
  )
}

/** Everything that a person needs to decide. */
function Decision({ id, changedAt }: { readonly id: string; readonly changedAt: string }) {
  // The list follows the board's events; a changed task is read again at once.
  const task = useQuery({ ...taskQuery(id), queryKey: ['task', id, changedAt], placeholderData: keepPreviousData })
  return (
    <QueryState query={task} isFramed>
      {(data) => (
        <div className="space-y-3">
          <TaskReview task={data} />
        </div>
      )}
    </QueryState>
  )
}
