/**
 * Runs one turn from claim to settlement: calls the agent's function and turns its action into a delivery or a suspension. Every
 * turn ends: a function that throws fails the turn with its message. A worker that lost the fence stops silently, because another
 * worker owns the turn.
 */
import { aborted, defined, errorMessage, linkAbort } from '@bellwether/base'
import { InvalidInput, Retryable } from '@bellwether/protocol'
import type { Hold } from '../kernel/verbs/accounts/accounts.js'
import type { ClaimedTurn } from '../kernel/verbs/turn/claim.js'
import type { Delivery } from '../kernel/verbs/turn/deliver.js'
import type { ToolResult } from '@bellwether/protocol/http'
import { retryUntil } from '../ports/retry.js'
import { accountHold } from '../kernel/pmo-tools.js'
import { AccountHeld, FenceLost, type AgentFunction, type TurnAction, type TurnContext } from './agent.js'
import { maxHoldSecondsOf, openAccountGate, parkedNote } from './account-gate.js'
import { openBudgetWatch, overBudget, plainMeter, type BudgetWatch } from './budget-watch.js'
import { printable } from './card-text.js'
import { hydrate } from './hydrate.js'
import { awaitPerson, type Scope, type WorkerOptions } from './scope.js'
import {
  decideSubmission,
  incomplete,
  refusalsMax,
  submissionError,
  submitResultName,
  wantedFields,
  type Submission,
} from './submit-result.js'
import { meter, reportsUsage, stoppedBy } from './spending.js'
import { turnTranscript, type TurnTranscript } from './turn-transcript.js'
import { actionStep, isUiAction } from './ui-action.js'

/** Hot path: holds the options instead of copying them, because a copy per turn costs more than the lookup. */
interface Run extends Pick<Scope, 'turn' | 'cancellation'> {
  readonly scope: Scope
  readonly options: WorkerOptions
  readonly transcript: TurnTranscript
}

type Suspending = Extract<TurnAction, { readonly suspend: unknown }>

export async function runTurn(options: WorkerOptions, scope: Scope): Promise<void> {
  const { kernel, log } = options
  const { turn, cancellation } = scope
  const run: Run = { scope, options, turn, cancellation, transcript: turnTranscript(options.transcript, kernel, turn) }
  try {
    // A takeover continues with the results that the dead worker had resumed with (W2.3b), a fork with those of its source.
    const results = hasResults(turn) ? await kernel.readResults(turn.agentTurnId) : []
    if (results.length > 0) await run.transcript.results(results.filter(isOfAgent))
    if (isDeliverable(turn, results)) {
      // The turn ends directly from suspended, so that no step can come between.
      await settle(run, terminated(results))
      return
    }
    if (isUiAction(turn)) {
      await settle(run, { suspend: actionStep(turn) })
      return
    }
    if (turn.kind === 'resume') {
      if ((await kernel.resume(turn, options.workerId, results[0]?.step_id)) === 'stale') return
      scope.fenced = true
    }
    const action = await actUntilSubmitted(run, results.filter(isOfAgent))
    if (cancellation.requested) return
    scope.settling = true
    await settle(run, action)
  } catch (error) {
    if (error instanceof FenceLost || cancellation.requested) return
    if (error instanceof AccountHeld) {
      scope.settling = true
      await park(run, error.hold)
      return
    }
    if (!(error instanceof Retryable) && (await endFailed(run, error))) return
    log.error({ err: error, agent_turn_id: turn.agentTurnId }, 'turn not settled, left to the watchdogs')
  }
}

/** Whether the turn may begin with results of tools. */
export const hasResults = ({ kind, takenOver, payload }: Pick<ClaimedTurn, 'kind' | 'takenOver' | 'payload'>) =>
  kind === 'resume' || takenOver || payload['forked_from'] !== undefined

/** The turn waits for its account in the database, without this worker. */
async function park(run: Run, hold: Hold): Promise<void> {
  const { kernel, settings } = run.options
  run.transcript.say({ kind: 'note', content: parkedNote(hold) })
  await written(run)
  await retried(run, () => kernel.park(run.turn, hold, maxHoldSecondsOf(settings)))
}

