/** The form that adds a task to the board, or changes one: title, instruction, agent, checks and review. */
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { addTask, editTask, editTaskBack } from '../../api/mutations.js'
import { agentsQuery, checksQuery } from '../../api/queries.js'
import type { TaskDetail, TaskFields } from '../../api/types.js'
import { changedFields, namesIn } from '../../model/board.js'
import { oneLine } from '../../model/text.js'
import { AgentField, FormEnd, InstructionField, PriorityField } from '../../parts/work-fields.js'
import { Dialog } from '../../parts/dialog.js'
import { useOnce } from '../../parts/once.js'
import { toast } from '../../parts/toast.js'

interface TaskFormProps {
  readonly project: string
  /** The task to change; absent: a new one. */
  readonly task?: TaskDetail
  readonly close: () => void
  readonly saved: (id: string) => void
}

export function TaskForm({ project, task, close, saved }: TaskFormProps) {
  const [before] = useState(() => fieldsOf(task))
  const [fields, setFields] = useState(before)
  const client = useQueryClient()
  const agents = useQuery(agentsQuery(project))
  const checks = useQuery(checksQuery)
  const refetch = () =>
    Promise.all([
      client.invalidateQueries({ queryKey: ['board'] }),
      client.invalidateQueries({ queryKey: ['task', task?.taskId] }),
    ])
  const save = useMutation({
    mutationFn: (now: Fields) => {
      const change = changedFields(before, { ...now, title: now.title.trim() })
      return task === undefined ? addTask({ title: now.title.trim(), ...change }) : editTask(task.taskId, change)
    },
    onSuccess({ taskId }, now) {
      const was = task === undefined ? {} : changedFields(now, before)
      const set = changedFields(before, { ...now, title: now.title.trim() })
      // If the task named no agent before, the agent cannot be removed again.
      const canUndo = task !== undefined && was.agent !== ''
      toast(
        task === undefined
          ? `Added ${oneLine(taskId, 60)}`
          : `${oneLine(taskId, 60)}: changed ${Object.keys(was).join(', ')}`,
        canUndo ? () => editTaskBack(taskId, set, was).finally(() => void refetch()) : undefined,
      )
      saved(taskId)
    },
    onSettled: refetch,
  })
  const once = useOnce()
  const set = (change: Partial<Fields>) => setFields({ ...fields, ...change })
  const name = task === undefined ? 'New task' : `Change ${oneLine(task.taskId, 60)}`
  const isUnchanged = task !== undefined && Object.keys(changedFields(before, fields)).length === 0
  return (
    <Dialog title={name} name={name} close={close}>
      <form
        className="space-y-3"
        onSubmit={(event) => {
          event.preventDefault()
          once(() => save.mutateAsync(fields))
        }}
      >
        <label className="block">
          <span className="font-medium">Title</span>
          <input
            className="field mt-1 w-full"
            required
            maxLength={500}
            value={fields.title}
            onChange={(event) => set({ title: event.target.value })}
          />
        </label>
        <InstructionField
          value={fields.instruction}
          max={100_000}
          change={(instruction) => set({ instruction })}
          help="What the agent must do, and how you can tell that it is done."
        />
        <AgentField
          none={fields.agent === '' ? 'the board chooses' : undefined}
          agents={agents.data?.agents ?? []}
          value={fields.agent}
          change={(agent) => set({ agent })}
        />
        <PriorityField value={fields.priority} change={(field) => set({ priority: field.valueAsNumber || 0 })} />
        <Checks
          known={checks.data?.checks ?? []}
          chosen={fields.checks}
          isRead={!checks.isPending}
          change={(chosen) => set({ checks: chosen })}
        />
        <label className="flex items-center gap-2">
          <input type="checkbox" checked={fields.review} onChange={(event) => set({ review: event.target.checked })} />
          A person reviews the result before the task is done
        </label>
        <FormEnd
          error={save.error}
          close={close}
          name={task === undefined ? 'Add task' : 'Save'}
          isBusy={save.isPending || isUnchanged}
        />
      </form>
    </Dialog>
  )
}

type Fields = { readonly [Name in keyof TaskFields]-?: NonNullable<TaskFields[Name]> }

function fieldsOf(task: TaskDetail | undefined): Fields {
  const { instruction, agent, checks, review } = task?.fields ?? {}
  const textOf = (value: unknown) => (typeof value === 'string' ? value : '')
  return {
    title: task?.title ?? '',
    instruction: textOf(instruction),
    agent: textOf(agent),
    priority: task?.priority ?? 0,
    checks: namesIn(checks),
    review: review === true,
  }
}

interface ChecksProps {
  readonly known: readonly { readonly name: string; readonly description: string | null }[]
  readonly chosen: string[]
  readonly isRead: boolean
  readonly change: (chosen: string[]) => void
}

/** The checks of the acceptance policy: a page may select commands, but not write them. */
function Checks({ known, chosen, isRead, change }: ChecksProps) {
  return (
    <fieldset>
      <legend className="font-medium">Checks that must pass</legend>
      {isRead && known.length === 0 && (
        <p className="label">
          None are defined. Name commands in <code>checks</code> of <code>config/acceptance-policy.json</code>, or add
          the task with <code>bellwether task add --verify</code>.
        </p>
      )}
      {known.map(({ name, description }) => (
        <label key={name} className="flex items-start gap-2">
          <input
            type="checkbox"
            className="mt-1"
            checked={chosen.includes(name)}
            onChange={(event) =>
              change(event.target.checked ? [...chosen, name] : chosen.filter((other) => other !== name))
            }
          />
          <span className="min-w-0">
            <bdi className="font-mono text-xs">{oneLine(name, 128)}</bdi>
            {description !== null && <span className="text-ink-2"> {oneLine(description, 200)}</span>}
          </span>
        </label>
      ))}
    </fieldset>
  )
}
