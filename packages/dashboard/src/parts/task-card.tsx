/** A task on the board: what, who, what it waits for, how its recovery stands, how much of its budget is gone. */
import { memo } from 'react'
import type { Budget, Task } from '../api/places.js'
import { burnOf, cost, needsPerson, recoverySays } from '../facts/board.js'
import { oneLine } from '../facts/text.js'
import { Glyph } from './glyph.js'
import { Chip } from './status.js'

export const TaskCard = memo(({ task, open }: { readonly task: Task; readonly open: () => void }) => {
  const { recovery } = task
  const why = task.waitsFor ?? task.reason
  return (
    <button
      type="button"
      data-task={task.taskId}
      className="panel block w-full px-2.5 py-2 text-left hover:bg-hover"
      onClick={open}
    >
      <span className="flex items-baseline gap-2 text-xs text-ink-3">
        <bdi className="min-w-0 flex-1 truncate font-mono">{oneLine(task.taskId, 40)}</bdi>
        {task.priority !== 0 && <span title="priority">P{task.priority}</span>}
      </span>
      <bdi className="clamp-3 leading-snug font-medium">{oneLine(task.title, 200)}</bdi>
      {needsPerson(task) && (
        <Chip tone="person">
          <Glyph shape="hand" /> needs you
        </Chip>
      )}
      {recovery !== null && recovery !== undefined && (
        <Chip
          tone={recovery.action === 'retry' ? 'wait' : 'person'}
          title={`${oneLine(recovery.reasonCode, 80)}, attempt ${recovery.attempt}`}
        >
          <span className="truncate">{oneLine(recoverySays(recovery), 60)}</span>
        </Chip>
      )}
      {why !== null && why !== '' && <bdi className="clamp-3 text-xs text-ink-2">{oneLine(why, 160)}</bdi>}
      <span className="mt-1 flex items-center gap-2 text-xs text-ink-3">
        <bdi className="min-w-0 flex-1 truncate">{oneLine(task.assignee ?? '', 40)}</bdi>
        <span>{cost(task.costMicros)}</span>
      </span>
      <Burn budget={task.budget} />
    </button>
  )
})

/** The bar of the limit that is nearest; without a limit, only what was used. */
export function Burn({ budget }: { readonly budget: Budget | null | undefined }) {
  const burn = burnOf(budget)
  if (burn === null) return null
  const part = Math.min(1, burn.part ?? 0)
  const tone = burn.part === null ? 'bg-rest' : burn.part >= 1 ? 'bg-bad' : burn.part >= 0.8 ? 'bg-wait' : 'bg-go'
  return (
    <span className="mt-1 block">
      {burn.part !== null && (
        <span
          className="block h-1 overflow-hidden rounded bg-rest-soft"
          role="img"
          aria-label={`budget: ${burn.label}`}
        >
          <span className={`block h-full ${tone}`} style={{ width: `${Math.round(part * 100)}%` }} />
        </span>
      )}
      <span className="text-xs text-ink-3">{burn.label}</span>
    </span>
  )
}