/** Fails the turn instead of running the agent, with all its side effects, again. False if that failed too. */
async function endFailed(run: Run, error: unknown): Promise<boolean> {
  try {
    await settle(run, failure(error))
    return true
  } catch (again) {
    run.options.log.error({ err: again, agent_turn_id: run.turn.agentTurnId }, 'cannot end a failed turn')
    return false
  }
}

/** T4.4: a step that calls submit_result ends the turn, or the agent gets the refusal at once. Nothing is sent or waited for. */
async function actUntilSubmitted(run: Run, results: readonly ToolResult[]): Promise<TurnAction> {
  let action = await act(run, results)
  for (let refusals = 1; ; refusals += 1) {
    // Hot path: most actions are deliveries, and an await costs a promise.
    const submission = 'suspend' in action ? await submissionIn(run, action.suspend) : undefined
    if (submission === undefined) return action
    if ('deliver' in submission) return { deliver: submission.deliver }
    const { refuse, call } = submission
    if (refusals === refusalsMax) {
      return {
        deliver: { text: `The result was rejected ${refusalsMax} times. Last reason: ${refuse.message}.` },
        status: 'failed',
        error: submissionError(refuse.code),
      }
    }
    const rejected: ToolResult = {
      tool_call_id: call.toolCallId,
      tool_name: submitResultName,
      step_id: ('suspend' in action ? action.suspend.stepId : undefined) ?? run.options.kernel.ids.next(),
      wait_status: 'applied',
      after_execution: 'suspend',
      status: 'failed',
      result: null,
      error: { code: refuse.code, message: refuse.message },
    }
    action = await act(run, [rejected])
  }
}

async function submissionIn(run: Run, { calls }: Suspending['suspend']): Promise<Submission | undefined> {
  if (!calls.some((call) => call.toolName === submitResultName)) return undefined
  const { kernel, settings } = run.options
  const known = await retried(run, () => hydrate(kernel.db, run.turn, settings.hydrateMaxBytes))
  if (known === 'stale') throw new FenceLost(run.turn.agentTurnId)
  return decideSubmission(calls, wantedFields(known.context))
}

async function act(run: Run, results: readonly ToolResult[]): Promise<TurnAction> {
  const { turn, cancellation } = run
  const agent = run.options.agent(turn)
  if (agent === undefined) {
    const text = `This worker has no function for agent "${turn.agentId}".`
    return { deliver: { text }, status: 'failed', error: 'no_executor' }
  }
  try {
    const over = agent.spends && (await meter(await metered(run, agent.spends.model), agent.spends, gateOf(run)))
    if (typeof over === 'object') return over
    const isLimited = agent.limits !== undefined || turn.payload['budget_id'] !== undefined || over === 'metered'
    const watch = isLimited ? await watchBudget(run, agent) : undefined
    if (watch === undefined) return await agent(contextOf(run, results, { isCounted: agent.spends !== undefined }))
    return await withinBudget(run, watch, agent, results)
  } catch (error) {
    if (error instanceof FenceLost || error instanceof AccountHeld || cancellation.requested) throw error
    return failure(error)
  }
}

/** Counts what the turn uses from now on in the spending limits. */
async function metered(run: Run, model: string | undefined) {
  const verdict = await retried(run, () => run.options.kernel.meterSpending(run.turn, model))
  if (verdict === 'stale') throw new FenceLost(run.turn.agentTurnId)
  return verdict
}

/** Undefined if the turn has no budget after all. */
async function watchBudget(run: Run, { limits, spends }: AgentFunction): Promise<BudgetWatch | undefined> {
  const { options, turn } = run
  const read = async () => {
    const left = await retried(run, () => options.kernel.limitTurn(turn, limits ?? {}))
    if (left === 'stale') throw new FenceLost(turn.agentTurnId)
    return left
  }
  const left = await read()
  if (left === null) return undefined
  return openBudgetWatch({
    clock: options.clock,
    log: options.log,
    left,
    read,
    async record(step) {
      const recorded = await retried(run, () => options.kernel.record({ ...turn, step }))
      if (recorded === 'stale') throw new FenceLost(turn.agentTurnId)
      return recorded.left
    },
    stopsAtLimit: spends?.reserves === false,
  })
}

// Long enough to kill a program and to read the end of its output.
const stopMs = 10_000

