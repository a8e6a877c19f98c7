/**
 * Dispatches one task and waits for its end. The report comes from the log, whichever process closed the run. While waiting
 * it keeps reconciling, so an operator's command reaches the turn. If its signal fires it leaves the run to the reconciler.
 */
import { linkAbort } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { startRun, type StartResult, type TaskPicker } from './start-run.js'
import { decideNext, type Decision } from '../tasks/next-task.js'
import type { Dispatcher } from './dispatcher.js'
import { openRun } from '../tasks/task-fields.js'
import type { Backfill } from '../policies/knowledge.js'
import { readiness } from '../tasks/ready.js'
import { reconcileRun } from './reconcile.js'
import type { DispatchReport, KnowledgeOutcome } from '@bellwether/protocol/http'
import { reportOf } from './report.js'
import type { RunName } from './settle.js'
import { mergeQueued } from './merge.js'

/** Picks this task if it is ready. */
function pickTask(taskId: string): TaskPicker {
  return (state, nowMs, rules) => {
    const task = state.tasks.get(taskId)
    if (task === undefined) return { task: null, because: 'it does not exist' }
    const found = readiness(task, state, nowMs, rules)
    return found.ready
      ? { task, assignee: found.assignee, because: 'it was requested' }
      : { task: null, because: found.why, code: found.code }
  }
}

/** Picks the decided task; decides again only if the board has changed since. */
export function pickDecided(decision: Decision): TaskPicker {
  return (state, nowMs, rules) => (state === decision.state ? decision.next : decideNext(state, nowMs, rules).next)
}

export async function dispatch(dispatcher: Dispatcher, taskId: string, signal: AbortSignal): Promise<DispatchReport> {
  const started = await startRun(dispatcher, await dispatcher.policies(), pickTask(taskId))
  if (started.started !== 'no') return followRun(dispatcher, started, signal)
  const task = dispatcher.board.state.tasks.get(taskId)
  if (started.code === 'cooldown' && task !== undefined) {
    // During a cool-down the last decision stands and is reported again.
    const report = reportOf(task, false, null)
    return report.spawn === null ? report : { ...report, spawn: { ...report.spawn, cooldownActive: true } }
  }
  throw new InvalidInput(`Cannot dispatch task "${taskId}": ${started.why.replace(/\.$/, '')}.`, {
    code: 'not_ready',
    hint: `Run bellwether task show ${taskId} to see what it waits for.`,
  })
}

/** Waits for the end of the run and reports it. */
export async function followRun(
  dispatcher: Dispatcher,
  started: Exclude<StartResult, { started: 'no' }>,
  signal: AbortSignal,
): Promise<DispatchReport> {
  const { taskId } = started
  if (started.started === 'over_budget') return reportOf(dispatcher.board.state.tasks.get(taskId)!, true, null)
  const { settledHere, backfill } = await waitForEnd(dispatcher, { taskId, runId: started.runId }, signal)
  const knowledge: KnowledgeOutcome = { ...started.knowledge, backfill }
  if (settledHere) await mergeQueued(dispatcher, await dispatcher.policies())
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
    const reconciled = await reconcileRun(dispatcher, await dispatcher.policies(), name)
    if (reconciled.result === 'closed') return { settledHere: true, backfill: reconciled.backfill }
    if (signal.aborted) return { settledHere: false, backfill: null }
    await endOrInterval(dispatcher, name.runId, signal)
  }
}

/** Waits until the turn has ended, the interval is over or the signal fires. */
async function endOrInterval(dispatcher: Dispatcher, runId: string, signal: AbortSignal): Promise<void> {
  const over = linkAbort(signal)
  const interval = dispatcher.clock.sleep(dispatcher.settings.intervalMs, over.signal)
  const ended = dispatcher.spawner.ended(runId, over.signal).then(
    // The turn has ended but its evidence is not available yet: ask again after the interval.
    (status) => (status.status === 'ended' && dispatcher.seenSince.has(`${runId}:evidence`) ? interval : undefined),
    (error: unknown) => {
      dispatcher.log.warn({ err: error, runId }, 'cannot wait for the end of a turn; polling instead')
      return interval
    },
  )
  await Promise.race([ended, interval])
  over.abort()
}
