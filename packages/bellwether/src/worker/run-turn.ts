/**
 * One turn, from claim to settled. The agent's function is called; what it answers becomes a delivery or a suspension. A
 * function that throws fails the turn with its message: every turn ends. Losing the fence ends silently: another has it.
 */
import { errorMessage } from '@bellwether/base'
import { InvalidInput, Retryable } from '@bellwether/protocol'
import type { ClaimedTurn } from '../kernel/verbs/turn/claim.js'
import type { Delivery } from '../kernel/verbs/turn/deliver.js'
import type { ToolResult } from '../kernel/reads/waits.js'
import { retryUntil } from '../ports/retry.js'
import { FenceLost, type TurnAction, type TurnContext } from './agent.js'
import type { Halt } from './cancellation.js'
import { hydrate } from './hydrate.js'
import type { Scope, WorkerOptions } from './scope.js'
import { decideSubmission, submitResultName, wantedFields, type Submission } from './submit-result.js'

export async function runTurn(options: WorkerOptions, scope: Scope): Promise<void> {
  const { kernel, log } = options
  const { turn, halt } = scope
  try {
    // A takeover goes on where the dead worker stood: what it had resumed with is still what was answered last (W2.3b).
    const results = turn.kind === 'resume' || turn.takenOver ? await kernel.readResults(turn.agentTurnId) : []
    if (results.some((result) => result.after_execution === 'terminate')) {
      // T3.3c: the result is the deliverable; no further step. Straight from suspended, so that it cannot be half done.
      await settle(options, turn, halt, terminated(results))
      return
    }
    if (turn.kind === 'resume') {
      if ((await kernel.resume(turn, options.workerId, results[0]?.step_id)) === 'stale') return
      scope.held = true
    }
    const action = await actUntilSubmitted(options, turn, halt, results)
    if (halt.called) return
    await settle(options, turn, halt, action)
  } catch (error) {
    if (error instanceof FenceLost || halt.called) return
    if (!(error instanceof Retryable) && (await failed(options, turn, halt, error))) return
    log.error({ err: error, agent_turn_id: turn.agentTurnId }, 'a turn could not be settled; the watchdogs will end it')
  }
}

/** What the agent answered makes no sense: said once, not tried again with all its side effects. */
async function failed(options: WorkerOptions, turn: ClaimedTurn, halt: Halt, error: unknown): Promise<boolean> {
  try {
    await settle(options, turn, halt, failure(error))
    return true
  } catch (again) {
    options.log.error({ err: again, agent_turn_id: turn.agentTurnId }, 'a failed turn could not be ended')
    return false
  }
}

// An agent that was told three times what is missing will not find it.
const refusalsMax = 3

/** T4.4: a step that calls submit_result ends the turn, or is told at once what is wrong with it; nothing is sent or waited for. */
async function actUntilSubmitted(
  options: WorkerOptions,
  turn: ClaimedTurn,
  halt: Halt,
  results: readonly ToolResult[],
): Promise<TurnAction> {
  let action = await act(options, turn, halt, results)
  for (let refusals = 1; ; refusals += 1) {
    const submission = await submissionIn(options, turn, halt, action)
    if (submission === undefined) return action
    if ('deliver' in submission) return { deliver: submission.deliver }
    const { refuse, call } = submission
    if (refusals === refusalsMax) {
      return {
        deliver: { text: `The result was refused: ${refuse.message}.` },
        status: 'failed',
        error: `submit_result_${refuse.code}`,
      }
    }
    const answer: ToolResult = {
      tool_call_id: call.toolCallId,
      tool_name: submitResultName,
      step_id: ('suspend' in action ? action.suspend.stepId : undefined) ?? options.kernel.ids.next(),
      wait_status: 'applied',
      after_execution: 'suspend',
      status: 'failed',
      result: null,
      error: { code: refuse.code, message: refuse.message },
    }
    action = await act(options, turn, halt, [answer])
  }
}

async function submissionIn(
  options: WorkerOptions,
  turn: ClaimedTurn,
  halt: Halt,
  action: TurnAction,
): Promise<Submission | undefined> {
  if (!('suspend' in action) || !action.suspend.calls.some((call) => call.toolName === submitResultName))
    return undefined
  const known = await persist(options, halt, () => hydrate(options.kernel.db, turn))
  if (known === 'stale') throw new FenceLost(turn.agentTurnId)
  return decideSubmission(action.suspend.calls, wantedFields(known.context))
}

