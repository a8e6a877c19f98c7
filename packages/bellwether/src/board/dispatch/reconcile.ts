/**
 * Reconciles the log with the kernel after any crash: asks the kernel about every open run and closes it as its turn ended. A
 * turn that the kernel does not know is respawned if it certainly never started (respawn.ts); otherwise its task is blocked
 * after this process has observed it as unknown for the grace period. A turn past its deadline is stopped; its run is closed
 * even if the turn does not stop.
 */
import { defaultCallPolicy, retryCall, type CallPolicy } from '../../ports/retry.js'
import { watchedMs, type Dispatcher, type DispatchPolicies } from './dispatcher.js'
import { abortOf, openRun, turnWaitOf } from '../tasks/task-fields.js'
import type { TurnStatus } from '../ports.js'
import { kernelIdentity } from './spawn-turn.js'
import { deadlineSecOf } from '../policies/recovery.js'
import { isStartBlocked, respawnTurn, sinceLastTryMs, spawnableIntent } from './respawn.js'
import { closeRun, settle, type RunName, type Settled } from './settle.js'
import type { BoardState, Run, Task } from '../log/task.js'
import { openRuns } from '../tasks/open-runs.js'

export type Reconciled = Settled | { readonly result: 'active' } | { readonly result: 'unreachable' }

// Few enough not to overload a kernel that has just restarted.
const atOnce = 8
// How long the board waits for a turn after asking it to stop.
const stopGraceMs = 60_000

export async function reconcileAll(
  dispatcher: Dispatcher,
  policies: DispatchPolicies,
): Promise<readonly (RunName & { readonly what: Reconciled })[]> {
  const todo = openRuns(dispatcher.board.state).filter(({ runId }) => !dispatcher.busyRuns.has(runId))
  const done: (RunName & { readonly what: Reconciled })[] = []
  const lane = async () => {
    for (let next = todo.shift(); next !== undefined; next = todo.shift()) {
      const { taskId, runId } = next
      done.push({ taskId, runId, what: await reconcileSafely(dispatcher, policies, { taskId, runId }) })
    }
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, todo.length) }, lane))
  return done
}

/**
 * Stops the turn of an aborted task now; the next step closes its run. Uses no policy, so that an invalid policy file does not keep the
 * turn running.
 */
export async function stopAborted(dispatcher: Dispatcher, taskId: string): Promise<void> {
  const task = dispatcher.board.state.tasks.get(taskId)
  const run = task === undefined ? null : openRun(task)
  const why = task === undefined ? null : abortedBy(task)
  if (run !== null && why !== null) await stopTurn(dispatcher, defaultCallPolicy, { taskId, runId: run.runId }, why)
}

function abortedBy(task: Task): string | null {
  const abort = abortOf(task)
  return abort === null ? null : `aborted by ${abort.by}`
}

async function stopTurn(dispatcher: Dispatcher, calls: CallPolicy, name: RunName, why: string): Promise<void> {
  const call = { kind: 'command_routing', name: `stopping the turn of ${name.taskId}` } as const
  try {
    await retryCall(calls, call, () => dispatcher.spawner.stop(name.runId, why), dispatcher)
  } catch (error) {
    dispatcher.log.warn({ err: error, ...name }, 'cannot stop a turn')
  }
}

/** A failure of one run does not affect the others. */
async function reconcileSafely(dispatcher: Dispatcher, policies: DispatchPolicies, name: RunName): Promise<Reconciled> {
  try {
    return await reconcileRun(dispatcher, policies, name)
  } catch (error) {
    dispatcher.log.error({ err: error, ...name }, 'cannot reconcile a run; retrying at the next step')
    return { result: 'unreachable' }
  }
}

export async function reconcileRun(
  dispatcher: Dispatcher,
  policies: DispatchPolicies,
  name: RunName,
): Promise<Reconciled> {
  const task = dispatcher.board.state.tasks.get(name.taskId)
  const run = task === undefined ? null : openRun(task)
  if (task === undefined || run?.runId !== name.runId || dispatcher.busyRuns.has(name.runId))
    return { result: 'already_closed' }
  let status: TurnStatus
  try {
    const call = { kind: 'command_routing', name: `reading the turn status of ${name.taskId}` } as const
    status = await retryCall(policies.calls, call, () => dispatcher.spawner.status(name.runId), dispatcher)
  } catch (error) {
    dispatcher.log.warn({ err: error, ...name }, 'cannot read the status of a turn from the kernel')
    return { result: 'unreachable' }
  }
  if (status.status === 'ended') return settle(dispatcher, policies, name, status)
  if (status.status === 'unknown') return handleUnknown(dispatcher, policies, name, task)
  await noteTurnWait(dispatcher, name, status.waitsFor ?? null)
  return checkActive(dispatcher, policies, name, task, run)
}

