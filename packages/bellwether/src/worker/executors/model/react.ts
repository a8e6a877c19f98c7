/**
 * Runs a model's turn in a loop: read the cards, decide, act. It keeps no state between two reads, so that a takeover and a resume
 * continue exactly here. A step is one card and one row, with an id that follows from its position in the turn. The loop is bounded
 * by `max_steps` and by the number of consecutive faults.
 */
import { defined } from '@bellwether/base'
import { budgetExceeded } from '@bellwether/protocol'
import { TURN } from '../../../kernel/turn.js'
import type { Limiter } from '../../../ports/model/limiter.js'
import type { Model, ModelRequest, OfferedTool, ModelPart } from '../../../ports/model/model.js'
import { promptTokens } from '../../../ports/model/tokens.js'
import { FenceLost, type TurnAction, type TurnContext } from '../../agent.js'
import type { Hydrated } from '../../hydrate.js'
import { endingOf, submitOffer, submitResultName, wantedFields } from '../../submit-result.js'
import type { Toolbox } from '../../tools/tool.js'
import { compact, trimmed, usageMetadata } from './compaction.js'
import { failed, handedOver } from './endings.js'
import { callsOf, feedbackOf, nextStep, printable } from './next-step.js'
import { messagesOf } from './messages.js'
import { affordableAnswer, type Shortage } from './turn-budget.js'
import { boundsOf, type Bounds, type ModelSpec } from './spec.js'
import { readTranscript, refusedCards, stepCard, stepIdOf, type StepNote, type Transcript } from './transcript.js'
import { callWithinBudget, type ModelCall, type ModelCallPorts, type CallOutcome } from './model-call.js'

export interface ReactOptions extends ModelCallPorts {
  readonly context: TurnContext
  readonly spec: ModelSpec
  readonly model: Model
  readonly limiter: Limiter
  readonly toolbox: (known: Hydrated) => Toolbox
  readonly onPart?: ((part: ModelPart) => void) | undefined
}

/** A conversation that fills a larger share of the context window is compacted before it is sent. */
const fullShare = 0.8
/** A shorter answer is not worth the cost of the request. */
const answerMinTokens = 256

export async function react(options: ReactOptions): Promise<TurnAction> {
  const { context, spec } = options
  // After a wait, the kernel has already set this activity.
  if (context.turn.kind === 'turn') await context.activity('thinking')
  const bounds = boundsOf(spec)
  let contextTokens = bounds.contextTokens
  /** The step before which the cards were last compacted: at most one compaction per step. */
  let compacted = 0
  let rounds = 0
  for (;;) {
    const known = await context.hydrate()
    const transcript = readTranscript(known.output, context.turn)
    const wanted = wantedFields(known.context)
    const { mustEndWith, offersSubmit } = endingOf(spec.must_end_with, wanted)
    const toolbox = options.toolbox(known)
    const decision = nextStep({ transcript, toolbox, wanted, maxSteps: bounds.maxSteps })
    if (decision.what === 'deliver') return { deliver: decision.content }
    if (decision.what === 'fail') return ended(transcript, decision.code, decision.message, bounds.degrade)
    if (decision.what === 'call') {
      const { calls, refused, stepId } = decision
      if (refused.length > 0)
        await context.record({
          cards: refused.flatMap(({ call, refusal }) => refusedCards(context.turn, stepId, call, refusal)),
        })
      if (calls.length > 0) return { suspend: { calls, stepId } }
      continue
    }

    const call: ModelCall = {
      ...options,
      bounds,
      prices: spec.prices,
      factor: transcript.factor,
      stepId: stepIdOf(context.turn, transcript.last + 1),
    }
    const offers = offersOf(toolbox, offersSubmit, transcript)
    const requestFor = (shown: Transcript, roomTokens: number, maxOutputTokens: number): ModelRequest => ({
      messages: messagesOf({
        instructions: spec.instructions,
        context: known.context,
        truncated: known.truncated,
        transcript: shown,
        wanted,
        mustEndWith,
        roomTokens,
      }),
      tools: offers,
      maxOutputTokens,
      temperature: spec.temperature,
    })

    let request = requestFor(transcript, contextTokens, bounds.maxOutputTokens)
    if (promptTokens(request) * transcript.factor > contextTokens * fullShare) {
      if (compacted <= transcript.last && (await compact(call, transcript, contextTokens))) {
        compacted = transcript.last + 1
        continue
      }
      request = requestFor(trimmed(transcript, contextTokens), contextTokens, bounds.maxOutputTokens)
    }
    await context.record({
      step: { stepId: call.stepId, phase: 'model', status: TURN.start.to, metadata: stepFacts(options) },
    })

    let outcome = await callWithinBudget(call, request, (rounds += 1))
    if (outcome.asked.what === 'refused' && bounds.degrade[0] === 'reduced_context') {
      const less = reduced(transcript, outcome.budget.shortage, spec, { ...bounds, contextTokens }, requestFor)
      if (less !== undefined) {
        request = less
        outcome = await callWithinBudget(call, less, (rounds += 1))
      }
    }
    const { asked, budget } = outcome
    if (asked.what === 'halted') {
      if (context.signal.reason !== budgetExceeded) throw new FenceLost(context.turn.agentTurnId)
      return ended(transcript, budgetExceeded, usedUp('time'), bounds.degrade)
    }
    if (asked.what === 'answered') {
      const { answer, tries } = asked
      const feedback = feedbackOf(answer, transcript, mustEndWith, request.maxOutputTokens)
      const note = noteOf(call, transcript, outcome, answer.calls, answer.finish, feedback)
      const failedBy = feedback?.code ?? (budget.exceeded ? budgetExceeded : undefined)
      await context.record({
        cards: [stepCard(context.turn, note, printable(answer.text).trim(), printable(answer.thought).trim())],
        step: {
          stepId: call.stepId,
          phase: 'model',
          status: failedBy === undefined ? 'success' : 'failed',
          ...defined({ error: failedBy }),
          toolCallIds: note.calls.map((call) => call.id),
          metadata: { ...stepFacts(options), ...usageMetadata(budget), finish_reason: answer.finish, tries },
        },
      })
      continue
    }

    const { code, message } = problemOf(outcome)
    await context.record({
      step: {
        stepId: call.stepId,
        phase: 'model',
        status: 'failed',
        error: code,
        metadata: { ...stepFacts(options), ...usageMetadata(budget), tries: asked.tries, message },
      },
    })
    if (code === 'model_context_exceeded' && compacted <= transcript.last) {
      // The provider's limit is smaller than `context_tokens`: continue with a smaller window.
      contextTokens = Math.max(
        1_000,
        Math.floor(Math.min(contextTokens, promptTokens(request) * transcript.factor) * 0.6),
      )
      await compact(call, transcript, contextTokens)
      compacted = transcript.last + 1
      continue
    }
    return ended(transcript, code, message, bounds.degrade)
  }
}

