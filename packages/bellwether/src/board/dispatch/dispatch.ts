/**
 * Dispatches one task and waits for its end. Always: what it answers is what the log says, whoever settled the run; while it
 * waits it looks at the board again and again, so an operator's word reaches the turn; when its own signal fires it leaves
 * the run to the reconciler, and says so.
 */
import { InvalidInput } from '@bellwether/protocol'
import { startRun, type StartResult, type TaskPicker } from './start-run.js'
import { firstReady } from '../tasks/next-task.js'
import type { Dispatcher } from './dispatcher.js'
import { openRun } from '../tasks/task-fields.js'
import type { Backfill, KnowledgeOutcome } from '../policies/knowledge.js'
import { readiness } from '../tasks/ready.js'
import { reconcileRun } from './reconcile.js'
import { reportOf, type DispatchReport } from './report.js'
import type { RunName } from './settle.js'

/** This task or none. */
export function pickTask(taskId: string): TaskPicker {
  return (state, nowMs, rules) => {
    const task = state.tasks.get(taskId)
    if (task === undefined) return { none: `there is no task ${taskId}` }
    return { task, readiness: readiness(task, state, nowMs, rules) }
  }
}

/** The one that comes first. */
export const pickNext: TaskPicker = (state, nowMs, rules) => {
  const { task, because } = firstReady(state, nowMs, rules)
  return task === null ? { none: because } : { task, readiness: readiness(task, state, nowMs, rules) }
}

export async function dispatch(dispatcher: Dispatcher, taskId: string, signal: AbortSignal): Promise<DispatchReport> {
  const started = await startRun(dispatcher, pickTask(taskId))
  if (started.started === 'no') {
    const cooling = await coolingReport(dispatcher, taskId)
    if (cooling !== null) return cooling
    throw new InvalidInput(`${taskId} cannot be dispatched: ${started.why}`, {
      code: 'not_ready',
      hint: `bellwether task show ${taskId} tells what it waits for`,
    })
  }
  return followRun(dispatcher, started, signal)
}

/** Inside a cool-down the last decision stands, and is told again. */
async function coolingReport(dispatcher: Dispatcher, taskId: string): Promise<DispatchReport | null> {
  const { board, clock, settings } = dispatcher
  const task = board.state.tasks.get(taskId)
  if (task === undefined) return null
  const rules = { firstAgent: settings.firstAgent, recovery: (await dispatcher.policies()).recovery }
  const told = readiness(task, board.state, clock.wallMs(), rules)
  if (told.ready || told.code !== 'cooldown') return null
  const report = reportOf(task, false, null)
  return report.spawn === null ? report : { ...report, spawn: { ...report.spawn, cooldownActive: true } }
}

/** Waits for the end of what has started, and reports it. */
export async function followRun(
  dispatcher: Dispatcher,
  started: Exclude<StartResult, { started: 'no' }>,
  signal: AbortSignal,
): Promise<DispatchReport> {
  const { taskId } = started
  if (started.started === 'over_budget') return reportOf(dispatcher.board.state.tasks.get(taskId)!, true, null)
  const { settledHere, backfill } = await waitForEnd(dispatcher, { taskId, runId: started.runId }, signal)
  const knowledge: KnowledgeOutcome = { ...started.knowledge, backfill }
  return reportOf(dispatcher.board.state.tasks.get(taskId)!, settledHere, knowledge)
}

async function waitForEnd(
  dispatcher: Dispatcher,
  name: RunName,
  signal: AbortSignal,
): Promise<{ settledHere: boolean; backfill: Backfill | null }> {
  for (;;) {
    await dispatcher.board.sync()
    const task = dispatcher.board.state.tasks.get(name.taskId)
    if (task === undefined || openRun(task)?.runId !== name.runId) return { settledHere: false, backfill: null }
    const what = await reconcileRun(dispatcher, await dispatcher.policies(), name)
    if (what.result === 'closed') return { settledHere: true, backfill: what.backfill }
    if (signal.aborted) return { settledHere: false, backfill: null }
    await endOrInterval(dispatcher, name.runId, signal)
  }
}

/** Until the turn has ended, the interval is over or the signal fires; whoever listens for the end is let go then. */
export async function endOrInterval(dispatcher: Dispatcher, runId: string, signal: AbortSignal): Promise<void> {
  const over = new AbortController()
  const letGo = () => over.abort()
  signal.addEventListener('abort', letGo, { once: true })
  const interval = dispatcher.clock.sleep(dispatcher.settings.intervalMs, over.signal)
  const ended = dispatcher.spawner.ended(runId, over.signal).then(
    // A turn that has ended and still waits for its evidence: not at once again, but at the interval.
    (status) => (status.status === 'ended' && dispatcher.seenSince.has(`${runId}:evidence`) ? interval : undefined),
    (error: unknown) => {
      dispatcher.log.warn({ err: error, runId }, 'the end of a turn cannot be listened for; it is asked after instead')
      return interval
    },
  )
  await Promise.race([ended, interval])
  over.abort()
  signal.removeEventListener('abort', letGo)
}