/** Records why the turn of a run cannot run now, and that it can again, so that every reader of the log sees it. */
async function noteTurnWait(
  { board, actor }: Dispatcher,
  { taskId, runId }: RunName,
  why: string | null,
): Promise<void> {
  const isChange = (state: BoardState) => {
    const task = state.tasks.get(taskId)
    const run = task === undefined ? null : openRun(task)
    return task !== undefined && run?.runId === runId && turnWaitOf(task, run) !== why
  }
  if (!isChange(board.state)) return
  const turnWait = why === null ? null : { runId, why }
  await board.write((state) => (isChange(state) ? [{ taskId, type: 'task_noted', actor, payload: { turnWait } }] : []))
}

/**
 * The kernel does not know the turn. If the intent names this kernel, the turn is spawned now, with the same key. Otherwise it
 * is never spawned again: it may have run on another kernel.
 */
async function handleUnknown(
  dispatcher: Dispatcher,
  policies: DispatchPolicies,
  name: RunName,
  task: Task,
): Promise<Reconciled> {
  const { spawnGraceMs } = dispatcher.settings
  const watched = watchedMs(dispatcher, name.runId, 'unknown')
  const kernel = await kernelIdentity(dispatcher, policies)
  if (kernel === 'unreachable') return { result: 'unreachable' }
  // The writer of the intent, or of a later try, may be about to spawn: it has half of the grace period for that, by its own clock.
  if ((sinceLastTryMs(task, name.runId, kernel) ?? watched) < spawnGraceMs) return { result: 'active' }
  if (kernel !== null && spawnableIntent(task, name.runId, kernel) !== null) {
    if (!isStartBlocked(dispatcher.board.state, task)) await respawnTurn(dispatcher, policies, name, kernel)
    return { result: 'active' }
  }
  if (watched < spawnGraceMs) return { result: 'active' }
  const detail = 'the kernel does not know the turn: it never started, ran on another kernel, or is past retention'
  const closed = await closeRun(dispatcher, policies, name, {
    ...noUsage,
    outcome: 'unknown',
    error: detail,
    verdict: { is: 'person', reasonCode: 'turn_unknown', detail },
  })
  if (closed.result === 'closed') {
    dispatcher.alerts.raise({ kind: 'turn_unknown', taskId: name.taskId, text: `${name.taskId}: ${detail}` })
  }
  return closed
}

const noUsage = { agentTurnId: null, tokenUsage: 0, elapsedMs: 0 } as const

async function checkActive(
  dispatcher: Dispatcher,
  policies: DispatchPolicies,
  name: RunName,
  task: Task,
  run: Run,
): Promise<Reconciled> {
  dispatcher.seenSince.delete(`${name.runId}:unknown`)
  const activeMs = watchedMs(dispatcher, name.runId, 'active')
  const late = activeMs > deadlineSecOf(policies.recovery, run.agent) * 1_000
  const ended = task.status === 'in_progress' ? null : `the task is ${task.status}`
  const why = abortedBy(task) ?? ended ?? (late ? 'its deadline has passed' : null)
  if (why === null) return { result: 'active' }
  const stoppingMs = watchedMs(dispatcher, name.runId, 'stopping')
  await stopTurn(dispatcher, policies.calls, name, why)
  if (stoppingMs < stopGraceMs) return { result: 'active' }
  dispatcher.log.error({ ...name }, 'a turn does not stop; closing its run')
  return closeRun(dispatcher, policies, name, {
    ...noUsage,
    outcome: 'timeout',
    error: why,
    elapsedMs: Math.ceil(activeMs),
    verdict: { is: 'failed', reasonCode: 'spawn_failed', detail: `${why}, and the turn did not stop` },
  })
}
