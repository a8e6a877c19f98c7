/**
 * Replays the turn of a model from its cards: a recorded model gives the recorded answers, a recorded toolbox the recorded refusals and
 * results. Every decision in between is made again and compared with the next card. Pure. Limits of the agent file are not part of a
 * trail: where a turn ended at one, the trail says at which.
 */
import { defined, objectOf } from '@bellwether/base'
import { budgetExceeded, type DegradeAction } from '@bellwether/protocol'
import type { Difference, Trail } from '@bellwether/protocol/http'
import type { Card } from '../../kernel/verbs/cards.js'
import type { Fence } from '../../kernel/verdict.js'
import type { ModelResponse } from '../../ports/model/model.js'
import { textOf } from '../card-text.js'
import { endsTurn, type Degraded } from '../degrade.js'
import { ended, usedUp } from '../executors/model/endings.js'
import { callsOf, feedbackOf, nextStep, printable, type Decision } from '../executors/model/next-step.js'
import {
  readTranscript,
  refusedCards,
  stepCard,
  stepIdOf,
  stepMark,
  type StepNote,
  type Transcript,
} from '../executors/model/transcript.js'
import { noProgress, repeatsOf } from '../executors/repeats.js'
import type { Delivered } from '../executors/stored-result.js'
import { terminated } from '../run-turn.js'
import { endingOf, wantedFields } from '../submit-result.js'
import { checkArguments } from '../tools/arguments.js'
import { planQuestion } from '../tools/built-ins.js'
import { builtInNames } from '../tools/names.js'
import type { Toolbox } from '../tools/tool.js'
import { differenceOf } from './compare.js'
import { asCard, isMessage, pointsOf } from './trail-cards.js'
import { resultsOf } from './trail-results.js'

export interface Replayed {
  /** The actions that the turn may have ended with. Empty: something else ended it. */
  readonly endings: readonly Delivered[]
  readonly difference?: Difference | undefined
}

const noEnding: Replayed = { endings: [] }

export function replayModel(trail: Trail, cards: readonly Card[]): Replayed {
  const { turn } = trail
  const fence: Fence = {
    projectId: turn.project_id,
    agentId: turn.agent_id,
    agentTurnId: turn.agent_turn_id,
    turnEpoch: turn.turn_epoch ?? 0,
  }
  const wanted = wantedFields(trail.context.map(asCard))
  const toolbox = recordedToolbox(cards)
  const fullTranscript = readTranscript({ output: cards, memory: [] })
  const bounds = {
    maxSteps: turn.error === 'max_steps' ? fullTranscript.last : Infinity,
    maxRepeats: turn.error === noProgress ? repeatsOf(fullTranscript.exchanges) : Infinity,
  }
  let at = pointsOf('model', cards)[0].end
  for (;;) {
    const transcript = readTranscript({ output: cards.slice(0, at), memory: [] })
    const decision = nextStep({ transcript, toolbox, wanted, ...bounds })
    const next = cards[at]
    const step = transcript.last
    const mayRead =
      decision.what === 'ask_model' || (decision.what === 'deliver' && transcript.steps.at(-1)?.note.calls.length === 0)
    if (mayRead && next !== undefined && isMessage(next)) {
      at += 1
      continue
    }
    if (decision.what === 'deliver' || decision.what === 'fail') {
      if (next !== undefined) return moved(step, next, decision)
      if (decision.what === 'deliver') return { endings: [{ deliver: decision.content }] }
      return { endings: [ended(transcript, decision.code, decision.message, endingIn(trail))] }
    }
    if (decision.what === 'call') {
      const sent = replayCalls(fence, decision, cards, at, step)
      if (sent.difference !== undefined) return { endings: [], difference: sent.difference }
      at = sent.at
      const results = resultsOf(trail, cards, decision.stepId)
      if (results.some(({ after_execution: after }) => after === 'terminate')) return { endings: [terminated(results)] }
      // The turn ended while it waited. If it went on, the result was lost with its worker, and the model got that as the result.
      const isOpen = decision.calls.some(({ toolCallId }) => !sent.answered.has(toolCallId))
      if (isOpen && at === cards.length) return noEnding
      continue
    }
    if (next === undefined) return failedCall(trail, transcript, stepIdOf(fence, step + 1))
    const note = next.metadata[stepMark] as StepNote | undefined
    if (note === undefined) return moved(step, next, decision)
    const difference = replayAnswer(fence, next, note, transcript, wanted)
    if (difference !== undefined) return { endings: [], difference }
    at += 1
  }
}

/** The recorded card is not what the decision leads to. */
function moved(step: number, next: Card, decision: Decision): Replayed {
  const recorded = { card: next.card_id, type: next.type }
  const { what, ...rest } = decision
  const replayed = { decision: what, ...('code' in rest ? { code: rest.code } : {}) }
  return { endings: [], difference: differenceOf(step, 'the next move', recorded, replayed) }
}

