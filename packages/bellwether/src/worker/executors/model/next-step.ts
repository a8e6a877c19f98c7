/**
 * Decides the next step of a model's turn from its transcript. Pure: the same cards give the same decision, so that a takeover
 * repeats it. A model's output decides only which tools it calls by name and with which text it ends.
 */
import { isObject, parseJson } from '@bellwether/base'
import { InvalidInput, budgetExceeded } from '@bellwether/protocol'
import type { FieldSpec } from '../../../kernel/verbs/cards.js'
import { cardMaxBytes, storable } from '../../../kernel/content.js'
import type { Delivery } from '../../../kernel/verbs/turn/deliver.js'
import type { ToolCall } from '../../../kernel/verbs/turn/suspend.js'
import type { RawToolCall, ModelResponse } from '../../../ports/model/model.js'
import { decideSubmission, refusalsMax, submissionError, submitResultName, type Refusal } from '../../submit-result.js'
import type { Toolbox, ToolPlan } from '../../tools/tool.js'
import { noProgress, repeatsOf } from '../repeats.js'
import { callIdAt, type StepCall, type StepNote, type Transcript, type TranscriptStep } from './transcript.js'

/** Give up after five unusable answers in a row, or after `refusalsMax` with the same fault. */
export const faultsMax = 5
const rawMaxChars = 2_000
const extraMaxChars = 16_384

// oxlint-disable-next-line no-control-regex
const controls = /[\u0000-\u0008\u000B\u000C\u000E-\u001F\u007F]/g

/** The text without characters that cannot be stored. */
export const printable = (text: string) => text.replace(controls, '').toWellFormed()

/** The calls of an answer, as its card stores them. */
export function callsOf(stepId: string, calls: readonly RawToolCall[]): StepCall[] {
  return calls.map((call, index) => {
    const named = {
      id: callIdAt(stepId, index),
      provider_id: /^[\w-]{1,64}$/.test(call.id) ? call.id : '',
      name: printable(call.name).slice(0, 200),
      ...extraOf(call),
    }
    const args = parsed(call.input)
    return args === undefined ? { ...named, raw: printable(call.input).slice(0, rawMaxChars) } : { ...named, args }
  })
}

/** The arguments. Undefined if they are not a JSON object that can be stored. */
function parsed(input: string): unknown {
  if (input.trim() === '') return {}
  const value = parseJson(input)
  if (!isObject(value)) return undefined
  try {
    storable(value, 'the arguments', cardMaxBytes)
    return value
  } catch (error) {
    if (error instanceof InvalidInput) return undefined
    throw error
  }
}

function extraOf({ extra }: RawToolCall): Pick<StepCall, 'extra'> {
  if (extra === undefined) return {}
  const text = JSON.stringify(extra)
  return text.length <= extraMaxChars && printable(text) === text ? { extra } : {}
}

/** The message to the model about an answer that cannot be used. Undefined if it can. */
export function feedbackOf(
  response: ModelResponse,
  transcript: Transcript,
  mustEndWith: string | undefined,
  maxOutputTokens: number,
): StepNote['feedback'] {
  if (response.calls.length > 0) return undefined
  if (response.finish === 'length') {
    const text = `Your answer was cut off at ${maxOutputTokens} tokens and cannot be used. Give a shorter answer.`
    return { code: 'model_answer_cut', text }
  }
  if (response.text.trim() === '')
    return { code: 'model_empty_answer', text: 'Your answer was empty. Call a tool or answer with text.' }
  if (mustEndWith !== undefined && !endedWith(transcript, mustEndWith)) {
    const text = `The task must end with a call of the tool ${mustEndWith}. Call it now, as the only call.`
    return { code: 'must_end_with_missing', text }
  }
  return undefined
}

/** Whether the last call of the tool succeeded. */
function endedWith(transcript: Transcript, tool: string): boolean {
  for (const { note, results } of transcript.steps.toReversed()) {
    const call = note.calls.findLast(({ name }) => name === tool)
    if (call === undefined) continue
    const { status } = (results.get(call.id)?.content ?? {}) as { readonly status?: string }
    return status === 'success' || status === 'partial'
  }
  return false
}

export type Decision =
  | { readonly what: 'ask_model' }
  | { readonly what: 'deliver'; readonly content: Delivery['content'] }
  | { readonly what: 'fail'; readonly code: string; readonly message: string }
  | {
      readonly what: 'call'
      readonly stepId: string
      readonly calls: readonly ToolCall[]
      readonly refused: readonly { readonly call: StepCall; readonly refusal: Refusal }[]
    }

