/** Runs one action on the selected tasks, or gives them another priority or agent. */
import { defined, groupBy } from '@bellwether/base'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { bulkTasks } from '../../api/mutations.js'
import { agentsQuery, taskQueryOf, type TaskFilter } from '../../api/queries.js'
import type { BulkTasks, Task } from '../../api/types.js'
import type { Selection } from '../../parts/selection.js'
import { BulkBar } from './bulk-bar.js'
import { BulkDialog } from './bulk-dialog.js'
import type { BulkAction, BulkInput, BulkLine, BulkPorts, BulkReport } from './bulk.js'

const actions: readonly BulkAction[] = [
  {
    name: 'retry',
    label: 'Try again',
    effect: 'Agents try each task again now, from the first attempt.',
    hasReason: true,
  },
  {
    name: 'priority',
    label: 'Change the priority…',
    effect: 'A higher priority runs first.',
    value: 'priority',
    inverse: 'priority',
  },
  {
    name: 'agent',
    label: 'Reassign…',
    effect: 'This agent runs each task next. An open run is not affected.',
    value: 'agent',
    inverse: 'agent',
  },
  {
    name: 'approve',
    label: 'Approve',
    effect: 'Each task that waits for an approval may start.',
    inverse: 'require_approval',
    hasReason: true,
  },
  { name: 'reject', label: 'Reject', effect: 'Each task that waits for an approval ends as failed.', hasReason: true },
  {
    name: 'escalate',
    label: 'Give to a person',
    effect: 'No agent tries these tasks any more; a person decides.',
    hasReason: true,
  },
  {
    name: 'abort',
    label: 'Abort',
    effect: 'Running turns are stopped, and each task ends as failed.',
    hasReason: true,
  },
  {
    name: 'freeze',
    label: 'Freeze',
    effect: 'These tasks are not dispatched until you unfreeze them. A run continues.',
    inverse: 'unfreeze',
    hasReason: true,
  },
  {
    name: 'unfreeze',
    label: 'Unfreeze',
    effect: 'Frozen tasks may be dispatched again.',
    inverse: 'freeze',
    hasReason: true,
  },
  {
    name: 'require_approval',
    label: 'Require approval',
    effect: 'A person must approve each task before it starts.',
    hasReason: true,
  },
  { name: 'block', label: 'Block', effect: 'Each task waits until a person moves it.', hasReason: true },
  {
    name: 'release',
    label: 'Release',
    effect: 'Tasks that are held because of a damaged line may be dispatched again.',
    hasReason: true,
  },
  { name: 'merge', label: 'Merge', effect: 'Each accepted change that waits is merged into its base.' },
  {
    name: 'send_back',
    label: 'Send back',
    effect: 'The agent of each change that waits continues on it, and gets the reason.',
    hasReason: true,
  },
  {
    name: 'keep',
    label: 'Keep the branch',
    effect: 'Each task with a change that waits is done; its commits stay on its branch.',
  },
]

interface TaskBulkProps {
  readonly project: string
  readonly filter: TaskFilter
  readonly tasks: readonly Task[]
  /** How many match the filter. */
  readonly total: number
  readonly selection: Selection
}

export function TaskBulk({ project, filter, tasks, total, selection }: TaskBulkProps) {
  const [isOpen, setOpen] = useState(false)
  return (
    <>
      <BulkBar selection={selection} total={total} openActions={() => setOpen(true)} />
      {isOpen && <TaskDialog {...{ project, filter, tasks, total, selection }} close={() => setOpen(false)} />}
    </>
  )
}

function TaskDialog({ project, filter, tasks, selection, close }: TaskBulkProps & { readonly close: () => void }) {
  const client = useQueryClient()
  const agents = useQuery(agentsQuery(project))
  const [chosen] = useState(() => ({ filter, ids: selection.ids, isAll: selection.isAll, tasks }))
  // As the preview or the last request left each task: one that another person changes afterwards stays as it is.
  const [seen] = useState(() => new Map<string, string>())
  const [before] = useState(() => new Map<string, Row>())
  const ports: BulkPorts = {
    async preview(input) {
      const listed = chosen.tasks.filter(({ taskId }) => chosen.ids.has(taskId)).map(({ taskId }) => ({ taskId }))
      const rows = chosen.isAll ? { filter: taskQueryOf(chosen.filter) } : { tasks: listed }
      return noted(await bulkTasks({ ...bodyOf(input), ...rows, dry_run: true }))
    },
    async run(input, lines) {
      const reports: BulkReport[] = []
      for (const [value, some] of valuesOf(input, lines)) {
        if (value === null) reports.push({ more: false, lines: some.map(withoutAgent) })
        else reports.push(noted(await bulkTasks({ ...bodyOf({ ...input, value }), tasks: some.map(rowOf) })))
      }
      return { more: false, lines: reports.flatMap((report) => report.lines) }
    },
  }
  const rowOf = ({ id }: BulkLine) => {
    return { taskId: id, ...defined({ updatedAt: seen.get(id) }) }
  }
  /** The undo of a change gives each task the value that it had. */
  function valuesOf({ action, value, isUndo }: BulkInput, lines: readonly BulkLine[]) {
    if (isUndo !== true || (action !== 'priority' && action !== 'agent')) return [[value, lines]] as const
    const old = (id: string) => {
      const row = before.get(id)
      return action === 'agent' ? (row?.agent ?? null) : String(row?.priority ?? 0)
    }
    return [...groupBy(lines, ({ id }) => old(id))]
  }
  function noted(report: Awaited<ReturnType<typeof bulkTasks>>): BulkReport {
    for (const row of report.rows) {
      if (!before.has(row.taskId)) before.set(row.taskId, row)
      if (row.updatedAt !== null) seen.set(row.taskId, row.updatedAt)
    }
    return reportOf(report)
  }
  return (
    <BulkDialog
      project={project}
      noun="task"
      actions={actions}
      ports={ports}
      agents={agents.data?.agents ?? []}
      close={() => {
        close()
        selection.clear()
      }}
      changed={() => void client.invalidateQueries({ queryKey: ['board'] })}
    />
  )
}

type Row = Awaited<ReturnType<typeof bulkTasks>>['rows'][number]

/** An agent that was not named before cannot be taken away again. */
const withoutAgent = (line: BulkLine): BulkLine => ({
  ...line,
  result: 'unaffected',
  reason: 'it named no agent before: change the task to name another one',
})

function bodyOf({ action, value, reason }: BulkInput): Pick<BulkTasks, 'action' | 'change' | 'reason'> {
  if (action === 'priority') return { change: { priority: Number(value) } }
  if (action === 'agent') return { change: { agent: value } }
  return { action: action as NonNullable<BulkTasks['action']>, ...(reason === '' ? {} : { reason }) }
}

const reportOf = ({ rows, more }: Awaited<ReturnType<typeof bulkTasks>>): BulkReport => ({
  more,
  lines: rows.map((row) => ({
    id: row.taskId,
    title: row.title ?? '',
    status: row.status,
    result: row.result,
    reason: row.reason,
  })),
})
