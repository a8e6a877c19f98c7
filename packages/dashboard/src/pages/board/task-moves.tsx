/** What a person can do with a task now, as buttons with their effects. */
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { moveTask, moveTaskBack } from '../../api/mutations.js'
import type { LineComment, TaskAction, TaskDetail } from '../../api/types.js'
import { oneLine } from '../../model/text.js'
import { useOnce } from '../../parts/once.js'
import { toast } from '../../parts/toast.js'

const names: Readonly<Record<TaskAction, string>> = {
  approve: 'Approve',
  reject: 'Reject',
  done: 'It is done',
  retry: 'Try again',
  escalate: 'Give to a person',
  abort: 'Abort',
  release: 'Release',
  unfreeze: 'Unfreeze',
  claim: 'Claim',
  block: 'Block',
  freeze: 'Freeze',
  require_approval: 'Require approval',
  merge: 'Merge',
  send_back: 'Send back',
  keep: 'Keep the branch',
}

/** The actions after which another run gets what the person wrote. */
export const takesComments = (action: TaskAction): boolean => action === 'retry' || action === 'send_back'

/** The action that takes another one back, where nothing was lost: an approval that started nothing, an abort before the first run. */
function inverseOf(action: TaskAction, { runs }: Pick<TaskDetail, 'runs'>): TaskAction | undefined {
  if (action === 'freeze') return 'unfreeze'
  if (action === 'unfreeze') return 'freeze'
  if (action === 'approve') return 'require_approval'
  return action === 'abort' && runs.length === 0 ? 'retry' : undefined
}

interface TaskMovesProps {
  readonly task: Pick<TaskDetail, 'taskId' | 'moves' | 'runs'>
  /** On lines of the diff. */
  readonly comments: readonly LineComment[]
  /** The comments have been sent. */
  readonly sent: () => void
  /** The digits run the actions: of one task on a page. */
  readonly hasKeys?: boolean
}

export function TaskMoves({ task, comments, sent, hasKeys = false }: TaskMovesProps) {
  const [reason, setReason] = useState('')
  const client = useQueryClient()
  const refetch = () =>
    Promise.all([
      client.invalidateQueries({ queryKey: ['board'] }),
      client.invalidateQueries({ queryKey: ['task', task.taskId] }),
    ])
  const move = useMutation({
    mutationFn: (action: TaskAction) =>
      moveTask(task.taskId, action, reason.trim(), takesComments(action) ? comments : []),
    onSuccess({ updatedAt }, action) {
      const inverse = inverseOf(action, task)
      toast(
        `${oneLine(task.taskId, 60)}: ${names[action].toLowerCase()}`,
        inverse && (() => moveTaskBack(task.taskId, inverse, updatedAt).finally(() => void refetch())),
      )
      setReason('')
      if (takesComments(action)) sent()
    },
    onSettled: refetch,
  })
  const once = useOnce()
  if (task.moves.length === 0) return null
  return (
    <div>
      <ul className="space-y-1.5" aria-label="What you can do">
        {task.moves.map(({ action, effect }, at) => (
          <li key={action} className="flex items-start gap-3">
            <button
              type="button"
              className={`button w-36 shrink-0 justify-center ${at === 0 ? 'button-main' : ''}`}
              disabled={move.isPending}
              aria-keyshortcuts={hasKeys ? String(at + 1) : undefined}
              onClick={() => once(() => move.mutateAsync(action))}
            >
              {names[action]}
              {hasKeys && (
                <kbd className="text-xs opacity-70" aria-hidden>
                  {at + 1}
                </kbd>
              )}
            </button>
            <span className="min-w-0 flex-1 pt-1 text-sm text-ink-2">{oneLine(effect, 200)}</span>
          </li>
        ))}
      </ul>
      <input
        className="field mt-2 w-full"
        aria-label={`Reason, for ${oneLine(task.taskId, 60)}`}
        placeholder="reason (optional)"
        maxLength={2_000}
        value={reason}
        onChange={(event) => setReason(event.target.value)}
      />
      <p role="alert" className="min-h-5 text-sm text-bad">
        {move.error === null ? '' : oneLine(move.error.message, 300)}
      </p>
    </div>
  )
}
