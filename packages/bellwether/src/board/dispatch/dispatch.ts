/**
 * Dispatches one task and waits for its end. Always: what it answers is what the log says, whoever settled the run; while it
 * waits it looks at the board again and again, so an operator's word reaches the turn; when its own signal fires it leaves
 * the run to the reconciler, and says so.
 */
import { InvalidInput } from '@bellwether/protocol'
import { begin, type Begun, type Pick } from './start-run.js'
import { chooseFirst } from '../tasks/next-task.js'
import type { Desk } from './dispatcher.js'
import { openRun } from '../tasks/task-fields.js'
import type { Backfill, KnowledgeOutcome } from '../policies/knowledge.js'
import { readiness } from '../tasks/ready.js'
import { reconcileRun } from './reconcile.js'
import { reportOf, type DispatchReport } from './report.js'
import type { RunName } from './settle.js'

/** This task or none. */
export function theTask(taskId: string): Pick {
  return (state, nowMs, rules) => {
    const task = state.tasks.get(taskId)
    if (task === undefined) return { none: `there is no task ${taskId}` }
    return { task, readiness: readiness(task, state, nowMs, rules) }
  }
}

/** The one that comes first. */
export const theFirst: Pick = (state, nowMs, rules) => {
  const { task, because } = chooseFirst(state, nowMs, rules)
  return task === null ? { none: because } : { task, readiness: readiness(task, state, nowMs, rules) }
}

export async function dispatch(desk: Desk, taskId: string, signal: AbortSignal): Promise<DispatchReport> {
  const begun = await begin(desk, theTask(taskId))
  if (begun.begun === 'no') {
    const cooling = await coolingReport(desk, taskId)
    if (cooling !== null) return cooling
    throw new InvalidInput(`${taskId} cannot be dispatched: ${begun.why}`, {
      code: 'not_ready',
      hint: `bellwether task show ${taskId} tells what it waits for`,
    })
  }
  return followed(desk, begun, signal)
}

/** Inside a cool-down the last decision stands, and is told again. */
async function coolingReport(desk: Desk, taskId: string): Promise<DispatchReport | null> {
  const { board, clock, settings } = desk
  const task = board.state.tasks.get(taskId)
  if (task === undefined) return null
  const rules = { firstAgent: settings.firstAgent, recovery: (await desk.policies()).recovery }
  const told = readiness(task, board.state, clock.wallMs(), rules)
  if (told.ready || told.code !== 'cooldown') return null
  const report = reportOf(task, false, null)
  return report.spawn === null ? report : { ...report, spawn: { ...report.spawn, cooldownActive: true } }
}

/** Waits for the end of what has begun, and reports it. */
export async function followed(
  desk: Desk,
  begun: Exclude<Begun, { begun: 'no' }>,
  signal: AbortSignal,
): Promise<DispatchReport> {
  const { taskId } = begun
  if (begun.begun === 'over_budget') return reportOf(desk.board.state.tasks.get(taskId)!, true, null)
  const { settledHere, backfill } = await follow(desk, { taskId, runId: begun.runId }, signal)
  const knowledge: KnowledgeOutcome = { ...begun.knowledge, backfill }
  return reportOf(desk.board.state.tasks.get(taskId)!, settledHere, knowledge)
}

async function follow(
  desk: Desk,
  name: RunName,
  signal: AbortSignal,
): Promise<{ settledHere: boolean; backfill: Backfill | null }> {
  for (;;) {
    await desk.board.sync()
    const task = desk.board.state.tasks.get(name.taskId)
    if (task === undefined || openRun(task)?.runId !== name.runId) return { settledHere: false, backfill: null }
    const what = await reconcileRun(desk, await desk.policies(), name)
    if (what.settled === 'closed') return { settledHere: true, backfill: what.backfill }
    if (signal.aborted) return { settledHere: false, backfill: null }
    await endOrInterval(desk, name.runId, signal)
  }
}

/** Until the turn has ended, the interval is over or the signal fires; whoever listens for the end is let go then. */
export async function endOrInterval(desk: Desk, runId: string, signal: AbortSignal): Promise<void> {
  const over = new AbortController()
  const letGo = () => over.abort()
  signal.addEventListener('abort', letGo, { once: true })
  const interval = desk.clock.sleep(desk.settings.intervalMs, over.signal)
  const ended = desk.spawner.ended(runId, over.signal).then(
    // A turn that has ended and still waits for its evidence: not at once again, but at the interval.
    (standing) => (standing.standing === 'ended' && desk.seenSince.has(`${runId}:evidence`) ? interval : undefined),
    (error: unknown) => {
      desk.log.warn({ err: error, runId }, 'the end of a turn cannot be listened for; it is asked after instead')
      return interval
    },
  )
  await Promise.race([ended, interval])
  over.abort()
  signal.removeEventListener('abort', letGo)
}
