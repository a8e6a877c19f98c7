/**
 * Makes log and kernel agree again, whoever crashed where: every run that the log holds open is asked after, and ends as its
 * turn did. Always: a turn that the kernel has never heard of is started if it is certain that it never was (respawn.ts), and
 * else ends as blocked, after this process has itself watched it unknown for the grace; whatever lasts too long is stopped,
 * and closed even if it does not heed.
 */
import { retryCall } from '../../ports/retry.js'
import { watchedMs, type Dispatcher, type DispatchPolicies } from './dispatcher.js'
import { abortOf, openRun } from '../tasks/task-fields.js'
import type { TurnStatus } from '../ports.js'
import { kernelIdentity } from './spawn-turn.js'
import { deadlineSecOf } from '../policies/recovery.js'
import { isStartBlocked, spawnableIntent, respawnTurn } from './respawn.js'
import { closeRun, settle, type RunName, type Settled } from './settle.js'
import type { Run, Task } from '../log/task.js'
import { openRuns } from '../tasks/open-runs.js'

export type Reconciled = Settled | { readonly result: 'active' } | { readonly result: 'unreachable' }

// Enough to keep a kernel busy for a moment, not to drown one that has just come back.
const atOnce = 8
// How long a turn that was told to stop may go on before the board no longer waits for it.
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

/** The open run of one task, now: for whoever does not want to wait for the next step. */
export async function reconcileTask(dispatcher: Dispatcher, taskId: string): Promise<Reconciled> {
  const task = dispatcher.board.state.tasks.get(taskId)
  const run = task === undefined ? null : openRun(task)
  return run === null
    ? { result: 'already_closed' }
    : reconcileSafely(dispatcher, await dispatcher.policies(), { taskId, runId: run.runId })
}

/** One run's trouble is not the others'. */
async function reconcileSafely(dispatcher: Dispatcher, policies: DispatchPolicies, name: RunName): Promise<Reconciled> {
  try {
    return await reconcileRun(dispatcher, policies, name)
  } catch (error) {
    dispatcher.log.error({ err: error, ...name }, 'a run could not be reconciled; it is tried again at the next step')
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
    const call = { kind: 'command_routing', name: `the status of ${name.taskId}` } as const
    status = await retryCall(policies.calls, call, () => dispatcher.spawner.status(name.runId), dispatcher)
  } catch (error) {
    dispatcher.log.warn({ err: error, ...name }, 'the kernel does not say how a turn stands')
    return { result: 'unreachable' }
  }
  if (status.status === 'ended') return settle(dispatcher, policies, name, status)
  if (status.status === 'unknown') return handleUnknown(dispatcher, policies, name, task)
  return checkActive(dispatcher, policies, name, task, run)
}

/**
 * The kernel has never heard of it. Meant for this kernel and not started: it is started now, with the same key. Otherwise
 * never again: nobody can tell whether it did its work somewhere else.
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
  const found = spawnableIntent(task, name.runId, kernel)
  // Whoever wrote the intent may be about to spawn: it has half of the grace for that, by its own clock.
  if (Math.max(watched, found?.ageMs ?? 0) < spawnGraceMs) return { result: 'active' }
  if (found !== null && kernel !== null) {
    if (!isStartBlocked(dispatcher.board.state, task)) await respawnTurn(dispatcher, policies, name, kernel)
    return { result: 'active' }
  }
  const detail = 'this kernel does not know the turn: it was never started, or ran elsewhere, or is past retention'
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
  const goingMs = watchedMs(dispatcher, name.runId, 'active')
  const late = goingMs > deadlineSecOf(policies.recovery, run.agent) * 1_000
  const abort = abortOf(task)
  const why =
    abort !== null
      ? `aborted by ${abort.by}`
      : task.status !== 'in_progress'
        ? `the task is ${task.status}`
        : late
          ? 'the deadline of its hop has passed'
          : null
  if (why === null) return { result: 'active' }
  const stoppingMs = watchedMs(dispatcher, name.runId, 'stopping')
  try {
    const call = { kind: 'command_routing', name: `the stop of ${name.taskId}` } as const
    await retryCall(policies.calls, call, () => dispatcher.spawner.stop(name.runId, why), dispatcher)
  } catch (error) {
    dispatcher.log.warn({ err: error, ...name }, 'a turn could not be told to stop')
  }
  if (stoppingMs < stopGraceMs) return { result: 'active' }
  dispatcher.log.error({ ...name }, 'a turn does not stop; its task no longer waits for it')
  return closeRun(dispatcher, policies, name, {
    ...noUsage,
    outcome: 'timeout',
    error: why,
    elapsedMs: Math.ceil(goingMs),
    verdict: { is: 'failed', reasonCode: 'spawn_failed', detail: `${why}, and it did not stop` },
  })
}