/** Refuses what was refused; sends everything else. */
function recordedToolbox(cards: readonly Card[]): Toolbox {
  const refused = new Map<unknown, { readonly code: string; readonly message: string }>()
  for (const { type, content, metadata } of cards) {
    if (type !== 'tool.result' || metadata['refused'] !== true) continue
    const { tool_call_id: id, error } = objectOf(content)
    const { code, message } = objectOf(error)
    refused.set(id, { code: String(code), message: String(message) })
  }
  return {
    offers: [],
    plan({ toolCallId, name, args }) {
      const refuse = refused.get(toolCallId)
      if (refuse !== undefined) return { refuse }
      // The trail does not have the schemas of tools, but the call matched its own.
      const checked = checkArguments(args, { parameters: {} })
      if ('refuse' in checked) return checked
      return name === builtInNames.askPerson
        ? planQuestion(toolCallId, checked.args)
        : { call: { toolCallId, toolName: name, args: checked.args } }
    },
  }
}

/** The cards of refused calls, then those of sent calls, then results in the order of their arrival. */
function replayCalls(
  fence: Fence,
  { stepId, calls, refused }: Extract<Decision, { readonly what: 'call' }>,
  cards: readonly Card[],
  from: number,
  step: number,
): { readonly at: number; readonly answered: ReadonlySet<unknown>; readonly difference?: Difference | undefined } {
  let at = from
  const answered = new Set<unknown>()
  for (const card of refused.flatMap(({ call, refusal }) => refusedCards(fence, stepId, call, refusal))) {
    const difference = differenceOf(step, 'a refused call', factsOf(cards[at]), {
      type: card.type,
      content: card.content,
      metadata: card.metadata,
    })
    if (difference !== undefined) return { at, answered, difference }
    at += 1
  }
  for (const { toolCallId, toolName, args } of calls) {
    const { tool_call_id: id, tool_name: name, arguments: sent } = objectOf(cards[at]?.content)
    const recorded = { type: cards[at]?.type, id, name, arguments: sent }
    const replayed = { type: 'tool.call', id: toolCallId, name: toolName, arguments: args }
    const difference = differenceOf(step, 'a tool call', recorded, replayed)
    if (difference !== undefined) return { at, answered, difference }
    at += 1
  }
  const sent = new Set<unknown>(calls.map(({ toolCallId }) => toolCallId))
  for (; cards[at]?.type === 'tool.result'; at += 1) {
    const id = objectOf(cards[at]!.content)['tool_call_id']
    if (!sent.has(id)) break
    answered.add(id)
  }
  return { at, answered }
}

const factsOf = (card: Card | undefined) => card && { type: card.type, content: card.content, metadata: card.metadata }

/** The card of a step, made again from the recorded answer of the model. */
function replayAnswer(
  fence: Fence,
  card: Card,
  note: StepNote,
  transcript: Transcript,
  wanted: ReturnType<typeof wantedFields>,
): Difference | undefined {
  const step = transcript.last + 1
  const stepId = stepIdOf(fence, step)
  const { text, thought } = objectOf(card.content)
  const answer = {
    text: typeof text === 'string' ? text : textOf(card.content),
    thought: typeof thought === 'string' ? thought : '',
    finish: note.finish,
    calls: note.calls.map((call) => ({
      id: call.provider_id,
      name: call.name,
      input: call.raw ?? JSON.stringify(call.args ?? {}),
      ...defined({ extra: call.extra }),
    })),
    usage: undefined,
  } as ModelResponse
  const feedback = feedbackOf(answer, transcript, ...asksIn(note, wanted))
  const { estimated, counted, exceeded } = note
  const replayedCard = stepCard(
    fence,
    {
      step,
      step_id: stepId,
      calls: callsOf(stepId, answer.calls),
      finish: answer.finish,
      // Measured, not decided.
      estimated,
      ...defined({ counted, feedback, exceeded }),
    },
    printable(answer.text).trim(),
    printable(answer.thought).trim(),
  )
  return differenceOf(step, 'the answer of the model', factsOf(card), {
    type: replayedCard.type,
    content: replayedCard.content,
    metadata: replayedCard.metadata,
  })
}

/** How the turn had to end and how long an answer might be: the message to the model names both. */
function asksIn({ feedback }: StepNote, wanted: ReturnType<typeof wantedFields>): [string | undefined, number] {
  const tool = /a call of the tool ([\w-]+)\./.exec(feedback?.text ?? '')?.[1]
  const tokens = /cut off at (\d+) tokens/.exec(feedback?.text ?? '')?.[1]
  return [endingOf(tool, wanted).mustEndWith, Number(tokens ?? 0)]
}

/** The last call had no answer: it failed, the budget did not cover it, or something else ended the turn. */
function failedCall(trail: Trail, transcript: Transcript, stepId: string): Replayed {
  const row = trail.steps.find((one) => one.step_id === stepId)
  const ending = endingIn(trail)
  const { message } = row?.metadata ?? {}
  if (row !== undefined && row.error !== null && typeof message === 'string')
    return { endings: [ended(transcript, row.error, message, ending)] }
  // Its time was over during the call.
  return trail.turn.error === budgetExceeded
    ? { endings: [ended(transcript, budgetExceeded, usedUp('time'), ending)] }
    : noEnding
}

/** The degrade action that ended the turn. */
function endingIn({ steps }: Trail): DegradeAction {
  const actions = steps.flatMap(({ metadata }) => (metadata['degraded'] as readonly Degraded[] | undefined) ?? [])
  return actions.findLast(({ action }) => endsTurn(action))?.action ?? 'manual_handoff'
}
