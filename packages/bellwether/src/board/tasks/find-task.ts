/** Finds a task by its id, and builds the errors of rejected commands. */
import { defined } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { BoardState, Task } from '../log/task.js'

export function rejected(message: string, code: string, hint?: string): InvalidInput {
  return new InvalidInput(message, { code, ...defined({ hint }) })
}

export function mustNotBeDone({ taskId, status }: Task): void {
  if (status === 'done') throw rejected(`Task "${taskId}" is done, which is final.`, 'already_done')
}

export function mustBeUnchanged(task: Task, since: string | undefined): void {
  if (since !== undefined && task.updatedAt !== since)
    throw rejected(`Task "${task.taskId}" has changed since.`, 'task_changed', 'Read it again, and repeat the change.')
}

export function taskIn(state: BoardState, taskId: string): Task {
  const task = state.tasks.get(taskId)
  if (task === undefined)
    throw rejected(`Task "${taskId}" does not exist.`, 'unknown_task', 'Run bellwether task list to see all tasks.')
  return task
}
