/**
 * A turn of a model: read the cards, decide, act, and read them again. Nothing is remembered between two looks, so that a worker that
 * takes over, and one that resumes after a tool's result, do what this one would have done. Always: a step is one card and one row,
 * under an id that its place in the turn gives it; every loop is bounded by max_steps and by mistakes in a row.
 */
import { TURN } from '../../../kernel/turn.js'
import type { Limiter } from '../../../ports/model/limiter.js'
import type { Model, ModelRequest, OfferedTool, ModelPart } from '../../../ports/model/model.js'
import { promptTokens } from '../../../ports/model/tokens.js'
import { FenceLost, type TurnAction, type TurnContext } from '../../agent.js'
import type { Hydrated } from '../../hydrate.js'
import { submitResultName, wantedFields } from '../../submit-result.js'
import type { Toolbox } from '../../tools/tool.js'
import { compact, trimmed, usageFacts } from './compaction.js'
import { failed, handedOver } from './endings.js'
import { callsOf, decide, printable, toldOf } from './next-step.js'
import { messagesOf } from './messages.js'
import { affordableAnswer, type Shortage } from './turn-budget.js'
import { boundsOf, type Bounds, type ModelSpec } from './spec.js'
import { readStory, refusedCards, stepCard, stepIdOf, type StepNote, type Story } from './transcript.js'
import { submitOffer } from './submit-offer.js'
import { think, type Thinking, type ThinkingPorts, type Thought } from './model-call.js'

export interface Reacting extends ThinkingPorts {
  readonly context: TurnContext
  readonly spec: ModelSpec
  readonly model: Model
  readonly limiter: Limiter
  readonly toolbox: (known: Hydrated) => Toolbox
  readonly onPart?: ((part: ModelPart) => void) | undefined
}

/** From here on a conversation is made smaller before it is sent. */
const fullShare = 0.8
/** Less is no answer: it is not worth what the prompt costs. */
const answerMinTokens = 256

export async function react(reacting: Reacting): Promise<TurnAction> {
  const { context, spec } = reacting
  // After a wait the kernel has said so itself.
  if (context.turn.kind === 'turn') await context.activity('thinking')
  const bounds = boundsOf(spec, context.turn)
  let contextTokens = bounds.contextTokens
  /** The step before which the cards were last made smaller: once is enough for each. */
  let compacted = 0
  let rounds = 0
  for (;;) {
    const known = await context.hydrate()
    const story = readStory(known.output, context.turn)
    const wanted = wantedFields(known.context)
    const mustEndWith =
      spec.must_end_with ?? (wanted.some((field) => field.required === true) ? submitResultName : undefined)
    const toolbox = reacting.toolbox(known)
    const decision = decide({ story, toolbox, wanted, maxSteps: bounds.maxSteps })
    if (decision.what === 'deliver') return { deliver: decision.content }
    if (decision.what === 'fail') return ended(story, decision.code, decision.message, bounds.degrade)
    if (decision.what === 'call') {
      const { calls, refused, stepId } = decision
      if (refused.length > 0)
        await context.record({
          cards: refused.flatMap(({ call, why }) => refusedCards(context.turn, stepId, call, why)),
        })
      if (calls.length > 0) return { suspend: { calls, stepId } }
      continue
    }

    const thinking: Thinking = {
      ...reacting,
      bounds,
      prices: spec.prices,
      factor: story.factor,
      before: story.spent,
      stepId: stepIdOf(context.turn, story.last + 1),
    }
    const offers = offersOf(toolbox, wanted.length > 0 || mustEndWith === submitResultName, story)
    const request = (told: Story, roomTokens: number, maxOutputTokens: number): ModelRequest => ({
      messages: messagesOf({
        instructions: spec.instructions,
        context: known.context,
        story: told,
        wanted,
        mustEndWith,
        roomTokens,
      }),
      tools: offers,
      maxOutputTokens,
      temperature: spec.temperature,
    })

    let asking = request(story, contextTokens, bounds.maxOutputTokens)
    if (promptTokens(asking) * story.factor > contextTokens * fullShare) {
      if (compacted <= story.last && (await compact(thinking, story, contextTokens))) {
        compacted = story.last + 1
        continue
      }
      asking = request(trimmed(story, contextTokens), contextTokens, bounds.maxOutputTokens)
    }
    await context.record({
      step: { stepId: thinking.stepId, phase: 'model', status: TURN.start.to, metadata: factsOf(reacting) },
    })

    let thought = await think(thinking, asking, (rounds += 1))
    if (thought.asked.what === 'refused' && bounds.degrade[0] === 'reduced_context') {
      const less = reduced(story, thought.spending.shortage, spec, { ...bounds, contextTokens }, request)
      if (less !== undefined) {
        asking = less
        thought = await think({ ...thinking, before: thought.spending.spent }, less, (rounds += 1))
      }
    }
    const { asked, spending } = thought
    if (asked.what === 'halted') throw new FenceLost(context.turn.agentTurnId)
    if (asked.what === 'answered') {
      const { answer, attempts } = asked
      const told = toldOf(answer, story, mustEndWith, asking.maxOutputTokens)
      const note = noteOf(thinking, story, thought, answer.calls, answer.finish, told)
      const failedBy = told?.code ?? (spending.exceeded ? 'budget_exceeded' : undefined)
      await context.record({
        cards: [stepCard(context.turn, note, printable(answer.text).trim(), printable(answer.thought).trim())],
        step: {
          stepId: thinking.stepId,
          phase: 'model',
          status: failedBy === undefined ? 'success' : 'failed',
          ...(failedBy === undefined ? {} : { error: failedBy }),
          toolCallIds: note.calls.map((call) => call.id),
          metadata: { ...factsOf(reacting), ...usageFacts(spending), finish_reason: answer.finish, tries: attempts },
        },
      })
      continue
    }

    const { code, message } = troubleOf(thought)
    await context.record({
      step: {
        stepId: thinking.stepId,
        phase: 'model',
        status: 'failed',
        error: code,
        metadata: { ...factsOf(reacting), ...usageFacts(spending), tries: asked.attempts, said: message },
      },
    })
    if (code === 'model_context_exceeded' && compacted <= story.last) {
      // The provider knows better how much its model can read.
      contextTokens = Math.max(1_000, Math.floor(Math.min(contextTokens, promptTokens(asking) * story.factor) * 0.6))
      await compact({ ...thinking, before: spending.spent }, story, contextTokens)
      compacted = story.last + 1
      continue
    }
    return ended(story, code, message, bounds.degrade)
  }
}

