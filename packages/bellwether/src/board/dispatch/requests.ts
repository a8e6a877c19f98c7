/**
 * The board's HTTP routes as plain functions: what a body may say, and what is done about it. Always: a body is checked before
 * anything happens; one request makes one change, or none. Methods, paths and status codes are the server's.
 */
import { z } from 'zod'
import { runAutopilot } from './autopilot.js'
import type { CachePorts } from './caches.js'
import type { Dispatcher } from './dispatcher.js'
import { dispatch } from './dispatch.js'
import { finishChecked } from './finish.js'
import { addTask, blockTask, changeTask, claimTask, retryTask } from '../tasks/task-commands.js'
import { changeShape, checked, newTaskShape } from '../tasks/input.js'
import {
  abort,
  approve,
  escalate,
  freeze,
  pause,
  refused,
  requireApproval,
  resume,
  unfreeze,
} from '../tasks/operator-commands.js'
import { reconcileTask } from './reconcile.js'
import type { ReadyRules } from '../tasks/ready.js'
import type { DispatchReport } from './report.js'
import { taskView, type TaskView } from '../tasks/task-view.js'

const actions = [
  'claim',
  'done',
  'block',
  'escalate',
  'freeze',
  'unfreeze',
  'approve',
  'require_approval',
  'abort',
  'retry',
] as const

const patchShape = changeShape.extend({
  action: z.enum(actions).optional(),
  /** The status that is wanted, for clients that think in those. */
  status: z.enum(['claimed', 'done', 'blocked']).optional(),
  reason: z.string().max(2_000).optional(),
  files: z.array(z.string().max(4_096)).max(500).optional(),
  unchecked: z.boolean().optional(),
  freshBudget: z.boolean().optional(),
})
const statusActions = { claimed: 'claim', done: 'done', blocked: 'block' } as const

const autopilotShape = z.strictObject({ maxSteps: z.number().int().min(1).max(1_000).optional() })
const controlShape = z.strictObject({ paused: z.boolean(), reason: z.string().max(2_000).optional() })

async function rulesOf(dispatcher: Dispatcher): Promise<ReadyRules> {
  return { firstAgent: dispatcher.settings.firstAgent, recovery: (await dispatcher.policies()).recovery }
}

async function view(dispatcher: Dispatcher, taskId: string): Promise<TaskView> {
  return taskView(dispatcher.board.state, taskId, dispatcher.clock.wallMs(), await rulesOf(dispatcher))
}

const portsOf = (dispatcher: Dispatcher) => ({ board: dispatcher.board, nowMs: () => dispatcher.clock.wallMs() })

/** POST /board/tasks */
export async function createRequest(dispatcher: Dispatcher, body: unknown, by: string): Promise<TaskView> {
  return view(dispatcher, await addTask(portsOf(dispatcher), checked(newTaskShape, body, 'the task'), by))
}

/** PATCH /board/tasks/{id}: words of the task, or one action. */
export async function patchRequest(
  dispatcher: Dispatcher,
  taskId: string,
  body: unknown,
  by: string,
): Promise<TaskView> {
  const { action, status, reason, files, unchecked, freshBudget, ...words } = checked(patchShape, body, 'the change')
  const wanted = action ?? (status === undefined ? undefined : statusActions[status])
  const { agent, ...change } = words
  if (wanted !== undefined && Object.keys(change).length > 0) {
    throw refused('one request changes words or makes a move, not both', 'ambiguous_change', 'send two requests')
  }
  if (wanted === undefined) {
    await changeTask(portsOf(dispatcher), taskId, words, by)
    return view(dispatcher, taskId)
  }
  const ports = portsOf(dispatcher)
  const word = { by, ...(reason === undefined ? {} : { reason }) }
  switch (wanted) {
    case 'claim':
      await claimTask(ports, taskId, by)
      break
    case 'done':
      await finishChecked(dispatcher, taskId, {
        by,
        ...(files === undefined ? {} : { files }),
        ...(reason === undefined ? {} : { note: reason }),
        ...(unchecked === undefined ? {} : { unchecked }),
      })
      break
    case 'block':
      await blockTask(ports, taskId, word)
      break
    case 'escalate':
      await escalate({ ...ports, recovery: (await dispatcher.policies()).recovery }, taskId, word)
      break
    case 'freeze':
      await freeze(ports, taskId, word)
      break
    case 'unfreeze':
      await unfreeze(ports, taskId, word)
      break
    case 'approve':
      await approve(ports, taskId, word)
      break
    case 'require_approval':
      await requireApproval(ports, taskId, word)
      break
    case 'abort':
      await abort(ports, taskId, word)
      // The word counts whatever comes of this; the turn is only told sooner.
      await reconcileTask(dispatcher, taskId)
      break
    case 'retry':
      await retryTask({ ...ports, firstAgent: dispatcher.settings.firstAgent }, taskId, {
        ...word,
        ...(agent === undefined ? {} : { agent }),
        ...(freshBudget === undefined ? {} : { freshBudget }),
      })
      break
  }
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
  body: unknown,
  signal: AbortSignal,
): ReturnType<typeof runAutopilot> {
  const { maxSteps = 1 } = checked(autopilotShape, body ?? {}, 'the request')
  return runAutopilot(dispatcher, caches, { maxSteps, signal })
}

/** Pause or resume the whole board. */
export async function controlRequest(
  dispatcher: Dispatcher,
  body: unknown,
  by: string,
): Promise<{ readonly paused: boolean }> {
  const { paused, reason } = checked(controlShape, body, 'the request')
  const word = { by, ...(reason === undefined ? {} : { reason }) }
  await (paused ? pause(portsOf(dispatcher), word) : resume(portsOf(dispatcher), word))
  return { paused }
}