const stepFacts = ({ model, context }: ReactOptions) => ({ model: model.name, taken_over: context.turn.takenOver })

function noteOf(
  { stepId, context }: ModelCall,
  transcript: Transcript,
  { budget, estimated }: CallOutcome,
  calls: Parameters<typeof callsOf>[1],
  finish: string,
  feedback: StepNote['feedback'],
): StepNote {
  const { usage, exceeded } = budget
  return {
    step: transcript.last + 1,
    step_id: stepIdOf(context.turn, transcript.last + 1),
    calls: callsOf(stepId, calls),
    finish,
    estimated,
    ...defined({ counted: usage?.inputTokens, feedback, exceeded: exceeded ? true : undefined }),
  }
}

function offersOf({ offers }: Toolbox, submits: boolean, { steps }: Transcript): OfferedTool[] {
  const own = offers.filter(({ name }) => name !== submitResultName)
  const all = submits ? [...own, submitOffer] : own
  // Providers reject a conversation that contains calls if the request offers no tool.
  return all.length === 0 && steps.some((step) => step.note.calls.length > 0) ? [submitOffer] : all
}

/** `reduced_context`: a request as large as the rest of the budget covers. Undefined if too little is left. */
function reduced(
  transcript: Transcript,
  shortage: Shortage | undefined,
  { prices }: ModelSpec,
  { contextTokens, maxOutputTokens }: Bounds,
  requestFor: (shown: Transcript, roomTokens: number, maxOutputTokens: number) => ModelRequest,
): ModelRequest | undefined {
  if (shortage === undefined || shortage.outOfTime) return undefined
  const payable = affordableAnswer(shortage, 0, prices)
  const least = Math.min(answerMinTokens, maxOutputTokens)
  const most = Math.max(least, Math.floor(maxOutputTokens / 2))
  for (const share of [0.8, 0.4]) {
    const roomTokens = Math.floor(Math.min(contextTokens, payable) * share)
    const smaller = requestFor(trimmed(transcript, roomTokens), roomTokens, least)
    const promptSize = Math.ceil(promptTokens(smaller) * transcript.factor)
    const answer = Math.min(affordableAnswer(shortage, promptSize, prices), most)
    if (answer >= least) return { ...smaller, maxOutputTokens: answer }
  }
  return undefined
}

function problemOf({ asked, budget }: CallOutcome): { readonly code: string; readonly message: string } {
  if (asked.what === 'failed' && budget.timeLeftMs > 0) {
    const { failure, tries } = asked
    const times = tries === 1 ? '' : ` (tried ${tries} times)`
    return { code: failure.code, message: `The model call failed: ${failure.message}${times}` }
  }
  const outOfTime = budget.shortage?.outOfTime === true || asked.what === 'failed'
  return { code: budgetExceeded, message: usedUp(outOfTime ? 'time' : 'budget') }
}

const usedUp = (what: 'time' | 'budget') => `The ${what} of this turn is used up`

/** H7.5: the deliverable holds the work so far. `manual_handoff` adds what a person needs to continue. */
function ended(transcript: Transcript, code: string, message: string, degrade: readonly string[]): TurnAction {
  const handsOff = degrade.find((action) => action !== 'reduced_context') === 'manual_handoff'
  return code === budgetExceeded && handsOff ? handedOver(transcript, code, message) : failed(transcript, code, message)
}
