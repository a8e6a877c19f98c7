/**
 * The autopilot: reconcile what is open, look after people, begin what is ready, as often as there is room. Always: a step
 * starts from the log and the kernel alone, so a step after a crash is an ordinary step, and two autopilots on one root get
 * in each other's way no more than two steps do. The loop around it only waits: for a turn's end, or the interval.
 */
import { loop, makeWake, type Wake } from '../../ports/loop.js'
import { begin } from './start-run.js'
import { writeCaches, type CachePorts } from './caches.js'
import { choose, chooseFirst, type Choice } from '../tasks/next-task.js'
import { roomOf, type Desk } from './dispatcher.js'
import { pausedBy } from '../tasks/task-fields.js'
import { followed, theFirst } from './dispatch.js'
import { lookAfterPeople, type PersonAlert } from '../tasks/reminders.js'
import { reconcileAll, type Reconciled } from './reconcile.js'
import type { DispatchReport } from './report.js'
import type { RunName } from './settle.js'
import { openRuns } from '../tasks/open-runs.js'

export interface AutopilotStep {
  readonly reconciled: readonly (RunName & { readonly what: Reconciled })[]
  readonly begun: readonly RunName[]
  /** Tasks that the budget stopped before anything was spawned. */
  readonly overBudget: readonly string[]
  readonly choice: Choice
}

// A step that goes on for ever would never reconcile again; what is left is the next step's.
const begunPerStepMax = 1_000

export async function autopilotStep(desk: Desk, caches: CachePorts): Promise<AutopilotStep> {
  const { board, clock, settings } = desk
  await board.sync()
  const policies = await desk.policies()
  const rules = { firstAgent: settings.firstAgent, recovery: policies.recovery }
  const reconciled = await reconcileAll(desk, policies)
  await rememberPeople(desk, rules)
  const begun: RunName[] = []
  const overBudget: string[] = []
  while (begun.length + overBudget.length < begunPerStepMax) {
    const state = board.state
    // Asked without the lock first: a quiet board is not written to, nor its lock taken, at every step.
    if (chooseFirst(state, clock.wallMs(), rules).task === null) break
    if (openRuns(state).length >= roomOf(desk, policies)) break
    const one = await begin(desk, theFirst)
    if (one.begun === 'no') break
    if (one.begun === 'over_budget') overBudget.push(one.taskId)
    else begun.push({ taskId: one.taskId, runId: one.runId })
  }
  await writeCaches(board, caches)
  return { reconciled, begun, overBudget, choice: choose(board.state, clock.wallMs(), rules) }
}

type Rules = Parameters<typeof chooseFirst>[2]

async function rememberPeople(desk: Desk, rules: Rules): Promise<void> {
  const { board, clock, actor } = desk
  // A board that stands still on somebody's word reminds nobody of what they cannot do anyway.
  if (pausedBy(board.state) !== null) return
  if (lookAfterPeople(board.state, clock.wallMs(), rules, actor).drafts.length === 0) return
  let alerts: readonly PersonAlert[] = []
  await board.write((state) => {
    const step = lookAfterPeople(state, clock.wallMs(), rules, actor)
    alerts = step.alerts
    return step.drafts
  })
  for (const alert of alerts) desk.alerts.raise(alert)
}

/**
 * At most `maxSteps` dispatches, one after the other as far as room goes, and the reports of their ends: what a person asks
 * for by hand. Ends when nothing is ready and nothing that it began is open.
 */
export async function runAutopilot(
  desk: Desk,
  caches: CachePorts,
  { maxSteps, signal }: { readonly maxSteps: number; readonly signal: AbortSignal },
): Promise<{ readonly reports: readonly DispatchReport[]; readonly stoppedBecause: string }> {
  const reports: DispatchReport[] = []
  const open = new Set<Promise<void>>()
  const { settings } = desk
  let begun = 0
  let because = `no more than ${maxSteps} were asked for`
  await desk.board.sync()
  await reconcileAll(desk, await desk.policies())
  await rememberPeople(desk, { firstAgent: settings.firstAgent, recovery: (await desk.policies()).recovery })
  while (begun < maxSteps && !signal.aborted) {
    const policies = await desk.policies()
    const rules = { firstAgent: settings.firstAgent, recovery: policies.recovery }
    await desk.board.sync()
    const choice = choose(desk.board.state, desk.clock.wallMs(), rules)
    const full = openRuns(desk.board.state).length >= roomOf(desk, policies)
    if (choice.taskId === null || full) {
      because = full ? 'no more turns may be under way' : choice.because
      if (open.size === 0) break
      await Promise.race(open)
      continue
    }
    const one = await begin(desk, theFirst)
    if (one.begun === 'no') {
      because = one.why
      if (open.size === 0) break
      await Promise.race(open)
      continue
    }
    begun += 1
    because = `no more than ${maxSteps} were asked for`
    const following = followed(desk, one, signal).then((report) => {
      reports.push({ ...report, choice })
      open.delete(following)
    })
    open.add(following)
  }
  await Promise.all(open)
  await writeCaches(desk.board, caches, 'now')
  return { reports, stoppedBecause: signal.aborted ? 'it was called off' : because }
}

export interface Autopilot {
  readonly wake: Wake
  readonly ended: Promise<void>
}

/** Steps until the signal fires. An ended turn wakes it; everything else waits for the interval. */
export function startAutopilot(desk: Desk, caches: CachePorts, signal: AbortSignal): Autopilot {
  const wake = makeWake(desk.clock)
  const listening = new Set<string>()
  const listen = ({ runId }: RunName) => {
    if (listening.has(runId)) return
    listening.add(runId)
    desk.spawner
      .ended(runId, signal)
      .then(
        () => wake.now(),
        (error: unknown) => desk.log.warn({ err: error, runId }, 'the end of a turn cannot be listened for'),
      )
      .finally(() => listening.delete(runId))
      .catch((error: unknown) => desk.log.error({ err: error }, 'the autopilot could not be woken'))
  }
  const step = async () => {
    const { begun } = await autopilotStep(desk, caches)
    begun.forEach(listen)
  }
  const options = { name: 'autopilot', intervalMs: desk.settings.intervalMs, clock: desk.clock, log: desk.log, signal }
  const ended = loop(options, step, wake).then(async () => void (await writeCaches(desk.board, caches, 'now')))
  return { wake, ended }
}
