/**
 * The autopilot: reconciles open runs, reminds people and starts ready tasks while the concurrency limit allows. A step
 * depends only on the log and the kernel, so a step after a crash is an ordinary step, and several autopilots may share one
 * root. The loop around the step waits for a change of the board, the end of a turn, or the interval.
 */
import { makeWake } from '@bellwether/base'
import { loop } from '../../ports/loop.js'
import { startRun } from './start-run.js'
import { writeCaches, type CachePorts } from './caches.js'
import { decideNext, explainDecision, type Decision } from '../tasks/next-task.js'
import { agentsRegistered, concurrencyLimit, readyRules, type Dispatcher, type DispatchPolicies } from './dispatcher.js'
import { pausedBy } from '../tasks/task-fields.js'
import { followRun, pickDecided } from './dispatch.js'
import { gaveUpAlert, personAlert, type PersonAlert } from '../tasks/person-alerts.js'
import { dueReminders } from '../tasks/reminders.js'
import { reconcileAll, type Reconciled } from './reconcile.js'
import type { DispatchReport } from '@bellwether/protocol/http'
import type { RunName } from './settle.js'
import { mergeQueued, startMerges } from './merge.js'
import { inFlight } from '../tasks/open-runs.js'
import { readinessIndex, type ReadinessEntry } from '../tasks/readiness-index.js'
import type { ReadyRules } from '../tasks/ready.js'
import type { BoardState } from '../log/task.js'

export interface AutopilotStep {
  readonly reconciled: readonly (RunName & { readonly what: Reconciled })[]
  readonly started: readonly RunName[]
  /** Tasks that the budget blocked before a turn was spawned. */
  readonly overBudget: readonly string[]
  /** The last one of the step. */
  readonly decision: Decision
}

// Bounds the time until the next reconciliation; the next step starts the rest.
const startsPerStepMax = 1_000

export async function autopilotStep(dispatcher: Dispatcher, caches: CachePorts): Promise<AutopilotStep> {
  const { board, clock } = dispatcher
  await board.sync()
  const policies = await dispatcher.policies()
  const rules = readyRules(dispatcher, policies)
  const reconciled = await reconcileAll(dispatcher, policies)
  await sendReminders(dispatcher, rules)
  const started: RunName[] = []
  const overBudget: string[] = []
  // Decided without the lock: a step on a quiet board neither locks nor writes. start-run.ts confirms it under the lock.
  const decide = () => decideNext(board.state, clock.wallMs(), rules)
  let decision = decide()
  const isReady = decision.next.task !== null && (await agentsRegistered(dispatcher, policies))
  while (isReady && decision.next.task !== null && hasRoom(dispatcher, policies)) {
    if (started.length + overBudget.length >= startsPerStepMax) break
    const attempt = await startRun(dispatcher, policies, pickDecided(decision))
    if (attempt.started === 'over_budget') overBudget.push(attempt.taskId)
    else if (attempt.started === 'yes') started.push({ taskId: attempt.taskId, runId: attempt.runId })
    if (decision.state !== board.state) decision = decide()
    if (attempt.started === 'no') break
  }
  await writeCaches(board, caches)
  return { reconciled, started, overBudget, decision }
}

const hasRoom = (dispatcher: Dispatcher, policies: DispatchPolicies): boolean =>
  inFlight(dispatcher.board.state, dispatcher.clock.wallMs()) < concurrencyLimit(dispatcher, policies)

async function sendReminders(dispatcher: Dispatcher, rules: ReadyRules): Promise<void> {
  const { board, clock, actor } = dispatcher
  // While the board is paused, people cannot act on a reminder.
  if (pausedBy(board.state) !== null) return
  const due = (state: BoardState) => {
    const nowMs = clock.wallMs()
    return dueReminders(readinessIndex(state, nowMs, rules).reminders, nowMs, rules.recovery, actor)
  }
  if (due(board.state).length > 0) {
    const lines = await board.write(due)
    for (const taskId of new Set(lines.filter(({ type }) => type === 'task_failed').map((line) => line.taskId)))
      raise(dispatcher, gaveUpAlert(board.state.tasks.get(taskId)!))
  }
  for (const entry of readinessIndex(board.state, clock.wallMs(), rules).reminders) raise(dispatcher, alertOf(entry))
}

const alerts = new WeakMap<ReadinessEntry, PersonAlert | null>()

/** An entry does not change, and a step asks for every task that waits for a person. */
function alertOf(entry: ReadinessEntry): PersonAlert | null {
  const known = alerts.get(entry)
  if (known !== undefined) return known
  const alert = personAlert(entry.task, entry.readiness)
  alerts.set(entry, alert)
  return alert
}

