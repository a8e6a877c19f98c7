/**
 * The board's HTTP requests as functions. The HTTP contract has checked each body; one request makes one change or none. The
 * HTTP server owns methods, paths and status codes.
 */
import { defined } from '@bellwether/base'
import type { NewTask } from '@bellwether/protocol'
import type { BodyOf, TaskPatch } from '@bellwether/protocol/http'
import { runAutopilot } from './autopilot.js'
import type { CachePorts } from './caches.js'
import { readyRules, type Dispatcher } from './dispatcher.js'
import { dispatch } from './dispatch.js'
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
} from '../tasks/operator-commands.js'
import { rejected } from '../tasks/find-task.js'
import { keepBranch, mergeTask, sendBack } from '../tasks/merge-commands.js'
import { mergeQueued } from './merge.js'
import { releaseWorktree } from './workspace.js'
import { mustKnowChecks } from '../policies/acceptance.js'
import { policiesForReading } from '../policies/reading.js'
import { reconcileTask } from './reconcile.js'
import type { DispatchReport } from '@bellwether/protocol/http'
import { worktreeOf } from '../tasks/task-fields.js'
import { taskView, type TaskView } from '../tasks/task-view.js'

const statusActions = { claimed: 'claim', done: 'done', blocked: 'block' } as const

async function view(dispatcher: Dispatcher, taskId: string): Promise<TaskView> {
  const rules = readyRules(dispatcher, await policiesForReading(() => dispatcher.policies()))
  return taskView(dispatcher.board.state, taskId, dispatcher.clock.wallMs(), rules)
}

const portsOf = (dispatcher: Dispatcher) => ({ board: dispatcher.board, nowMs: () => dispatcher.clock.wallMs() })

/** POST /board/tasks */
export async function createRequest(dispatcher: Dispatcher, task: NewTask, by: string): Promise<TaskView> {
  if (task.checks !== undefined) mustKnowChecks((await dispatcher.policies()).acceptance, task.checks)
  return view(dispatcher, await addTask(portsOf(dispatcher), task, by))
}

/** PATCH /board/tasks/{id}: fields of the task, or one action. */
export async function patchRequest(
  dispatcher: Dispatcher,
  taskId: string,
  { action, status, reason, comments, files, unchecked, freshBudget, ...fields }: TaskPatch,
  by: string,
): Promise<TaskView> {
  const selected = action ?? (status === undefined ? undefined : statusActions[status])
  const { agent, ...change } = fields
  if (selected !== undefined && Object.keys(change).length > 0) {
    throw rejected('A request changes fields or runs an action, not both.', 'ambiguous_change', 'Send two requests.')
  }
  if (comments !== undefined && selected !== 'retry' && selected !== 'send_back')
    throw rejected('Comments belong to the action retry or send_back.', 'comments_without_next_run')
  if (selected === undefined) {
    if (fields.checks !== undefined) mustKnowChecks((await dispatcher.policies()).acceptance, fields.checks)
    await changeTask(portsOf(dispatcher), taskId, fields, by)
    return view(dispatcher, taskId)
  }
  const ports = portsOf(dispatcher)
  const input = { by, ...defined({ reason }) }
  switch (selected) {
    case 'claim':
      await claimTask(ports, taskId, by)
      break
    case 'done':
      await finishChecked(dispatcher, taskId, { by, ...defined({ files, note: reason, unchecked }) })
      break
    case 'block':
      await blockTask(ports, taskId, input)
      break
    case 'escalate':
      await escalate({ ...ports, recovery: (await dispatcher.policies()).recovery }, taskId, input)
      break
    case 'freeze':
      await freeze(ports, taskId, input)
      break
    case 'unfreeze':
      await unfreeze(ports, taskId, input)
      break
    case 'release':
      await release(ports, taskId, input)
      break
    case 'approve':
      await approve(ports, taskId, input)
      break
    case 'reject':
      await reject(ports, taskId, input)
      break
    case 'require_approval':
      await requireApproval(ports, taskId, input)
      break
    case 'abort':
      await abort(ports, taskId, input)
      // The abort is recorded; this only stops the turn sooner.
      await reconcileTask(dispatcher, taskId)
      break
    case 'merge':
      await mergeTask(ports, taskId, input)
      await mergeQueued(dispatcher, await dispatcher.policies())
      break
    case 'send_back':
      await sendBack(ports, taskId, { ...input, comments })
      break
    case 'keep':
      await keepBranch(ports, taskId, input)
      break
    case 'retry':
      await retryTask({ ...ports, firstAgent: dispatcher.settings.firstAgent }, taskId, {
        ...input,
        comments,
        ...defined({ agent, freshBudget }),
      })
      break
  }
  const changed = dispatcher.board.state.tasks.get(taskId)
  if (changed !== undefined && worktreeOf(changed) !== null)
    await releaseWorktree(dispatcher, await dispatcher.policies(), taskId)
  return view(dispatcher, taskId)
}

/** POST /board/tasks/{id}/dispatch */
export function dispatchRequest(dispatcher: Dispatcher, taskId: string, signal: AbortSignal): Promise<DispatchReport> {
  return dispatch(dispatcher, taskId, signal)
}

/** POST /board/autopilot */
export function autopilotRequest(
  dispatcher: Dispatcher,
  caches: CachePorts,
  { maxSteps }: BodyOf<'POST /board/autopilot'>,
  signal: AbortSignal,
): ReturnType<typeof runAutopilot> {
  return runAutopilot(dispatcher, caches, { maxSteps, signal })
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