async function act(
  options: WorkerOptions,
  turn: ClaimedTurn,
  halt: Halt,
  results: readonly ToolResult[],
): Promise<TurnAction> {
  const run = options.agent(turn)
  if (run === undefined) {
    return { deliver: { text: `No function for agent ${turn.agentId}.` }, status: 'failed', error: 'no_executor' }
  }
  try {
    return await run(contextOf(options, turn, halt, results))
  } catch (error) {
    if (error instanceof FenceLost || halt.called) throw error
    return failure(error)
  }
}

function contextOf(options: WorkerOptions, turn: ClaimedTurn, halt: Halt, results: readonly ToolResult[]): TurnContext {
  const { kernel } = options
  const held = <T>(answer: T | 'stale'): T => {
    if (answer === 'stale' || halt.called) throw new FenceLost(turn.agentTurnId)
    return answer
  }
  return {
    turn,
    get signal() {
      return halt.signal
    },
    results,
    newId: () => kernel.ids.next(),
    // A database that restarts is no fault of the agent's: its calls wait, and are repeated with the same ids.
    hydrate: async () => held(await persist(options, halt, () => hydrate(kernel.db, turn))),
    async record({ cards, step }) {
      const named = cards?.map((card) => ({ cardId: kernel.ids.next(), ...card }))
      const writing = {
        ...turn,
        ...(named === undefined ? {} : { cards: named }),
        ...(step === undefined ? {} : { step }),
      }
      held(await persist(options, halt, () => kernel.record(writing)))
    },
    async activity(activity, currentTool) {
      const beat = { ...turn, activity, ...(currentTool === undefined ? {} : { currentTool }) }
      const askedMs = options.clock.monotonicMs()
      const alive = await persist(options, halt, () => kernel.beat([beat], options.workerId))
      held(alive.has(turn.agentTurnId) ? 'alive' : 'stale')
      options.onBeat?.(turn, askedMs)
    },
    async reserve(ask) {
      const reserved = await persist(options, halt, () => kernel.reserve(turn, ask))
      held(reserved.what)
      return reserved
    },
    async commit(used) {
      const committed = await persist(options, halt, () => kernel.commitUsage(turn, used))
      held(committed.what)
      return committed
    },
    async release(reservationId) {
      held((await persist(options, halt, () => kernel.releaseUsage(turn, reservationId))).what)
    },
    async swapBox({ cardIds = [], cards = [] }) {
      held(await persist(options, halt, () => kernel.swapBox({ ...turn, cardIds, cards })))
    },
  }
}

async function settle(options: WorkerOptions, turn: ClaimedTurn, halt: Halt, action: TurnAction): Promise<void> {
  const { kernel, settings } = options
  if ('suspend' in action) {
    const { calls, stepId = kernel.ids.next() } = action.suspend
    try {
      await persist(options, halt, () => kernel.suspend({ ...turn, stepId, calls }, settings.suspendTimeoutSeconds))
    } catch (error) {
      if (!(error instanceof InvalidInput)) throw error
      await settle(options, turn, halt, failure(error))
    }
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
  try {
    const answer = await persist(options, halt, () => kernel.deliver(delivery))
    if (answer.what === 'refused') {
      const missing = answer.missing.join(', ')
      await settle(options, turn, halt, {
        deliver: { text: `The result lacks required fields: ${missing}.` },
        status: 'failed',
        error: 'missing_result_fields',
      })
    }
  } catch (error) {
    // What the agent made cannot be stored (too large, not text): the turn ends all the same, and says why.
    if (!(error instanceof InvalidInput)) throw error
    await settle(options, turn, halt, failure(error))
  }
}

// Long enough for a database to restart; past it the turn is the watchdogs' to end.
const patience = {
  backoff: { mode: 'exponential', baseMs: 400, multiplier: 2, maxMs: 5_000, jitterPct: 0 },
  maxMs: 300_000,
} as const

/** Repeats a verb while the database is away: the fence makes a repetition harmless (hazard 12). */
async function persist<T>({ clock }: WorkerOptions, halt: Halt, verb: () => Promise<T>): Promise<T> {
  return retryUntil(patience, verb, {
    clock,
    get signal() {
      return halt.signal
    },
  })
}

function failure(error: unknown): TurnAction {
  const message = errorMessage(error)
  const code = error instanceof InvalidInput ? error.code : 'agent_failed'
  return { deliver: { text: printable(message) }, status: 'failed', error: code }
}

/** A message that can be stored whatever it holds. */
function printable(text: string): string {
  return text.toWellFormed().replaceAll('\0', '').slice(0, 10_000)
}

/** The deliverable of a step that ends the turn: as good as the result that ends it. */
export function terminated(results: readonly ToolResult[]): Extract<TurnAction, { readonly deliver: unknown }> {
  const deliver = { text: textOf(results) }
  const failed = results.find(
    (one) => one.after_execution === 'terminate' && one.status !== 'success' && one.status !== 'partial',
  )
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
