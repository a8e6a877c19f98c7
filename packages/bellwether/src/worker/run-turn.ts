/**
 * Runs one turn from claim to settlement: calls the agent's function and turns its action into a delivery or a suspension. Every
 * turn ends: a function that throws fails the turn with its message. A worker that lost the fence stops silently, because another
 * worker owns the turn.
 */
import { aborted, defined, errorMessage, linkAbort } from '@bellwether/base'
import { InvalidInput, Retryable } from '@bellwether/protocol'
import type { ClaimedTurn } from '../kernel/verbs/turn/claim.js'
import type { Delivery } from '../kernel/verbs/turn/deliver.js'
import type { ToolResult } from '@bellwether/protocol/http'
import { retryUntil } from '../ports/retry.js'
import { FenceLost, type AgentFunction, type TurnAction, type TurnContext } from './agent.js'
import { openBudgetWatch, overBudget, type BudgetWatch } from './budget-watch.js'
import { hydrate } from './hydrate.js'
import type { Scope, WorkerOptions } from './scope.js'
import {
  decideSubmission,
  incomplete,
  refusalsMax,
  submissionError,
  submitResultName,
  wantedFields,
  type Submission,
} from './submit-result.js'
import { actionStep, isUiAction } from './ui-action.js'

/** Hot path: holds the options instead of copying them, because a copy per turn costs more than the lookup. */
interface Run extends Pick<Scope, 'turn' | 'cancellation'> {
  readonly options: WorkerOptions
}

export async function runTurn(options: WorkerOptions, scope: Scope): Promise<void> {
  const { kernel, log } = options
  const { turn, cancellation } = scope
  const run: Run = { options, turn, cancellation }
  try {
    // A takeover continues with the results that the dead worker had resumed with (W2.3b).
    const results = turn.kind === 'resume' || turn.takenOver ? await kernel.readResults(turn.agentTurnId) : []
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
    const action = await actUntilSubmitted(run, results)
    if (cancellation.requested) return
    scope.settling = true
    await settle(run, action)
  } catch (error) {
    if (error instanceof FenceLost || cancellation.requested) return
    if (!(error instanceof Retryable) && (await endFailed(run, error))) return
    log.error({ err: error, agent_turn_id: turn.agentTurnId }, 'turn not settled, left to the watchdogs')
  }
}

/** Fails the turn instead of running the agent, with all its side effects, again. False if that failed too. */
async function endFailed(run: Run, error: unknown): Promise<boolean> {
  try {
    await settle(run, failure(error))
    return true
  } catch (again) {
    run.options.log.error({ err: again, agent_turn_id: run.turn.agentTurnId }, 'failed turn not ended')
    return false
  }
}

/** T4.4: a step that calls submit_result ends the turn, or the agent gets the refusal at once. Nothing is sent or waited for. */
async function actUntilSubmitted(run: Run, results: readonly ToolResult[]): Promise<TurnAction> {
  let action = await act(run, results)
  for (let refusals = 1; ; refusals += 1) {
    const submission = await submissionIn(run, action)
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

async function submissionIn(run: Run, action: TurnAction): Promise<Submission | undefined> {
  if (!('suspend' in action) || !action.suspend.calls.some((call) => call.toolName === submitResultName))
    return undefined
  const { kernel, settings } = run.options
  const known = await retried(run, () => hydrate(kernel.db, run.turn, settings.hydrateMaxBytes))
  if (known === 'stale') throw new FenceLost(run.turn.agentTurnId)
  return decideSubmission(action.suspend.calls, wantedFields(known.context))
}

async function act(run: Run, results: readonly ToolResult[]): Promise<TurnAction> {
  const { turn, cancellation } = run
  const agent = run.options.agent(turn)
  if (agent === undefined) {
    const text = `This worker has no function for agent "${turn.agentId}".`
    return { deliver: { text }, status: 'failed', error: 'no_executor' }
  }
  try {
    const watch = await watchBudget(run, agent)
    if (watch === undefined) return await agent(contextOf(run, results))
    return await withinBudget(run, watch, agent, results)
  } catch (error) {
    if (error instanceof FenceLost || cancellation.requested) throw error
    return failure(error)
  }
}

/** Undefined if neither the turn nor its agent has a limit. */
async function watchBudget(run: Run, { limits }: AgentFunction): Promise<BudgetWatch | undefined> {
  const { options, turn } = run
  if (limits === undefined && turn.payload['budget_id'] === undefined) return undefined
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
  })
}

