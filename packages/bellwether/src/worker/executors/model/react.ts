/**
 * Runs a model's turn in a loop: read the cards, decide, act. It keeps no state between two reads, so that a takeover and a resume
 * continue exactly here. A step is one card and one row, with an id that follows from its position in the turn. The loop is bounded
 * by `max_steps`, by the number of consecutive faults, and by the number of times that it may repeat itself.
 */
import { defined } from '@bellwether/base'
import { budgetExceeded, type DegradeAction } from '@bellwether/protocol'
import { TURN } from '../../../kernel/turn.js'
import type { ModelRequest, ToolOffer, ModelPart } from '../../../ports/model/model.js'
import { promptTokens } from '../../../ports/model/tokens.js'
import { FenceLost, type TurnAction, type TurnContext } from '../../agent.js'
import { degradeOf, endsTurn, type Degraded } from '../../degrade.js'
import type { Hydrated } from '../../hydrate.js'
import { endingOf, submitOffer, submitResultName, wantedFields } from '../../submit-result.js'
import type { Toolbox } from '../../tools/tool.js'
import { callInSequence, reducedCall, shapedBy, type CallShape, type ModelAccess } from './call-shape.js'
import { compact, trimmed, usageMetadata } from './compaction.js'
import { ended, usedUp } from './endings.js'
import { callsOf, feedbackOf, nextStep, printable } from './next-step.js'
import { messagesOf } from './messages.js'
import { boundsOf, type ModelSpec } from './spec.js'
import { readTranscript, refusedCards, stepCard, stepIdOf, type StepNote, type Transcript } from './transcript.js'
import { callWithinBudget, type ModelCall, type ModelCallPorts, type CallOutcome } from './model-call.js'

export interface ReactOptions extends ModelCallPorts, ModelAccess {
  readonly context: TurnContext
  readonly spec: ModelSpec
  /** The model of `cheaper_model`. Undefined if there is none. */
  readonly cheaper: () => ModelAccess | undefined
  readonly toolbox: (known: Hydrated) => Toolbox
  readonly onPart?: ((part: ModelPart) => void) | undefined
}

