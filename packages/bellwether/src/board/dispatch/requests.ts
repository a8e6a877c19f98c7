/**
 * The board's HTTP requests as functions. The HTTP contract has checked each body; one request makes one change or none. The
 * HTTP server owns methods, paths and status codes.
 */
import { defined } from '@bellwether/base'
import type { NewTask, TaskAction } from '@bellwether/protocol'
import type { BodyOf, TaskPatch } from '@bellwether/protocol/http'
import { readyRules, type Dispatcher } from './dispatcher.js'
import { finishChecked } from './finish.js'
import { addTask, blockTask, changeTask, claimTask, retryTask } from '../tasks/task-commands.js'
import {
  abort,
  approve,
  escalate,
  freeze,
  pause,
  reject,
  release,
  requireApproval,
  resume,
  unfreeze,
  type OperatorPorts,
} from '../tasks/operator-commands.js'
import type { Board, TaskEvent } from '../log/task.js'
import type { RecoveryPolicy } from '../policies/recovery.js'
import { mustBeUnchanged, rejected, taskIn } from '../tasks/find-task.js'
import { keepBranch, mergeTask, sendBack } from '../tasks/merge-commands.js'
import { mergeQueued } from './merge.js'
import { releaseWorktree } from './workspace.js'
import { mustKnowChecks } from '../policies/acceptance.js'
import { policiesForReading } from '../policies/reading.js'
import { stopAborted } from './reconcile.js'
import { worktreeOf } from '../tasks/task-fields.js'
import { taskView, type TaskView } from '../tasks/task-view.js'

interface MovePorts extends OperatorPorts {
  readonly recovery: () => Promise<RecoveryPolicy>
}

type MoveInput = Parameters<typeof sendBack>[2]
type Move = (ports: MovePorts, taskId: string, input: MoveInput) => Promise<readonly TaskEvent[]>

/** The actions on a task that only write to the log. */
export const taskMoves = {
  claim: (ports, taskId, { by }) => claimTask(ports, taskId, by),
  block: blockTask,
  escalate: async (ports, taskId, input) => escalate({ ...ports, recovery: await ports.recovery() }, taskId, input),
  freeze,
  unfreeze,
  release,
  approve,
  reject,
  require_approval: requireApproval,
  abort,
  merge: mergeTask,
  send_back: sendBack,
  keep: keepBranch,
} as const satisfies Record<Exclude<TaskAction, 'done' | 'retry'>, Move>

const statusActions = { claimed: 'claim', done: 'done', blocked: 'block' } as const

async function view(dispatcher: Dispatcher, taskId: string): Promise<TaskView> {
  const rules = readyRules(dispatcher, await policiesForReading(() => dispatcher.policies()))
  return taskView(dispatcher.board.state, taskId, dispatcher.clock.wallMs(), rules)
}

export const portsOf = (dispatcher: Dispatcher): MovePorts => ({
  board: dispatcher.board,
  nowMs: () => dispatcher.clock.wallMs(),
  recovery: async () => (await dispatcher.policies()).recovery,
})

/** The ports of a command that is refused if the task has changed since a time. */
function unchangedSince(dispatcher: Dispatcher, taskId: string, since: string | undefined): MovePorts {
  const { board, ...ports } = portsOf(dispatcher)
  const write: Board['write'] = (decide) =>
    board.write((state) => {
      mustBeUnchanged(taskIn(state, taskId), since)
      return decide(state)
    })
  return { ...ports, board: since === undefined ? board : { write } }
}

/** POST /board/tasks */
export async function createRequest(dispatcher: Dispatcher, task: NewTask, by: string): Promise<TaskView> {
  if (task.checks !== undefined) mustKnowChecks((await dispatcher.policies()).acceptance, task.checks)
  return view(dispatcher, await addTask(portsOf(dispatcher), task, by))
}

/** PATCH /board/tasks/{id}: fields of the task, or one action. */
export async function patchRequest(
  dispatcher: Dispatcher,
  taskId: string,
  { action, status, reason, comments, files, unchecked, freshBudget, updatedAt, ...fields }: TaskPatch,
  by: string,
): Promise<TaskView> {
  const selected = action ?? (status === undefined ? undefined : statusActions[status])
  const { agent, ...change } = fields
  if (selected !== undefined && Object.keys(change).length > 0) {
    throw rejected('A request changes fields or runs an action, not both.', 'ambiguous_change', 'Send two requests.')
  }
  if (comments !== undefined && selected !== 'retry' && selected !== 'send_back')
    throw rejected('Comments belong to the action retry or send_back.', 'comments_without_next_run')
  const ports = unchangedSince(dispatcher, taskId, updatedAt)
  if (selected === undefined) {
    if (fields.checks !== undefined) mustKnowChecks((await dispatcher.policies()).acceptance, fields.checks)
    await changeTask(ports, taskId, fields, by)
    return view(dispatcher, taskId)
  }
  const input = { by, ...defined({ reason }) }
  if (selected === 'done') {
    mustBeUnchanged(taskIn(await dispatcher.board.sync(), taskId), updatedAt)
    await finishChecked(dispatcher, taskId, { by, ...defined({ files, note: reason, unchecked }) })
  } else if (selected === 'retry') {
    const retry = { ...input, comments, ...defined({ agent, freshBudget }) }
    await retryTask({ ...ports, firstAgent: dispatcher.settings.firstAgent }, taskId, retry)
  } else await taskMoves[selected](ports, taskId, { ...input, ...defined({ comments }) })
  // The abort is recorded; this only stops the turn sooner.
  if (selected === 'abort') await stopAborted(dispatcher, taskId)
  if (selected === 'merge') await mergeQueued(dispatcher, await dispatcher.policies())
  const changed = dispatcher.board.state.tasks.get(taskId)
  if (changed !== undefined && worktreeOf(changed) !== null)
    await releaseWorktree(dispatcher, await dispatcher.policies(), taskId)
  return view(dispatcher, taskId)
}

/** POST /board/control: pauses or resumes the whole board. */
export async function controlRequest(
  dispatcher: Dispatcher,
  { paused, reason }: BodyOf<'POST /board/control'>,
  by: string,
): Promise<{ readonly paused: boolean }> {
  const input = { by, ...defined({ reason }) }
  await (paused ? pause(portsOf(dispatcher), input) : resume(portsOf(dispatcher), input))
  return { paused }
}
