/**
 * One model call of a turn: through the account's limiter, within the turn's budget, with streamed parts. Each try has its own
 * reservation id (step, epoch, try), so that a repetition after a crash makes a new reservation.
 */
import { defined, type Clock, type Log, type Random } from '@bellwether/base'
import { callModel, type ModelCallResult, type ModelTimeouts } from '../../../ports/model/call-model.js'
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
  readonly asked: ModelCallResult
  readonly budget: TurnBudget
  /** The estimated prompt tokens, before the correction factor. */
  readonly estimated: number
}

/** `round` distinguishes the calls of one step. */
export async function callWithinBudget(call: ModelCall, request: ModelRequest, round: number): Promise<CallOutcome> {
  const { context, model, limiter, clock, random, log, retry, times, factor, stepId } = call
  const budget = openTurnBudget(call)
  const estimated = promptTokens(request)
  const limit = { promptTokens: Math.ceil(estimated * factor), answerTokens: request.maxOutputTokens }
  const asked = await callModel(model, request, {
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
    beforeTry: (tries) => budget.begin(`${stepId}:${context.turn.turnEpoch}:${round}.${tries}`, limit),
    afterTry: (_tries, bill) => budget.settle(bill),
    ...defined({ onPart: call.onPart }),
  })
  return { asked, budget, estimated }
}

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