/** A conversation that fills a larger share of the context window is compacted before it is sent. */
const fullShare = 0.8
export async function react(options: ReactOptions): Promise<TurnAction> {
  const { context, spec } = options
  // After a wait, the kernel has already set this activity.
  if (context.turn.kind === 'turn') await context.activity('thinking')
  const degrade = degradeOf(context.turn)
  const bounds = boundsOf(spec, degrade.sequence)
  const endingAction = bounds.degrade.find(endsTurn) ?? 'stop_run'
  let contextTokens = bounds.contextTokens
  /** The step before which the cards were last compacted: at most one compaction per step. */
  let compacted = 0
  let rounds = 0
  for (;;) {
    const known = await context.hydrate()
    const transcript = readTranscript(known)
    const wanted = wantedFields(known.context)
    const { mustEndWith, offersSubmit } = endingOf(spec.must_end_with, wanted)
    const toolbox = options.toolbox(known)
    const decision = nextStep({ transcript, toolbox, wanted, ...bounds })
    // A message becomes a card: the next read of the cards contains it.
    const mayRead =
      decision.what === 'ask_model' || (decision.what === 'deliver' && transcript.steps.at(-1)?.note.calls.length === 0)
    if (mayRead && (await context.messages()).length > 0) continue
    if (decision.what === 'deliver') return { deliver: decision.content }
    if (decision.what === 'fail') return ended(transcript, decision.code, decision.message, endingAction)
    if (decision.what === 'call') {
      const { calls, refused, stepId } = decision
      if (refused.length > 0)
        await context.record({
          cards: refused.flatMap(({ call, refusal }) => refusedCards(context.turn, stepId, call, refusal)),
        })
      if (calls.length > 0) return { suspend: { calls, stepId } }
      continue
    }

    const {
      shape: first,
      context: cards,
      memory,
    } = startOf(options, degrade.now, known, {
      offers: offersOf(toolbox, offersSubmit, transcript),
      mustEndWith,
      memory: transcript.memory,
    })
    const remembered: Transcript = { ...transcript, memory }
    const callOf = ({ model, limiter, prices }: CallShape): ModelCall => ({
      ...options,
      model,
      limiter,
      prices,
      bounds,
      factor: transcript.factor,
      stepId: stepIdOf(context.turn, transcript.last + 1),
    })
    const call = callOf(first)
    const requestFor =
      (tools: readonly ToolOffer[]) =>
      (shown: Transcript, roomTokens: number, maxOutputTokens: number): ModelRequest => ({
        messages: messagesOf({
          instructions: spec.instructions,
          context: cards,
          truncated: known.truncated,
          transcript: shown,
          wanted,
          mustEndWith,
          roomTokens,
          maxRepeats: bounds.maxRepeats,
        }),
        tools,
        maxOutputTokens,
        temperature: spec.temperature,
      })

    let shown = remembered
    let request = requestFor(first.tools)(shown, contextTokens, bounds.maxOutputTokens)
    if (promptTokens(request) * transcript.factor > contextTokens * fullShare) {
      if (compacted <= transcript.last && (await compact(call, transcript, contextTokens))) {
        compacted = transcript.last + 1
        continue
      }
      shown = trimmed(remembered, contextTokens)
      request = requestFor(first.tools)(shown, contextTokens, bounds.maxOutputTokens)
    }
    await context.record({
      step: { stepId: call.stepId, phase: 'model', status: TURN.start.to, metadata: stepFacts(first, context) },
    })

    const { planned, outcome } = await callInSequence({
      first: { shape: first, request },
      sequence: bounds.degrade,
      options: { spec, cheaper: options.cheaper, mustEndWith },
      ask: (one) => callWithinBudget(callOf(one.shape), one.request, (rounds += 1)),
      plan(shape, shortage) {
        const makeRequest = requestFor(shape.tools)
        if (shape.reduced) return reducedCall(shape, remembered, shortage, { ...bounds, contextTokens }, makeRequest)
        return { shape, request: makeRequest(shown, contextTokens, bounds.maxOutputTokens) }
      },
    })
    const { shape } = planned
    request = planned.request
    const { result, budget } = outcome
    const limit = result.what === 'refused' ? budget.shortage?.spending : undefined
    const ending =
      limit !== undefined && limit.action !== 'hold' && endsTurn(limit.action) ? limit.action : endingAction
    if (limit !== undefined && ending !== limit.action) await context.accounts?.holdSpending(limit)
    if (result.what === 'halted') {
      if (context.signal.reason !== budgetExceeded) throw new FenceLost(context.turn.agentTurnId)
      return ended(transcript, budgetExceeded, usedUp('time'), endingAction)
    }
    if (result.what === 'answered') {
      const { response, tries } = result
      const feedback = feedbackOf(response, transcript, mustEndWith, request.maxOutputTokens)
      const note = noteOf(call, transcript, outcome, response.calls, response.finish, feedback)
      const failedBy = feedback?.code ?? (budget.exceeded ? budgetExceeded : undefined)
      await context.record({
        cards: [stepCard(context.turn, note, printable(response.text).trim(), printable(response.thought).trim())],
        step: {
          stepId: call.stepId,
          phase: 'model',
          status: failedBy === undefined ? 'success' : 'failed',
          ...defined({ error: failedBy }),
          toolCallIds: note.calls.map((call) => call.id),
          metadata: {
            ...stepFacts(shape, context, failedBy === budgetExceeded ? endingAction : undefined),
            ...usageMetadata(budget),
            finish_reason: response.finish,
            tries,
            ...defined({ first_token_ms: outcome.firstTokenMs }),
          },
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
        metadata: {
          ...stepFacts(shape, context, code === budgetExceeded ? ending : undefined),
          ...usageMetadata(budget),
          tries: result.tries,
          message,
        },
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
    return ended(transcript, code, message, ending)
  }
}

/** `ending`: the action that ends the turn, because its budget is used up. */
function stepFacts(shape: CallShape, { turn }: TurnContext, ending?: DegradeAction) {
  const degraded: readonly Degraded[] = [...shape.degraded, ...(ending === undefined ? [] : [{ action: ending }])]
  const facts = { model: shape.model.name, taken_over: turn.takenOver }
  return degraded.length === 0 ? facts : { ...facts, degraded }
}

/** The first shape of a call, and the cards that it shows, after the degrade actions of the run. */
function startOf(
  { spec, model, limiter, cheaper }: ReactOptions,
  now: readonly DegradeAction[],
  known: Hydrated,
  {
    offers,
    mustEndWith,
    memory,
  }: {
    readonly offers: readonly ToolOffer[]
    readonly mustEndWith: string | undefined
    readonly memory: Transcript['memory']
  },
): { readonly shape: CallShape; readonly context: Hydrated['context']; readonly memory: Transcript['memory'] } {
  const plain: CallShape = { model, limiter, prices: spec.prices, tools: offers, reduced: false, degraded: [] }
  const shape = now
    .filter((action) => action !== 'reduced_context')
    .reduce((one, action) => shapedBy(action, one, { spec, cheaper, mustEndWith }) ?? one, plain)
  if (!now.includes('reduced_context')) return { shape, context: known.context, memory }
  const tasks = known.context.filter(({ type }) => type.startsWith('task.'))
  const cards = known.context.length - tasks.length + memory.length
  const effect = { action: 'reduced_context', without_cards: cards } as const
  return { shape: { ...shape, degraded: [...shape.degraded, effect] }, context: tasks, memory: [] }
}

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

function offersOf({ offers }: Toolbox, submits: boolean, { steps }: Transcript): ToolOffer[] {
  const own = offers.filter(({ name }) => name !== submitResultName)
  const all = submits ? [...own, submitOffer] : own
  // Providers reject a conversation that contains calls if the request offers no tool.
  return all.length === 0 && steps.some((step) => step.note.calls.length > 0) ? [submitOffer] : all
}

function problemOf({ result, budget }: CallOutcome): { readonly code: string; readonly message: string } {
  if (result.what === 'failed' && budget.timeLeftMs > 0) {
    const { failure, tries } = result
    const times = tries === 1 ? '' : ` (tried ${tries} times)`
    return { code: failure.code, message: `The model call failed: ${failure.message}${times}` }
  }
  const outOfTime = budget.shortage?.outOfTime === true || result.what === 'failed'
  return { code: budgetExceeded, message: usedUp(outOfTime ? 'time' : 'budget') }
}
