/**
 * The autopilot: reconcile what is open, look after people, begin what is ready, as often as there is room. Always: a step
 * starts from the log and the kernel alone, so a step after a crash is an ordinary step, and two autopilots on one root get
 * in each other's way no more than two steps do. The loop around it only waits: for a turn's end, or the interval.
 */
import { loop, makeWake, type Wake } from '../../ports/loop.js'
import { startRun } from './start-run.js'
import { writeCaches, type CachePorts } from './caches.js'
import { nextTask, firstReady, type Choice } from '../tasks/next-task.js'
import { concurrencyLimit, type Dispatcher } from './dispatcher.js'
import { pausedBy } from '../tasks/task-fields.js'
import { followRun, pickNext } from './dispatch.js'
import { dueReminders, type ReminderAlert } from '../tasks/reminders.js'
import { reconcileAll, type Reconciled } from './reconcile.js'
import type { DispatchReport } from './report.js'
import type { RunName } from './settle.js'
import { openRuns } from '../tasks/open-runs.js'

export interface AutopilotStep {
  readonly reconciled: readonly (RunName & { readonly what: Reconciled })[]
  readonly started: readonly RunName[]
  /** Tasks that the budget stopped before anything was spawned. */
  readonly overBudget: readonly string[]
  readonly choice: Choice
}

// A step that goes on for ever would never reconcile again; what is left is the next step's.
const startsPerStepMax = 1_000

export async function autopilotStep(dispatcher: Dispatcher, caches: CachePorts): Promise<AutopilotStep> {
  const { board, clock, settings } = dispatcher
  await board.sync()
  const policies = await dispatcher.policies()
  const rules = { firstAgent: settings.firstAgent, recovery: policies.recovery }
  const reconciled = await reconcileAll(dispatcher, policies)
  await sendReminders(dispatcher, rules)
  const started: RunName[] = []
  const overBudget: string[] = []
  while (started.length + overBudget.length < startsPerStepMax) {
    const state = board.state
    // Asked without the lock first: a quiet board is not written to, nor its lock taken, at every step.
    if (firstReady(state, clock.wallMs(), rules).task === null) break
    if (openRuns(state).length >= concurrencyLimit(dispatcher, policies)) break
    const one = await startRun(dispatcher, pickNext)
    if (one.started === 'no') break
    if (one.started === 'over_budget') overBudget.push(one.taskId)
    else started.push({ taskId: one.taskId, runId: one.runId })
  }
  await writeCaches(board, caches)
  return { reconciled, started, overBudget, choice: nextTask(board.state, clock.wallMs(), rules) }
}

type Rules = Parameters<typeof firstReady>[2]

async function sendReminders(dispatcher: Dispatcher, rules: Rules): Promise<void> {
  const { board, clock, actor } = dispatcher
  // A board that stands still on somebody's word reminds nobody of what they cannot do anyway.
  if (pausedBy(board.state) !== null) return
  if (dueReminders(board.state, clock.wallMs(), rules, actor).drafts.length === 0) return
  let alerts: readonly ReminderAlert[] = []
  await board.write((state) => {
    const step = dueReminders(state, clock.wallMs(), rules, actor)
    alerts = step.alerts
    return step.drafts
  })
  for (const alert of alerts) dispatcher.alerts.raise(alert)
}

/**
 * At most `maxSteps` dispatches, one after the other as far as room goes, and the reports of their ends: what a person asks
 * for by hand. Ends when nothing is ready and nothing that it began is open.
 */
export async function runAutopilot(
  dispatcher: Dispatcher,
  caches: CachePorts,
  { maxSteps, signal }: { readonly maxSteps: number; readonly signal: AbortSignal },
): Promise<{ readonly reports: readonly DispatchReport[]; readonly stoppedBecause: string }> {
  const reports: DispatchReport[] = []
  const open = new Set<Promise<void>>()
  const { settings } = dispatcher
  let started = 0
  let because = `no more than ${maxSteps} were asked for`
  await dispatcher.board.sync()
  await reconcileAll(dispatcher, await dispatcher.policies())
  await sendReminders(dispatcher, { firstAgent: settings.firstAgent, recovery: (await dispatcher.policies()).recovery })
  while (started < maxSteps && !signal.aborted) {
    const policies = await dispatcher.policies()
    const rules = { firstAgent: settings.firstAgent, recovery: policies.recovery }
    await dispatcher.board.sync()
    const choice = nextTask(dispatcher.board.state, dispatcher.clock.wallMs(), rules)
    const full = openRuns(dispatcher.board.state).length >= concurrencyLimit(dispatcher, policies)
    if (choice.taskId === null || full) {
      because = full ? 'no more turns may be under way' : choice.because
      if (open.size === 0) break
      await Promise.race(open)
      continue
    }
    const one = await startRun(dispatcher, pickNext)
    if (one.started === 'no') {
      because = one.why
      if (open.size === 0) break
      await Promise.race(open)
      continue
    }
    started += 1
    because = `no more than ${maxSteps} were asked for`
    const following = followRun(dispatcher, one, signal).then((report) => {
      reports.push({ ...report, choice })
      open.delete(following)
    })
    open.add(following)
  }
  await Promise.all(open)
  await writeCaches(dispatcher.board, caches, 'now')
  return { reports, stoppedBecause: signal.aborted ? 'it was called off' : because }
}

export interface Autopilot {
  readonly wake: Wake
  readonly ended: Promise<void>
}

/** Steps until the signal fires. An ended turn wakes it; everything else waits for the interval. */
export function startAutopilot(dispatcher: Dispatcher, caches: CachePorts, signal: AbortSignal): Autopilot {
  const wake = makeWake(dispatcher.clock)
  const listening = new Set<string>()
  const listen = ({ runId }: RunName) => {
    if (listening.has(runId)) return
    listening.add(runId)
    dispatcher.spawner
      .ended(runId, signal)
      .then(
        () => wake.now(),
        (error: unknown) => dispatcher.log.warn({ err: error, runId }, 'the end of a turn cannot be listened for'),
      )
      .finally(() => listening.delete(runId))
      .catch((error: unknown) => dispatcher.log.error({ err: error }, 'the autopilot could not be woken'))
  }
  const step = async () => {
    const { started } = await autopilotStep(dispatcher, caches)
    started.forEach(listen)
  }
  const options = {
    name: 'autopilot',
    intervalMs: dispatcher.settings.intervalMs,
    clock: dispatcher.clock,
    log: dispatcher.log,
    signal,
  }
  const ended = loop(options, step, wake).then(async () => void (await writeCaches(dispatcher.board, caches, 'now')))
  return { wake, ended }
}