/** Calls the agent. If a limit is exceeded, the turn ends with what the agent returns within 10 s, or without a result of the agent, or waits. */
async function withinBudget(
  run: Run,
  watch: BudgetWatch,
  agent: AgentFunction,
  results: readonly ToolResult[],
): Promise<TurnAction> {
  const { cancellation, options } = run
  const link = linkAbort(cancellation.signal, watch.signal)
  const late = new AbortController()
  try {
    if (watch.exceededKeys.length > 0) return overBudget(watch.exceededKeys, undefined)
    const isCounted = agent.spends !== undefined
    const acting = agent(contextOf(run, results, { watch, signal: link.signal, isCounted }))
    const stopped = aborted(watch.signal).then(() => options.clock.sleep(stopMs, late.signal))
    const action = (await Promise.race([acting, stopped])) ?? undefined
    if (watch.exceededKeys.length > 0) return overBudget(watch.exceededKeys, action)
    return watch.usedUp === undefined ? (action ?? (await acting)) : await stoppedBy(watch.usedUp, action, gateOf(run))
  } catch (error) {
    // An executor without a result throws FenceLost when its signal aborts.
    if (!watch.signal.aborted || cancellation.requested || error instanceof AccountHeld) throw error
    if (watch.exceededKeys.length > 0) return overBudget(watch.exceededKeys, undefined)
    return await stoppedBy(watch.usedUp!, undefined, gateOf(run))
  } finally {
    late.abort()
    watch.close()
    link.release()
  }
}

interface RunningAgent {
  readonly watch?: BudgetWatch
  readonly signal?: AbortSignal
  /** Whether the spending limits count the turn already. */
  readonly isCounted: boolean
}

function contextOf(run: Run, results: readonly ToolResult[], more: RunningAgent): TurnContext {
  const { options, turn, cancellation } = run
  const { watch, signal, isCounted } = more
  const { kernel } = options
  const fenced = <T>(verdict: T | 'stale'): T => {
    if (verdict === 'stale' || cancellation.requested) throw new FenceLost(turn.agentTurnId)
    return verdict
  }
  // The agent does not notice a database restart: its calls wait and are repeated with the same ids.
  const verb = <T>(call: () => Promise<T>) => retried(run, call)
  // A turn without declared spending counts from its first report of usage on.
  let counting: Promise<unknown> | undefined = isCounted ? Promise.resolve() : undefined
  const counted = () => (counting ??= metered(run, undefined))
  const record: TurnContext['record'] = async ({ cards, step }) => {
    if (step !== undefined && reportsUsage(step)) await counted()
    const named = cards?.map((card) => ({ cardId: kernel.ids.next(), ...card }))
    const writing = { ...turn, ...defined({ cards: named, step }) }
    const { left } = fenced(await verb(() => kernel.record(writing)))
    watch?.see(left)
    return left
  }
  return {
    turn,
    get signal() {
      return signal ?? cancellation.signal
    },
    results,
    meter: watch?.meter ?? (isCounted ? plainMeter(options, record) : undefined),
    newId: () => kernel.ids.next(),
    say: (entry) => run.transcript.say(entry),
    // Hot path: most turns call no account.
    get accounts() {
      return gateOf(run)
    },
    hydrate: async () => fenced(await verb(() => hydrate(kernel.db, turn, options.settings.hydrateMaxBytes))),
    record,
    async activity(activity, currentTool) {
      const beat = { ...turn, activity, ...defined({ currentTool }) }
      const sentMs = options.clock.monotonicMs()
      const alive = await verb(() => kernel.beat([beat], options.workerId))
      fenced(alive.has(beat) ? 'alive' : 'stale')
      options.onBeat?.(turn, sentMs)
    },
    async reserve(ask) {
      await counted()
      const reserved = await verb(() => kernel.reserve(turn, ask))
      fenced(reserved.what)
      return reserved
    },
    async commit(used) {
      const committed = await verb(() => kernel.commitUsage(turn, used))
      fenced(committed.what)
      return committed
    },
    async release(reservationId) {
      fenced((await verb(() => kernel.releaseUsage(turn, reservationId))).what)
    },
    async swapBox({ cardIds = [], cards = [] }) {
      fenced(await verb(() => kernel.swapBox({ ...turn, cardIds, cards })))
    },
    messages: async () => fenced(await verb(() => kernel.takeMessages(turn))),
    waiting: () => verb(() => kernel.readWaiting(turn.agentTurnId)),
    awaitPerson: () => awaitPerson(run.scope),
    programSession: {
      read: () => verb(() => kernel.readProgramSession(turn)),
      async store(session) {
        fenced(await verb(() => kernel.storeSession(turn, session)))
      },
    },
  }
}