function raise(dispatcher: Dispatcher, alert: PersonAlert | null): void {
  if (alert !== null) dispatcher.alerts.raise(alert)
}

// Older ones were sent, or given up.
const gaveUpMs = 86_400_000

/** After a start: a process may have died between the line that gave a task up and its message. */
function raiseGivenUp(dispatcher: Dispatcher): void {
  const { board, clock } = dispatcher
  for (const task of board.state.tasks.values())
    if (task.status === 'failed' && Date.parse(task.updatedAt) > clock.wallMs() - gaveUpMs)
      raise(dispatcher, gaveUpAlert(task))
}

/**
 * Dispatches at most `maxSteps` tasks, concurrently up to the limit, and returns their reports. Ends when no task is ready and
 * no run that it started is open.
 */
export async function runAutopilot(
  dispatcher: Dispatcher,
  caches: CachePorts,
  { maxSteps, signal }: { readonly maxSteps: number; readonly signal: AbortSignal },
): Promise<{ readonly reports: readonly DispatchReport[]; readonly stoppedBecause: string }> {
  const { board, clock } = dispatcher
  const reports: DispatchReport[] = []
  const open = new Set<Promise<void>>()
  const stepsUsed = `the requested ${maxSteps} ${maxSteps === 1 ? 'task was' : 'tasks were'} started`
  let started = 0
  let because = stepsUsed
  let policies = await dispatcher.policies()
  await board.sync()
  await reconcileAll(dispatcher, policies)
  await sendReminders(dispatcher, readyRules(dispatcher, policies))
  while (started < maxSteps && !signal.aborted) {
    policies = await dispatcher.policies()
    const decision = decideNext(await board.sync(), clock.wallMs(), readyRules(dispatcher, policies))
    const choice = explainDecision(decision)
    const room = hasRoom(dispatcher, policies)
    const canStart = choice.taskId !== null && room
    const one = canStart ? await startRun(dispatcher, policies, pickDecided(decision)) : undefined
    if (one === undefined || one.started === 'no') {
      because = one?.why ?? (room ? choice.because : 'the limit of concurrent turns and merges is reached')
      if (open.size > 0) await Promise.race(open)
      // A change that waits for its merge takes the place of a run.
      else if (room || !(await mergeQueued(dispatcher, policies)).some(({ what }) => what !== 'later')) break
      continue
    }
    started += 1
    because = stepsUsed
    const following = followRun(dispatcher, one, signal).then((report) => {
      reports.push({ ...report, choice })
      open.delete(following)
    })
    open.add(following)
  }
  await Promise.all(open)
  await mergeQueued(dispatcher, await dispatcher.policies())
  await writeCaches(board, caches, 'now')
  return { reports, stoppedBecause: signal.aborted ? 'it was interrupted' : because }
}

/**
 * Runs steps until the signal fires. A change of the board and the end of a turn wake it; deadlines, and changes that the board's
 * filesystem does not report, wait for the interval.
 */
export function startAutopilot(dispatcher: Dispatcher, caches: CachePorts, signal: AbortSignal) {
  const { clock, log, settings, spawner, board } = dispatcher
  const wake = makeWake(clock)
  const listening = new Set<string>()
  const listen = ({ runId }: RunName) => {
    if (listening.has(runId)) return
    listening.add(runId)
    spawner
      .ended(runId, signal)
      .then(
        () => wake.now(),
        (error: unknown) => log.warn({ err: error, runId }, 'cannot wait for the end of a turn; polling instead'),
      )
      .finally(() => listening.delete(runId))
      .catch((error: unknown) => log.error({ err: error }, 'cannot wake the autopilot'))
  }
  let isFirst = true
  let decided: BoardState | 'deciding' | 'failed' = 'failed'
  // During a step most writes are its own; after it, the comparison of the states shows whether there were others.
  const release = board.onChange((how) => {
    if (how === 'read' || (decided !== 'deciding' && board.state !== decided)) wake.now()
  })
  const step = async () => {
    decided = 'deciding'
    const result = await autopilotStep(dispatcher, caches).catch((error: unknown) => {
      decided = 'failed'
      throw error
    })
    decided = result.decision.state
    if (isFirst) raiseGivenUp(dispatcher)
    isFirst = false
    result.started.forEach(listen)
    if (board.state !== decided) wake.now()
  }
  const options = { name: 'autopilot', intervalMs: settings.intervalMs, clock, log, signal }
  const ended = Promise.all([loop(options, step, wake), startMerges(dispatcher, signal)]).then(async () => {
    release()
    await writeCaches(board, caches, 'now')
  })
  return { wake, ended }
}