const factsOf = ({ model, context }: Reacting) => ({ model: model.name, attempt: context.turn.attempts + 1 })

function noteOf(
  { stepId, context }: Thinking,
  story: Story,
  { spending, estimated }: Thought,
  calls: Parameters<typeof callsOf>[1],
  finish: string,
  told: StepNote['told'],
): StepNote {
  const { usage, spent, exceeded } = spending
  return {
    step: story.last + 1,
    step_id: stepIdOf(context.turn, story.last + 1),
    calls: callsOf(stepId, calls),
    finish,
    spent,
    estimated,
    ...(usage === undefined ? {} : { counted: usage.inputTokens }),
    ...(told === undefined ? {} : { told }),
    ...(exceeded ? { exceeded } : {}),
  }
}

function offersOf({ offers }: Toolbox, submits: boolean, { steps }: Story): OfferedTool[] {
  const own = offers.filter(({ name }) => name !== submitResultName)
  const all = submits ? [...own, submitOffer] : own
  // Providers refuse a conversation with calls in it, where no tool is offered (any more).
  return all.length === 0 && steps.some((step) => step.note.calls.length > 0) ? [submitOffer] : all
}

/** `reduced_context`: as much of the conversation, and as long an answer, as what is left can pay. Undefined: too little is. */
function reduced(
  story: Story,
  shortage: Shortage | undefined,
  { prices }: ModelSpec,
  { contextTokens, maxOutputTokens }: Bounds,
  request: (told: Story, roomTokens: number, maxOutputTokens: number) => ModelRequest,
): ModelRequest | undefined {
  if (shortage === undefined || shortage.wallOver) return undefined
  const payable = affordableAnswer(shortage, 0, prices)
  const least = Math.min(answerMinTokens, maxOutputTokens)
  const most = Math.max(least, Math.floor(maxOutputTokens / 2))
  for (const share of [0.8, 0.4]) {
    const roomTokens = Math.floor(Math.min(contextTokens, payable) * share)
    const smaller = request(trimmed(story, roomTokens), roomTokens, least)
    const prompt = Math.ceil(promptTokens(smaller) * story.factor)
    const answer = Math.min(affordableAnswer(shortage, prompt, prices), most)
    if (answer >= least) return { ...smaller, maxOutputTokens: answer }
  }
  return undefined
}

function troubleOf({ asked, spending }: Thought): { readonly code: string; readonly message: string } {
  if (asked.what === 'failed' && spending.timeLeftMs > 0) {
    const { failure, attempts } = asked
    const often = attempts === 1 ? '' : ` (tried ${attempts} times)`
    return { code: failure.code, message: `The model could not be asked: ${failure.message}${often}` }
  }
  const short = spending.shortage
  const what = short?.wallOver === true || asked.what === 'failed' ? 'time' : 'budget'
  return { code: 'budget_exceeded', message: `The ${what} of this turn is used up` }
}

/** H7.5: what there is, is delivered; `manual_handoff` adds what somebody needs to go on. */
function ended(story: Story, code: string, message: string, degrade: readonly string[]): TurnAction {
  const hands = degrade.find((action) => action !== 'reduced_context') === 'manual_handoff'
  return code === 'budget_exceeded' && hands ? handedOver(story, code, message) : failed(story, code, message)
}
