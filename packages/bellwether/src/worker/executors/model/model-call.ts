/**
 * One call of a model for a turn, whatever it is for: through the account's gate, within the budget, its parts streamed. Always: each
 * try reserves under an id of its own (the step, the epoch, the try), so that a repetition after a crash is another reservation.
 */
import type { Clock, Log, Random } from '@bellwether/base'
import { callModel, type ModelCallResult, type ModelTimeouts } from '../../../ports/model/ask.js'
import type { Limiter } from '../../../ports/model/limiter.js'
import type { Model, ModelRequest, ModelPart } from '../../../ports/model/model.js'
import { promptTokens } from '../../../ports/model/tokens.js'
import type { RetryPolicy } from '../../../ports/retry.js'
import type { TurnContext } from '../../agent.js'
import { openSpending, type Spending } from './turn-budget.js'
import type { Bounds, Prices } from './spec.js'
import type { Spent, Story } from './transcript.js'

/** How long one call may take with all of its tries and waits; past it, whoever looks after the turn decides. */
const patienceMs = 1_800_000

export interface ThinkingPorts {
  readonly clock: Clock
  readonly random: Pick<Random, 'next'>
  readonly log: Log
  readonly retry: RetryPolicy
  readonly times: ModelTimeouts
}

export interface Thinking extends ThinkingPorts {
  readonly context: TurnContext
  readonly model: Model
  readonly limiter: Limiter
  readonly bounds: Bounds
  readonly prices: Prices | undefined
  readonly factor: number
  readonly before: Spent
  readonly stepId: string
  readonly onPart?: ((part: ModelPart) => void) | undefined
}

export interface Thought {
  readonly asked: ModelCallResult
  readonly spending: Spending
  /** Of the prompt, before it was corrected by what the provider counts. */
  readonly estimated: number
}

/** `round` tells the calls of one step apart. */
export async function think(thinking: Thinking, request: ModelRequest, round: number): Promise<Thought> {
  const { context, model, limiter, clock, random, log, retry, times, factor, stepId } = thinking
  const spending = openSpending({ ...thinking, before: thinking.before })
  const estimated = promptTokens(request)
  const price = { promptTokens: Math.ceil(estimated * factor), answerTokens: request.maxOutputTokens }
  const asked = await callModel(model, request, {
    clock,
    random,
    log,
    limiter,
    retry,
    get timeouts() {
      return { ...times, totalMs: Math.min(times.totalMs, spending.timeLeftMs) }
    },
    get busyTimeoutMs() {
      return Math.min(patienceMs, spending.timeLeftMs)
    },
    signal: context.signal,
    beforeAttempt: (attempt) => spending.begin(`${stepId}:${context.turn.turnEpoch}:${round}.${attempt}`, price),
    afterAttempt: (_attempt, bill) => spending.settle(bill),
    ...(thinking.onPart === undefined ? {} : { onPart: thinking.onPart }),
  })
  return { asked, spending, estimated }
}

/** The newest steps that fit into this many tokens, the last one always; how many were left out. */
export function newestSteps(
  { steps }: Pick<Story, 'steps'>,
  sizeOf: (step: Story['steps'][number]) => number,
  roomTokens: number,
): { readonly kept: Story['steps']; readonly older: Story['steps'] } {
  let size = 0
  let from = steps.length
  while (from > 0) {
    size += sizeOf(steps[from - 1]!)
    if (size > roomTokens && from < steps.length) break
    from -= 1
  }
  return { kept: steps.slice(from), older: steps.slice(0, from) }
}
