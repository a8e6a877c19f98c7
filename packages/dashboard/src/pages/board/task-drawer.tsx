/** One task in full, beside the board: reasons, runs, budget, and what a person can do. */
import { objectOf } from '@bellwether/base'
import { dollars, moneySpent, reasonInWords, taskLimits, tokensSpent } from '@bellwether/protocol/spending'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { serverNowMs } from '../../api/client.js'
import { taskQuery } from '../../api/queries.js'
import type { Run, TaskDetail } from '../../api/types.js'
import { budgetUseOf, compact, namesIn, reasonText, recoveryText } from '../../model/board.js'
import { oneLine, plural } from '../../model/text.js'
import { duration } from '../../model/time.js'
import { BudgetBar } from '../../parts/budget-bar.js'
import { Dialog } from '../../parts/dialog.js'
import { Json, UntrustedText } from '../../parts/untrusted-text.js'
import { QueryState } from '../../parts/query-state.js'
import { Status } from '../../parts/status.js'
import { TaskForm } from './task-form.js'
import { TaskReview } from './task-review.js'
import { Ago, Countdown } from '../../parts/time.js'

export function TaskDrawer({
  project,
  id,
  close,
}: {
  readonly project: string
  readonly id: string
  readonly close: () => void
}) {
  const task = useQuery(taskQuery(id))
  return (
    <Dialog
      side
      close={close}
      name={`Task ${oneLine(id, 80)}`}
      title={<bdi>{oneLine(task.data?.title ?? id, 300)}</bdi>}
    >
      <QueryState query={task} isFramed>
        {(data) => <TaskView project={project} task={data} />}
      </QueryState>
    </Dialog>
  )
}

// Shown elsewhere, or not useful to people.
const shownElsewhere = new Set(['recovery', 'budget', 'instruction', 'spawn', 'choice', 'checks', 'deliverable'])
// As many as a person reads.
const linksMax = 30
const untilOf = (seconds: number) => new Date(seconds * 1_000).toISOString()

function TaskView({ project, task }: { readonly project: string; readonly task: TaskDetail }) {
  const [isEditing, setEditing] = useState(false)
  const { recovery } = task
  const use = budgetUseOf(task.budget)
  const rest = Object.fromEntries(Object.entries(task.fields).filter(([name]) => !shownElsewhere.has(name)))
  const instruction = task.fields['instruction']
  const checks = namesIn(task.fields['checks'])
  return (
    <div className="space-y-4">
      <dl className="grid grid-cols-[7.5rem_minmax(0,1fr)] gap-y-1">
        <Fact name="Status">
          <Status word={task.status} />
        </Fact>
        <Fact name="Id">
          <span className="font-mono text-xs">{oneLine(task.taskId, 120)}</span>
        </Fact>
        <Fact name="Assignee">{oneLine(task.assignee ?? task.next?.assignee ?? 'unassigned', 80)}</Fact>
        {task.status !== 'done' && (
          <Fact name="Reason">
            <bdi>{oneLine(reasonText(task.waitsFor ?? task.reason ?? whyOf(task), serverNowMs()), 500)}</bdi>
          </Fact>
        )}
        {task.waitUntil !== null && (
          <Fact name="Time left">
            <Countdown until={task.waitUntil} />
          </Fact>
        )}
      </dl>
      <TaskReview key={task.taskId} task={task} hasKeys />
      {task.status !== 'done' && (
        <button type="button" className="button" aria-keyshortcuts="e" onClick={() => setEditing(true)}>
          Change the task…
        </button>
      )}
      {isEditing && (
        <TaskForm project={project} task={task} close={() => setEditing(false)} saved={() => setEditing(false)} />
      )}
      <dl className="grid grid-cols-[7.5rem_minmax(0,1fr)] gap-y-1">
        {task.next !== null && (
          <Fact name="Position">
            {task.next.place} of {task.next.of}
          </Fact>
        )}
        <Fact name="Priority, impact">
          {task.priority}, {task.impact}
        </Fact>
        {task.dependencies.length > 0 && (
          <Fact name="Depends on">
            <span className="flex flex-wrap gap-x-2">
              {task.dependencies.slice(0, linksMax).map((id) => (
                <Link key={id} to="/p/$project/board" params={{ project }} search={{ task: id }} className="link">
                  <bdi>{oneLine(id, 60)}</bdi>
                </Link>
              ))}
              {task.dependencies.length > linksMax && plural(task.dependencies.length - linksMax, 'more', 'more')}
            </span>
          </Fact>
        )}
        {checks.length > 0 && <Fact name="Checks">{oneLine(checks.join(', '), 300)}</Fact>}
        {recovery !== null && (
          <Fact name="Recovery">
            {recovery.attempt > 0 && `attempt ${recovery.attempt} of ${recovery.maxAttempts}, `}
            {oneLine(recoveryText(recovery), 100)}
            <span className="block text-sm text-ink-2">
              after {oneLine(reasonInWords(recovery.reasonCode), 80)}
              {recovery.deadlineTs > 0 && (
                <>
                  , <Countdown until={untilOf(recovery.deadlineTs)} lead="ends in" />
                </>
              )}
            </span>
          </Fact>
        )}
        <Fact name="Budget">{use === null ? 'nothing used' : <BudgetBar use={use} />}</Fact>
        <Fact name="Spent">{moneySpent(task)}</Fact>
        {task.budget !== null && <Fact name="Tokens">{tokensSpent(task.budget)}</Fact>}
        {task.budget !== null && <Fact name="Limits">{taskLimits(task.budget) ?? 'none'}</Fact>}
        <Fact name="Changed">
          <Ago at={task.updatedAt} />
        </Fact>
      </dl>
      {typeof instruction === 'string' && (
        <section>
          <h3 className="font-semibold">Instruction</h3>
          <UntrustedText text={instruction} />
        </section>
      )}
      <section>
        <h3 className="font-semibold">Runs</h3>
        {task.runs.length === 0 ? <p className="text-ink-3">None yet</p> : <Runs project={project} runs={task.runs} />}
      </section>
      {Object.keys(rest).length > 0 && (
        <details>
          <summary className="font-semibold">All other fields</summary>
          <Json value={rest} />
        </details>
      )}
    </div>
  )
}

