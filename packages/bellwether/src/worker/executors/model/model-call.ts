/**
 * One model call of a turn: unless its account is held, through the account's limiter, within the turn's budget, with streamed parts.
 * Each try has its own reservation id, so that a repetition after a crash or a hold makes a new reservation.
 */
import type { Clock, Log, Random } from '@bellwether/base'
import { callModel, isParked, type ModelCallResult, type ModelTimeouts } from '../../../ports/model/call-model.js'
import type { Limiter } from '../../../ports/model/limiter.js'
import type { Model, ModelRequest, ModelPart } from '../../../ports/model/model.js'
import { promptTokens } from '../../../ports/model/tokens.js'
import type { RetryPolicy } from '../../../ports/retry.js'
import type { TurnContext } from '../../agent.js'
import { openTurnBudget, type TurnBudget } from './turn-budget.js'
import type { Bounds, Prices } from './spec.js'
import type { Transcript } from './transcript.js'

/** The longest that one call may take, including retries and waits. */
const patienceMs = 1_800_000

export interface ModelCallPorts {
  readonly clock: Clock
  readonly random: Pick<Random, 'next'>
  readonly log: Log
  readonly retry: RetryPolicy
  readonly times: ModelTimeouts
}

export interface ModelCall extends ModelCallPorts {
  readonly context: TurnContext
  readonly model: Model
  readonly limiter: Limiter
  readonly bounds: Bounds
  readonly prices: Prices | undefined
  readonly factor: number
  readonly stepId: string
  readonly onPart?: ((part: ModelPart) => void) | undefined
}

export interface CallOutcome {
  readonly result: ModelCallResult
  readonly budget: TurnBudget
  /** The estimated prompt tokens, before the correction factor. */
  readonly estimated: number
  /** From the request of the last try to the first part of its answer; undefined: it has not answered. */
  readonly firstTokenMs: number | undefined
}

/** `round` distinguishes the calls of one step. */
export async function callWithinBudget(call: ModelCall, request: ModelRequest, round: number): Promise<CallOutcome> {
  const { context, model, limiter, clock, random, log, retry, times, factor, stepId } = call
  const budget = openTurnBudget(call)
  const estimated = promptTokens(request)
  const limit = { promptTokens: Math.ceil(estimated * factor), answerTokens: request.maxOutputTokens }
  const { accounts } = context
  const { account } = model
  let entered: 'free' | 'probe' | undefined
  let requestedMs = 0
  let firstTokenMs: number | undefined
  const result = await callModel(model, request, {
    clock,
    random,
    log,
    limiter,
    retry,
    get timeouts() {
      return { ...times, totalMs: Math.min(times.totalMs, budget.timeLeftMs) }
    },
    get busyTimeoutMs() {
      return Math.min(patienceMs, budget.timeLeftMs)
    },
    signal: context.signal,
    parkAfterMs: accounts?.parkAfterMs,
    async beforeTry(tries) {
      entered = await accounts?.enter(account)
      const begun = await budget.begin(
        `${stepId}:${context.turn.turnEpoch}:${round}.${tries}:${context.newId()}`,
        limit,
      )
      requestedMs = clock.monotonicMs()
      firstTokenMs = undefined
      return begun
    },
    afterTry: (_tries, bill) => budget.settle(bill),
    onPart(part) {
      firstTokenMs ??= Math.round(clock.monotonicMs() - requestedMs)
      call.onPart?.(part)
    },
  })
  if (accounts !== undefined && result.what === 'failed' && isParked(result.failure, accounts)) {
    const until = new Date(clock.wallMs() + result.failure.afterMs)
    await accounts.hold({ account, until, reason: result.failure.message })
  }
  if (entered === 'probe' && isServed(result)) await accounts?.works(account)
  return { result, budget, estimated, firstTokenMs }
}

// Refusals of the request, not of the account.
const servedCodes = new Set(['model_request_refused', 'model_context_exceeded', 'model_not_found'])

/** Whether the result shows that the account has no limit now. */
const isServed = (result: ModelCallResult) =>
  result.what === 'answered' || (result.what === 'failed' && servedCodes.has(result.failure.code))

/** Splits the steps into the newest ones that fit into `roomTokens` (always the last one) and the older ones. */
export function newestSteps(
  { steps }: Pick<Transcript, 'steps'>,
  sizeOf: (step: Transcript['steps'][number]) => number,
  roomTokens: number,
): { readonly recent: Transcript['steps']; readonly older: Transcript['steps'] } {
  let size = 0
  let from = steps.length
  while (from > 0) {
    size += sizeOf(steps[from - 1]!)
    if (size > roomTokens && from < steps.length) break
    from -= 1
  }
  return { recent: steps.slice(from), older: steps.slice(0, from) }
}
