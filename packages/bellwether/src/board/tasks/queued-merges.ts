/** The accepted changes that are merged next, in the order of their acceptance, updated only for tasks that changed. */
import { mergingOf, type Merging } from './task-fields.js'
import { incremental, TaskIndex } from './incremental.js'
import type { BoardState, Task } from '../log/task.js'

class QueuedMerges extends TaskIndex {
  readonly tasks = new Map<string, Task>()

  protected reindex(task: Task): void {
    if (queuedMerge(task) === null) this.tasks.delete(task.taskId)
    else this.tasks.set(task.taskId, task)
  }
}

/** The change of a task that is merged next; null: it is not. */
export function queuedMerge(task: Task): Merging | null {
  const merging = task.status === 'review' ? mergingOf(task) : null
  return merging?.state === 'queued' ? merging : null
}

const index = incremental<null, QueuedMerges>(() => new QueuedMerges())

export const countQueuedMerges = (state: BoardState): number => index(state, null).tasks.size

export function queuedMerges(state: BoardState): readonly Task[] {
  const { tasks } = index(state, null)
  if (tasks.size === 0) return []
  return [...tasks.values()].toSorted((a, b) =>
    a.updatedAt === b.updatedAt ? (a.taskId < b.taskId ? -1 : 1) : a.updatedAt < b.updatedAt ? -1 : 1,
  )
}