/** Why the task was or will be selected; otherwise the rule. */
function whyOf(task: TaskDetail): string {
  if (task.next !== null) return task.next.why
  const { because } = objectOf(task.fields['choice'])
  return typeof because === 'string' ? because : 'ready: selected by priority, then impact, then age'
}

/** The board's verdict, if it differs from the turn's outcome. */
function verdictOf({ reasonCode, outcome, endedAt, turnStatus }: Run): string {
  if (reasonCode !== undefined) return reasonInWords(reasonCode)
  if (endedAt === undefined) return 'in progress'
  return outcome === turnStatus ? '' : (outcome ?? '')
}

function Runs({ project, runs }: { readonly project: string; readonly runs: readonly Run[] }) {
  return (
    <ol className="divide-y divide-line">
      {runs.toReversed().map((run) => (
        <li key={run.runId} className="flex flex-wrap items-baseline gap-x-3 py-1 text-sm">
          <span className="min-w-0 flex-1 truncate font-medium">
            {run.agentTurnId === undefined ? (
              <bdi>{oneLine(run.agent, 60)}</bdi>
            ) : (
              <Link to="/p/$project/turns/$turn" params={{ project, turn: run.agentTurnId }} className="link">
                <bdi>{oneLine(run.agent, 60)}</bdi>
              </Link>
            )}
          </span>
          {run.turnStatus !== undefined && run.turnStatus !== null && <Status word={run.turnStatus} />}
          <span className="text-ink-2">{oneLine(verdictOf(run), 60)}</span>
          <span className="w-full text-xs text-ink-3">
            {run.elapsedMs === undefined ? '' : `${duration(run.elapsedMs)}, `}
            {run.tokenUsage === undefined ? '' : `${compact(run.tokenUsage)} fresh tokens, `}
            {run.costMicros === null ? '' : `${dollars(run.costMicros)}, `}
            <Ago at={run.startedAt} />
          </span>
        </li>
      ))}
    </ol>
  )
}

function Fact({ name, children }: { readonly name: string; readonly children: React.ReactNode }) {
  return (
    <>
      <dt className="text-ink-3">{name}</dt>
      <dd className="min-w-0">{children}</dd>
    </>
  )
}