// Long enough to kill a program and to read the end of its output.
const stopMs = 10_000

/** Calls the agent. If the budget is exceeded, the turn ends with what the agent returns within 10 s, or without a result of the agent. */
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
    const acting = agent(contextOf(run, results, watch, link.signal))
    const stopped = aborted(watch.signal).then(() => options.clock.sleep(stopMs, late.signal))
    const action = (await Promise.race([acting, stopped])) ?? undefined
    return watch.exceededKeys.length > 0 ? overBudget(watch.exceededKeys, action) : (action ?? (await acting))
  } catch (error) {
    // An executor without a result throws FenceLost when its signal aborts.
    if (watch.exceededKeys.length === 0 || cancellation.requested) throw error
    return overBudget(watch.exceededKeys, undefined)
  } finally {
    late.abort()
    watch.close()
    link.release()
  }
}

function contextOf(run: Run, results: readonly ToolResult[], watch?: BudgetWatch, signal?: AbortSignal): TurnContext {
  const { options, turn, cancellation } = run
  const { kernel } = options
  const fenced = <T>(verdict: T | 'stale'): T => {
    if (verdict === 'stale' || cancellation.requested) throw new FenceLost(turn.agentTurnId)
    return verdict
  }
  // The agent does not notice a database restart: its calls wait and are repeated with the same ids.
  const verb = <T>(call: () => Promise<T>) => retried(run, call)
  return {
    turn,
    get signal() {
      return signal ?? cancellation.signal
    },
    results,
    meter: watch?.meter,
    newId: () => kernel.ids.next(),
    hydrate: async () => fenced(await verb(() => hydrate(kernel.db, turn, options.settings.hydrateMaxBytes))),
    async record({ cards, step }) {
      const named = cards?.map((card) => ({ cardId: kernel.ids.next(), ...card }))
      const writing = { ...turn, ...defined({ cards: named, step }) }
      const { left } = fenced(await verb(() => kernel.record(writing)))
      watch?.see(left)
      return left
    },
    async activity(activity, currentTool) {
      const beat = { ...turn, activity, ...defined({ currentTool }) }
      const askedMs = options.clock.monotonicMs()
      const alive = await verb(() => kernel.beat([beat], options.workerId))
      fenced(alive.has(beat) ? 'alive' : 'stale')
      options.onBeat?.(turn, askedMs)
    },
    async reserve(ask) {
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
  }
}

async function settle(run: Run, action: TurnAction): Promise<void> {
  const { turn } = run
  const { kernel, settings } = run.options
  try {
    if ('suspend' in action) {
      const { calls, stepId = kernel.ids.next() } = action.suspend
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
      ...(action.error === undefined ? {} : { error: action.error }),
    }
    const verdict = await retried(run, () => kernel.deliver(delivery))
    if (verdict.what === 'refused') await settle(run, incomplete(verdict.missing))
  } catch (error) {
    // The kernel cannot store what the agent made (too large, not text): the turn ends and its deliverable gives the reason.
    if (!(error instanceof InvalidInput)) throw error
    await settle(run, failure(error))
  }
}

// Long enough for a database to restart; after that, the watchdogs end the turn.
const patience = {
  backoff: { mode: 'exponential', baseMs: 400, multiplier: 2, maxMs: 5_000, jitterPct: 0 },
  maxMs: 300_000,
} as const

/** Repeats a verb while the database is unavailable. The fence makes the repetition harmless (hazard 12). */
async function retried<T>({ options, cancellation }: Run, verb: () => Promise<T>): Promise<T> {
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

/** The text without characters that the database cannot store. */
export function printable(text: string): string {
  return text.toWellFormed().replaceAll('\0', '').slice(0, 10_000)
}

/** Whether the results are the deliverable: the result of a terminating tool (T3.3c) or of a person's action (T3.1e). */
export function isDeliverable(turn: ClaimedTurn, results: readonly ToolResult[]): boolean {
  return results.length > 0 && (isUiAction(turn) || results.some(isTerminating))
}

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
