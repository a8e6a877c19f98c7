/** The actions of a person on a task, as buttons: only those that its status allows. */
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { moveTask } from '../../api/mutations.js'
import type { Task, TaskAction } from '../../api/types.js'
import { oneLine } from '../../model/text.js'

interface Move {
  readonly action: TaskAction
  readonly name: string
  readonly on: readonly string[]
}

const moves: readonly Move[] = [
  { action: 'approve', name: 'Approve', on: ['pending', 'blocked'] },
  { action: 'reject', name: 'Reject', on: ['pending', 'blocked'] },
  { action: 'done', name: 'It is done', on: ['review', 'in_progress', 'claimed', 'blocked'] },
  { action: 'retry', name: 'Try again', on: ['blocked', 'failed', 'review'] },
  { action: 'escalate', name: 'Give to a person', on: ['pending', 'in_progress'] },
  { action: 'abort', name: 'Abort', on: ['pending', 'claimed', 'in_progress', 'blocked'] },
]

const decisions: ReadonlySet<TaskAction> = new Set<TaskAction>(['approve', 'reject'])

/** Approval and rejection are offered only if the task waits for one of them. */
function allowed(task: Task): readonly Move[] {
  return moves.filter(
    ({ action, on }) => on.includes(task.status) && (!decisions.has(action) || task.waitCode === 'approval'),
  )
}

export function TaskMoves({ task }: { readonly task: Task }) {
  const [reason, setReason] = useState('')
  const client = useQueryClient()
  const move = useMutation({
    mutationFn: (action: TaskAction) => moveTask(task.taskId, action, reason.trim()),
    onSuccess: () => setReason(''),
    onSettled: () =>
      Promise.all([
        client.invalidateQueries({ queryKey: ['board'] }),
        client.invalidateQueries({ queryKey: ['task', task.taskId] }),
      ]),
  })
  const offered = allowed(task)
  if (offered.length === 0) return null
  return (
    <div>
      <div className="flex flex-wrap gap-2">
        <input
          className="field min-w-40 flex-1"
          aria-label={`Reason, for ${oneLine(task.taskId, 60)}`}
          placeholder="reason (optional)"
          maxLength={2_000}
          value={reason}
          onChange={(event) => setReason(event.target.value)}
        />
        {offered.map(({ action, name }) => (
          <button
            key={action}
            type="button"
            className={`button ${action === 'approve' ? 'button-main' : ''}`}
            disabled={move.isPending}
            onClick={() => move.mutate(action)}
          >
            {name}
          </button>
        ))}
      </div>
      <p role="alert" className="min-h-5 text-sm text-bad">
        {move.error === null ? '' : oneLine(move.error.message, 300)}
      </p>
    </div>
  )
}
