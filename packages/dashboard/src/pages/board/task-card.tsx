/** A task on the board: title, assignee, what it waits for, recovery, budget. */
import { dollars } from '@bellwether/protocol/spending'
import { memo } from 'react'
import { serverNowMs } from '../../api/client.js'
import type { Recovery, Task } from '../../api/types.js'
import { budgetUseOf, isOver, needsPerson, positionText, reasonText, recoveryText } from '../../model/board.js'
import { oneLine } from '../../model/text.js'
import { BudgetBar } from '../../parts/budget-bar.js'
import { Glyph } from '../../parts/glyph.js'
import { Chip } from '../../parts/status.js'
import { Countdown } from '../../parts/time.js'

export const TaskCard = memo(({ task, open }: { readonly task: Task; readonly open: () => void }) => {
  const why = (task.status === 'blocked' ? task.problem : null) ?? task.waitsFor ?? task.reason
  const isDone = isOver(task)
  const use = budgetUseOf(task.budget)
  return (
    <button
      type="button"
      data-task={task.taskId}
      className={`panel block w-full px-2.5 py-2 text-left hover:bg-hover ${needsPerson(task) ? 'border-l-person border-l-3' : ''}`}
      onClick={open}
    >
      <span className="flex items-baseline gap-2 pr-6 text-xs text-ink-3">
        <bdi className="min-w-0 flex-1 truncate font-mono">{oneLine(task.taskId, 40)}</bdi>
        {task.priority !== 0 && <span title="priority">P{task.priority}</span>}
      </span>
      <bdi className="clamp-3 leading-snug font-medium">{oneLine(task.title, 200)}</bdi>
      <span className="mt-1 flex flex-wrap gap-1 empty:hidden">
        {task.next !== null && (
          <Chip tone={task.next.place === 1 ? 'start' : 'rest'} title={oneLine(task.next.why, 300)}>
            {positionText(task.next)}
          </Chip>
        )}
        {needsPerson(task) && (
          <Chip tone="person">
            <Glyph shape="hand" /> needs you
          </Chip>
        )}
        {task.recovery !== null && task.recovery.attempt > 0 && !isDone && <Attempt recovery={task.recovery} />}
        {task.waitUntil !== null && !isDone && (
          <span className="text-xs leading-5">
            <Countdown until={task.waitUntil} lead="time left" />
          </span>
        )}
      </span>
      {why !== null && why !== '' && task.status !== 'done' && (
        <bdi className="clamp-3 mt-1 text-xs text-ink-2">{oneLine(reasonText(why, serverNowMs()), 160)}</bdi>
      )}
      <span className="mt-1 flex items-center gap-2 text-xs text-ink-3">
        <bdi className="min-w-0 flex-1 truncate">{oneLine(task.assignee ?? task.next?.assignee ?? '', 40)}</bdi>
        <span className="whitespace-nowrap">{task.costMicros === null ? '' : dollars(task.costMicros)}</span>
      </span>
      {/* A limit matters while the task is open; afterwards only the amount used does. */}
      <BudgetBar use={isDone && use !== null ? { ...use, part: null } : use} />
    </button>
  )
})

/** The attempt, and the next assignee. */
function Attempt({ recovery }: { readonly recovery: Recovery }) {
  const { action, attempt, maxAttempts, reasonCode } = recovery
  return (
    <Chip
      tone={action === 'retry' ? 'wait' : 'person'}
      title={`${oneLine(reasonCode.replaceAll('_', ' '), 80)}; ${oneLine(recoveryText(recovery), 100)}`}
    >
      attempt {attempt} of {maxAttempts}
    </Chip>
  )
}
