/**
 * One action or one change for many tasks. The preview decides as the action does, on the newest state, and writes nothing. So it names
 * the reason that the action would give.
 */
import { defined } from '@bellwether/base'
import { InvalidInput, type BulkTaskAction } from '@bellwether/protocol'
import { changeTask, retryTask } from '../tasks/task-commands.js'
import { textField } from '../tasks/task-fields.js'
import type { Board, Task } from '../log/task.js'
import type { Dispatcher } from './dispatcher.js'
import { patchRequest, portsOf, taskMoves } from './requests.js'

export interface BulkTaskChange {
  readonly action?: BulkTaskAction | undefined
  readonly change?: { readonly priority?: number | undefined; readonly agent?: string | undefined } | undefined
  readonly reason?: string | undefined
}

export interface BulkTasks {
  /** Why the action does not apply to the task; null: it does. */
  preview(task: Task): Promise<string | null>
  /** `since`: it is refused if the task has changed since this time. */
  run(task: Task, since: string | undefined): Promise<void>
}

export function bulkTasks(dispatcher: Dispatcher, { action, change, reason }: BulkTaskChange, by: string): BulkTasks {
  const fields = defined({ ...change })
  const input = { by, ...defined({ reason }) }
  const ports = { ...portsOf(dispatcher), board: undecided(dispatcher.board) }
  async function decide({ taskId }: Task): Promise<unknown> {
    if (action === undefined) return changeTask(ports, taskId, fields, by)
    if (action === 'retry') return retryTask({ ...ports, firstAgent: dispatcher.settings.firstAgent }, taskId, input)
    return taskMoves[action](ports, taskId, input)
  }
  return {
    async preview(task) {
      if (action === undefined && has(task, fields)) return 'it has these values already'
      try {
        await decide(task)
        return null
      } catch (error) {
        if (error instanceof InvalidInput) return error.message
        throw error
      }
    },
    async run({ taskId }, updatedAt) {
      const what = action === undefined ? fields : { action, ...defined({ reason }) }
      await patchRequest(dispatcher, taskId, { ...what, ...defined({ updatedAt }) }, by)
    },
  }
}

const has = (task: Task, { priority, agent }: NonNullable<BulkTaskChange['change']>) =>
  (priority ?? task.priority) === task.priority && (agent ?? textField(task, 'agent')) === textField(task, 'agent')

/** A board on which a command is decided and not written. */
const undecided = (board: Board): Pick<Board, 'write'> => ({
  async write(decide) {
    decide(board.state)
    return []
  },
})
