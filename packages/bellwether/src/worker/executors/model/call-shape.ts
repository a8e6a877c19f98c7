/**
 * The shape of a model call: which model answers, which tools are offered, and how much of the conversation is sent. If the budget does
 * not cover a call, the degrade actions change its shape, one after another, until one fits. Nothing is kept between two steps: the
 * next step starts with the first shape again.
 */
import type { DegradeAction } from '@bellwether/protocol'
import type { Limiter } from '../../../ports/model/limiter.js'
import type { Model, ModelRequest, ToolOffer } from '../../../ports/model/model.js'
import { promptTokens } from '../../../ports/model/tokens.js'
import { endsTurn, type Degraded } from '../../degrade.js'
import { submitOffer, submitResultName } from '../../submit-result.js'
import { trimmed } from './compaction.js'
import type { CallOutcome } from './model-call.js'
import type { Bounds, ModelSpec, Prices } from './spec.js'
import type { Transcript } from './transcript.js'
import { affordableAnswer, type Shortage } from './turn-budget.js'

/** A shorter answer is not worth the cost of the request. */
const answerMinTokens = 256

export interface ModelAccess {
  readonly model: Model
  readonly limiter: Limiter
}

export interface CallShape extends ModelAccess {
  readonly prices: Prices | undefined
  readonly tools: readonly ToolOffer[]
  /** Whether the request is cut to what the rest of the budget covers. */
  readonly reduced: boolean
  /** The actions that led to this shape. */
  readonly degraded: readonly Degraded[]
}

export interface PlannedCall {
  readonly shape: CallShape
  readonly request: ModelRequest
}

export interface ShapeOptions {
  readonly spec: ModelSpec
  /** Undefined if the agent has no cheaper model, or if it is not set up. */
  readonly cheaper: () => ModelAccess | undefined
  readonly mustEndWith: string | undefined
}

/** The shape after an action. Undefined if the action changes nothing. */
export function shapedBy(action: DegradeAction, shape: CallShape, options: ShapeOptions): CallShape | undefined {
  const { spec, mustEndWith } = options
  const { degraded } = shape
  if (action === 'reduced_context') return shape.reduced ? undefined : { ...shape, reduced: true }
  if (action === 'cheaper_model') {
    const cheaper = options.cheaper()
    if (cheaper === undefined || cheaper.model.name === shape.model.name) return undefined
    const effect = { action, model: cheaper.model.name, instead_of: shape.model.name }
    return { ...shape, ...cheaper, prices: spec.cheaper_prices, degraded: [...degraded, effect] }
  }
  if (action === 'fewer_tools') {
    const essential = new Set([...(spec.essential_tools ?? []), submitResultName, mustEndWith])
    const left = shape.tools.filter(({ name }) => essential.has(name))
    // Providers reject a conversation that contains calls if the request offers no tool.
    const tools = left.length === 0 ? [submitOffer] : left
    const without = shape.tools.filter((tool) => !left.includes(tool)).map(({ name }) => name)
    return without.length === 0 ? undefined : { ...shape, tools, degraded: [...degraded, { action, without }] }
  }
  return undefined
}

export interface DegradableCall {
  readonly first: PlannedCall
  readonly sequence: readonly DegradeAction[]
  readonly options: ShapeOptions
  readonly ask: (planned: PlannedCall) => Promise<CallOutcome>
  /** The request in this shape, cut to what is left if the shape is reduced. Undefined if too little is left. */
  readonly plan: (shape: CallShape, shortage: Shortage) => PlannedCall | undefined
}

/** Makes the call, in the first shape that the budget covers. */
export async function callInSequence(
  call: DegradableCall,
): Promise<{ readonly planned: PlannedCall; readonly outcome: CallOutcome }> {
  let planned = call.first
  let { shape } = planned
  let outcome = await call.ask(planned)
  const limit = outcome.budget.shortage?.spending
  // A spending limit has one action of its own.
  const sequence = limit === undefined ? call.sequence : limit.action === 'hold' ? [] : [limit.action]
  for (const action of sequence) {
    const { shortage } = outcome.budget
    if (outcome.result.what !== 'refused' || endsTurn(action) || shortage === undefined || shortage.outOfTime) break
    const changed = shapedBy(action, shape, call.options)
    if (changed === undefined) continue
    shape = changed
    const next = call.plan(shape, shortage)
    if (next === undefined) continue
    planned = next
    outcome = await call.ask(planned)
  }
  return { planned, outcome }
}

/** `reduced_context`: a request as large as the rest of the budget covers. Undefined if too little is left. */
export function reducedCall(
  shape: CallShape,
  transcript: Transcript,
  shortage: Shortage,
  { contextTokens, maxOutputTokens }: Bounds,
  requestFor: (shown: Transcript, roomTokens: number, maxOutputTokens: number) => ModelRequest,
): PlannedCall | undefined {
  const { prices } = shape
  const payable = affordableAnswer(shortage, 0, prices)
  const least = Math.min(answerMinTokens, maxOutputTokens)
  const most = Math.max(least, Math.floor(maxOutputTokens / 2))
  const sizeOf = (request: ModelRequest) => Math.ceil(promptTokens(request) * transcript.factor)
  for (const share of [0.8, 0.4]) {
    const roomTokens = Math.floor(Math.min(contextTokens, payable) * share)
    const smaller = requestFor(trimmed(transcript, roomTokens), roomTokens, least)
    const answer = Math.min(affordableAnswer(shortage, sizeOf(smaller), prices), most)
    if (answer < least) continue
    const effect: Degraded = {
      action: 'reduced_context',
      prompt_tokens: sizeOf(smaller),
      instead_of: sizeOf(requestFor(transcript, contextTokens, maxOutputTokens)),
      max_output_tokens: answer,
    }
    return {
      shape: { ...shape, degraded: [...shape.degraded, effect] },
      request: { ...smaller, maxOutputTokens: answer },
    }
  }
  return undefined
}