export interface Situation {
  readonly transcript: Transcript
  readonly toolbox: Toolbox
  readonly wanted: readonly FieldSpec[]
  readonly maxSteps: number
  readonly maxRepeats: number
}

export function nextStep({ transcript, toolbox, wanted, maxSteps, maxRepeats }: Situation): Decision {
  const last = transcript.steps.at(-1)
  if (transcript.exceeded)
    return { what: 'fail', code: budgetExceeded, message: 'The last model call exceeded the budget' }
  if (last !== undefined) {
    if (last.note.finish === 'content_filter')
      return {
        what: 'fail',
        code: 'model_content_filter',
        message: "The model's provider blocked the answer (content filter)",
      }
    const open = last.note.calls.filter(({ id }) => !last.results.has(id) && !last.sent.has(id))
    if (open.length > 0) return callTools(last, open, toolbox, wanted)
    const isAsked = transcript.messages.some(({ after }) => after >= last.note.step)
    if (last.note.calls.length === 0 && last.note.feedback === undefined && !isAsked)
      return { what: 'deliver', content: { text: last.text } }
    const failed = tooManyFaults(transcript)
    if (failed !== undefined) return failed
    const repeats = repeatsOf(transcript.exchanges)
    if (repeats >= maxRepeats) {
      const names = [...new Set(last.note.calls.map(({ name }) => name))].join(', ')
      const message = `The agent made no progress: it repeated the same tool calls ${repeats} times with the same results. The last: ${names}`
      return { what: 'fail', code: noProgress, message }
    }
  }
  if (transcript.last >= maxSteps)
    return {
      what: 'fail',
      code: 'max_steps',
      message: `The turn did not end within its limit of ${transcript.last} steps`,
    }
  return { what: 'ask_model' }
}

function callTools(
  step: TranscriptStep,
  open: readonly StepCall[],
  toolbox: Toolbox,
  wanted: readonly FieldSpec[],
): Decision {
  const asCall = ({ id, name, args }: StepCall): ToolCall => ({ toolCallId: id, toolName: name, args })
  const submission = decideSubmission(step.note.calls.map(asCall), wanted)
  if (submission !== undefined) {
    if ('deliver' in submission) return { what: 'deliver', content: submission.deliver }
    const refused = open.map((call) => ({ call, refusal: submission.refusalOf(call.name) }))
    return { what: 'call', stepId: step.note.step_id, calls: [], refused }
  }
  const plans = open.map((call) => [call, planOf(toolbox, call)] as const)
  return {
    what: 'call',
    stepId: step.note.step_id,
    calls: plans.flatMap(([, plan]) => ('call' in plan ? [plan.call] : [])),
    refused: plans.flatMap(([call, plan]) => ('refuse' in plan ? [{ call, refusal: plan.refuse }] : [])),
  }
}

function planOf(toolbox: Toolbox, call: StepCall): ToolPlan {
  if (call.raw !== undefined)
    return {
      refuse: { code: 'invalid_arguments', message: 'the arguments must be one JSON object that can be stored' },
    }
  return toolbox.plan({ toolCallId: call.id, name: call.name, args: call.args ?? {} })
}

interface Outcome {
  readonly status?: string
  readonly error?: { readonly code?: string; readonly message?: string }
}

/** Why a step was of no use. Undefined if it made progress. */
export function faultOf({ note, results }: TranscriptStep): Refusal | undefined {
  if (note.feedback !== undefined) return { code: note.feedback.code, message: note.feedback.text }
  const refusals = note.calls.map(({ id, name }) => {
    const card = results.get(id)
    if (card?.metadata['refused'] !== true) return undefined
    const { code = 'refused', message = '' } = ((card.content ?? {}) as Outcome).error ?? {}
    const fault = name === submitResultName ? submissionError(code) : 'tool_calls_refused'
    return { code: fault, message: `${name}: ${message}` }
  })
  return refusals.length > 0 && refusals.every((refusal) => refusal !== undefined) ? refusals[0] : undefined
}

function tooManyFaults({ steps, faults }: Transcript): Decision | undefined {
  const last = steps.length === 0 ? undefined : faultOf(steps.at(-1)!)
  if (last === undefined) return undefined
  const codes = [...faults, ...steps.map((step) => faultOf(step)?.code ?? null)]
  const same = codes.length - 1 - codes.findLastIndex((code) => code !== last.code)
  const any = codes.length - 1 - codes.lastIndexOf(null)
  if (same < refusalsMax && any < faultsMax) return undefined
  return { what: 'fail', code: last.code, message: `${any} unusable answers in a row. The last: ${last.message}` }
}
