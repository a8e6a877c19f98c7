/**
 * Makes log and kernel agree again, whoever crashed where: every run that the log holds open is asked after, and ends as its
 * turn did. Always: a turn that the kernel has never heard of is started if it is certain that it never was (respawn.ts), and
 * else ends as blocked, after this process has itself watched it unknown for the grace; whatever lasts too long is stopped,
 * and closed even if it does not heed.
 */
import { retryCall } from '../../ports/retry.js'
import { watchedMs, type Desk, type DeskPolicies } from './dispatcher.js'
import { abortOf, openRun } from '../tasks/task-fields.js'
import type { TurnStanding } from '../ports.js'
import { kernelOf } from './spawn-turn.js'
import { deadlineSecOf } from '../policies/recovery.js'
import { isHeld, spawnableIntent, spawnAgain } from './respawn.js'
import { closeRun, settle, type RunName, type Settled } from './settle.js'
import type { Run, Task } from '../log/task.js'
import { openRuns } from '../tasks/open-runs.js'

export type Reconciled = Settled | { readonly settled: 'going' } | { readonly settled: 'away' }

// Enough to keep a kernel busy for a moment, not to drown one that has just come back.
const atOnce = 8
// How long a turn that was told to stop may go on before the board no longer waits for it.
const stopGraceMs = 60_000

export async function reconcileAll(
  desk: Desk,
  policies: DeskPolicies,
): Promise<readonly (RunName & { readonly what: Reconciled })[]> {
  const todo = openRuns(desk.board.state).filter(({ runId }) => !desk.inHand.has(runId))
  const done: (RunName & { readonly what: Reconciled })[] = []
  const lane = async () => {
    for (let next = todo.shift(); next !== undefined; next = todo.shift()) {
      const { taskId, runId } = next
      done.push({ taskId, runId, what: await apart(desk, policies, { taskId, runId }) })
    }
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, todo.length) }, lane))
  return done
}

/** The open run of one task, now: for whoever does not want to wait for the next step. */
export async function reconcileTask(desk: Desk, taskId: string): Promise<Reconciled> {
  const task = desk.board.state.tasks.get(taskId)
  const run = task === undefined ? null : openRun(task)
  return run === null ? { settled: 'already' } : apart(desk, await desk.policies(), { taskId, runId: run.runId })
}

/** One run's trouble is not the others'. */
async function apart(desk: Desk, policies: DeskPolicies, name: RunName): Promise<Reconciled> {
  try {
    return await reconcileRun(desk, policies, name)
  } catch (error) {
    desk.log.error({ err: error, ...name }, 'a run could not be reconciled; it is tried again at the next step')
    return { settled: 'away' }
  }
}

export async function reconcileRun(desk: Desk, policies: DeskPolicies, name: RunName): Promise<Reconciled> {
  const task = desk.board.state.tasks.get(name.taskId)
  const run = task === undefined ? null : openRun(task)
  if (task === undefined || run?.runId !== name.runId || desk.inHand.has(name.runId)) return { settled: 'already' }
  let standing: TurnStanding
  try {
    const call = { kind: 'command_routing', name: `the standing of ${name.taskId}` } as const
    standing = await retryCall(policies.calls, call, () => desk.spawner.standing(name.runId), desk)
  } catch (error) {
    desk.log.warn({ err: error, ...name }, 'the kernel does not say how a turn stands')
    return { settled: 'away' }
  }
  if (standing.standing === 'ended') return settle(desk, policies, name, standing)
  if (standing.standing === 'unknown') return lost(desk, policies, name, task)
  return goingOn(desk, policies, name, task, run)
}

/**
 * The kernel has never heard of it. Meant for this kernel and not started: it is started now, with the same key. Otherwise
 * never again: nobody can tell whether it did its work somewhere else.
 */
async function lost(desk: Desk, policies: DeskPolicies, name: RunName, task: Task): Promise<Reconciled> {
  const { spawnGraceMs } = desk.settings
  const watched = watchedMs(desk, name.runId, 'unknown')
  const kernel = await kernelOf(desk, policies)
  const found = spawnableIntent(task, name.runId, kernel)
  // Whoever wrote the intent may be about to spawn: it has half of the grace for that, by its own clock.
  if (Math.max(watched, found?.ageMs ?? 0) < spawnGraceMs) return { settled: 'going' }
  if (found !== null && kernel !== null) {
    if (!isHeld(desk.board.state, task)) await spawnAgain(desk, policies, name, kernel)
    return { settled: 'going' }
  }
  const detail = 'this kernel does not know the turn: it was never started, or ran elsewhere, or is past retention'
  const closed = await closeRun(desk, policies, name, {
    ...unheard,
    outcome: 'unknown',
    error: detail,
    verdict: { is: 'person', reasonCode: 'turn_unknown', detail },
  })
  if (closed.settled === 'closed') {
    desk.alerts.raise({ kind: 'turn_unknown', taskId: name.taskId, text: `${name.taskId}: ${detail}` })
  }
  return closed
}

const unheard = { agentTurnId: null, tokenUsage: 0, elapsedMs: 0 } as const

async function goingOn(desk: Desk, policies: DeskPolicies, name: RunName, task: Task, run: Run): Promise<Reconciled> {
  desk.seenSince.delete(`${name.runId}:unknown`)
  const goingMs = watchedMs(desk, name.runId, 'going')
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
  if (why === null) return { settled: 'going' }
  const stoppingMs = watchedMs(desk, name.runId, 'stopping')
  try {
    const call = { kind: 'command_routing', name: `the stop of ${name.taskId}` } as const
    await retryCall(policies.calls, call, () => desk.spawner.stop(name.runId, why), desk)
  } catch (error) {
    desk.log.warn({ err: error, ...name }, 'a turn could not be told to stop')
  }
  if (stoppingMs < stopGraceMs) return { settled: 'going' }
  desk.log.error({ ...name }, 'a turn does not stop; its task no longer waits for it')
  return closeRun(desk, policies, name, {
    ...unheard,
    outcome: 'timeout',
    error: why,
    elapsedMs: Math.ceil(goingMs),
    verdict: { is: 'failed', reasonCode: 'spawn_failed', detail: `${why}, and it did not stop` },
  })
}