const gateOf = (run: Run) =>
  openAccountGate({
    ...run,
    fenced(verdict) {
      if (verdict === 'stale' || run.cancellation.requested) throw new FenceLost(run.turn.agentTurnId)
      return verdict
    },
    verb: (call) => retried(run, call),
  })

async function settle(run: Run, action: TurnAction): Promise<void> {
  const { turn } = run
  const { kernel, settings } = run.options
  try {
    if ('suspend' in action) {
      const { calls, stepId = kernel.ids.next() } = action.suspend
      run.transcript.calls(calls)
      const unwritten = written(run)
      if (unwritten !== undefined) await unwritten
      await retried(run, () => kernel.suspend({ ...turn, stepId, calls }, settings.suspendTimeoutSeconds))
      return
    }
    const delivery: Delivery = {
      projectId: turn.projectId,
      agentId: turn.agentId,
      agentTurnId: turn.agentTurnId,
      turnEpoch: turn.turnEpoch,
      status: action.status ?? 'success',
      content: action.deliver,
      ...defined({ error: action.error }),
    }
    const unwritten = written(run)
    if (unwritten !== undefined) await unwritten
    const verdict = await retried(run, () => kernel.deliver(delivery))
    if (verdict.what === 'refused') await settle(run, incomplete(verdict.missing))
  } catch (error) {
    // The kernel cannot store what the agent made (too large, not text): the turn ends and its deliverable gives the reason.
    if (!(error instanceof InvalidInput)) throw error
    await settle(run, failure(error))
  }
}

/** Nothing can be added to a transcript after the turn has ended. A turn without unwritten entries does not wait. */
function written({ options, turn, cancellation }: Run): Promise<unknown> | undefined {
  const unwritten = options.transcript?.flush(turn)
  return unwritten && Promise.race([unwritten, aborted(cancellation.signal)])
}

// Long enough for a database to restart; after that, the watchdogs end the turn.
const patience = {
  backoff: { mode: 'exponential', baseMs: 400, multiplier: 2, maxMs: 5_000, jitterPct: 0 },
  maxMs: 300_000,
} as const

/** Repeats a verb while the database is unavailable. The fence makes the repetition harmless (hazard 12). */
function retried<T>({ options, cancellation }: Run, verb: () => Promise<T>): Promise<T> {
  return retryUntil(patience, verb, {
    clock: options.clock,
    get signal() {
      return cancellation.signal
    },
  })
}

function failure(error: unknown): TurnAction {
  const message = errorMessage(error)
  const code = error instanceof InvalidInput ? error.code : 'agent_failed'
  return { deliver: { text: printable(message) }, status: 'failed', error: code }
}

/** Whether the results are the deliverable: the result of a terminating tool (T3.3c) or of a person's action (T3.1e). */
export function isDeliverable(turn: ClaimedTurn, results: readonly ToolResult[]): boolean {
  return results.length > 0 && (isUiAction(turn) || results.some(isTerminating))
}

/** The wait for a held account is answered to the kernel, not to the agent. */
const isOfAgent = ({ tool_name: name }: ToolResult) => name !== accountHold

const isTerminating = (result: ToolResult) => result.after_execution === 'terminate'

/** The deliverable of a turn that a tool result ends; it fails if that result did. */
export function terminated(results: readonly ToolResult[]): Extract<TurnAction, { readonly deliver: unknown }> {
  const deliver = { text: textOf(results) }
  const ending = results.some(isTerminating) ? results.filter(isTerminating) : results
  const failed = ending.find((one) => one.status !== 'success' && one.status !== 'partial')
  if (failed === undefined) return { deliver }
  return {
    deliver,
    status: failed.status === 'timeout' ? 'timeout' : 'failed',
    error: failed.error?.code ?? 'tool_failed',
  }
}

function textOf(results: readonly ToolResult[]): string {
  return results
    .map((one) => (typeof one.result === 'string' ? one.result : JSON.stringify(one.result ?? one.error)))
    .join('\n')
}
