/**
 * What an answer of a model means, and how a turn goes on from where its story stands. Pure: one decision, which whoever reads the
 * same cards makes again. What a model writes decides nothing but the calls it makes by name and the text it ends with.
 */
import { InvalidInput } from '@bellwether/protocol'
import type { FieldSpec } from '../../../kernel/verbs/cards.js'
import { cardMaxBytes, storable } from '../../../kernel/content.js'
import type { Delivery } from '../../../kernel/verbs/turn/deliver.js'
import type { ToolCall } from '../../../kernel/verbs/turn/suspend.js'
import type { RawToolCall, ModelResponse } from '../../../ports/model/model.js'
import { decideSubmission, submitResultName } from '../../submit-result.js'
import type { Toolbox, ToolPlan } from '../../tools/tool.js'
import { callIdAt, type StepCall, type StepNote, type Story, type StoryStep } from './transcript.js'

/** A model that made the same mistake this often in a row will make it again; and one that made others, a little later. */
const sameFaultsMax = 3
export const faultsMax = 5
const rawMaxChars = 2_000
const extraMaxChars = 16_384

// oxlint-disable-next-line no-control-regex
const controls = /[\u0000-\u0008\u000B\u000C\u000E-\u001F\u007F]/g

/** Text that can be stored and read whatever it holds. */
export const printable = (text: string) => text.replace(controls, '').toWellFormed()

/** The calls of an answer as its card keeps them. */
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

/** Undefined: no JSON object that can be kept. */
function parsed(input: string): unknown {
  if (input.trim() === '') return {}
  try {
    const value = JSON.parse(input) as unknown
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
    storable(value, 'the arguments', cardMaxBytes)
    return value
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof InvalidInput) return undefined
    throw error
  }
}

function extraOf({ extra }: RawToolCall): Pick<StepCall, 'extra'> {
  if (extra === undefined) return {}
  const text = JSON.stringify(extra)
  return text.length <= extraMaxChars && printable(text) === text ? { extra } : {}
}

/** What the model must be told about an answer that is none. */
export function toldOf(
  answer: ModelResponse,
  story: Story,
  mustEndWith: string | undefined,
  maxOutputTokens: number,
): StepNote['told'] {
  if (answer.calls.length > 0) return undefined
  if (answer.finish === 'length') {
    const text = `Your answer was cut off at ${maxOutputTokens} tokens and cannot be used. Answer again, shorter.`
    return { code: 'model_answer_cut', text }
  }
  if (answer.text.trim() === '')
    return { code: 'model_empty_answer', text: 'Your answer was empty. Call a tool, or answer in words.' }
  if (mustEndWith !== undefined && !endedWith(story, mustEndWith)) {
    const text = `This is not over until you have called the tool ${mustEndWith}. Call it now, alone.`
    return { code: 'must_end_with_missing', text }
  }
  return undefined
}

/** The tool that ends a turn was called, and the last such call went well. */
function endedWith(story: Story, tool: string): boolean {
  for (const { note, results } of story.steps.toReversed()) {
    const call = note.calls.findLast(({ name }) => name === tool)
    if (call === undefined) continue
    const { status } = (results.get(call.id)?.content ?? {}) as { readonly status?: string }
    return status === 'success' || status === 'partial'
  }
  return false
}

export type Decision =
  | { readonly what: 'think' }
  | { readonly what: 'deliver'; readonly content: Delivery['content'] }
  | { readonly what: 'fail'; readonly code: string; readonly message: string }
  | {
      readonly what: 'call'
      readonly stepId: string
      readonly calls: readonly ToolCall[]
      readonly refused: readonly {
        readonly call: StepCall
        readonly why: { readonly code: string; readonly message: string }
      }[]
    }

export interface Standing {
  readonly story: Story
  readonly toolbox: Toolbox
  readonly wanted: readonly FieldSpec[]
  readonly maxSteps: number
}

export function decide({ story, toolbox, wanted, maxSteps }: Standing): Decision {
  const last = story.steps.at(-1)
  if (story.exceeded) return { what: 'fail', code: 'budget_exceeded', message: 'Its last call crossed the budget' }
  if (last !== undefined) {
    if (last.note.finish === 'content_filter')
      return { what: 'fail', code: 'model_content_filter', message: "The model's provider withheld the answer" }
    const open = last.note.calls.filter(({ id }) => !last.results.has(id) && !last.sent.has(id))
    if (open.length > 0) return called(last, open, toolbox, wanted)
    if (last.note.calls.length === 0 && last.note.told === undefined)
      return { what: 'deliver', content: { text: last.text } }
    const stuck = faultsIn(story)
    if (stuck !== undefined) return stuck
  }
  if (story.last >= maxSteps)
    return {
      what: 'fail',
      code: 'max_steps',
      message: `It had not ended after ${story.last} steps, which is all it may make`,
    }
  return { what: 'think' }
}

function called(step: StoryStep, open: readonly StepCall[], toolbox: Toolbox, wanted: readonly FieldSpec[]): Decision {
  const asCall = ({ id, name, args }: StepCall): ToolCall => ({ toolCallId: id, toolName: name, args })
  const submission = decideSubmission(step.note.calls.map(asCall), wanted)
  if (submission !== undefined) {
    if ('deliver' in submission) return { what: 'deliver', content: submission.deliver }
    const { code, message } = submission.refuse
    const other = { code: 'not_called', message: `not called, because ${submitResultName} was called beside it` }
    const refused = open.map((call) => ({ call, why: call.name === submitResultName ? { code, message } : other }))
    return { what: 'call', stepId: step.note.step_id, calls: [], refused }
  }
  const plans = open.map((call) => [call, planOf(toolbox, call)] as const)
  return {
    what: 'call',
    stepId: step.note.step_id,
    calls: plans.flatMap(([, plan]) => ('call' in plan ? [plan.call] : [])),
    refused: plans.flatMap(([call, plan]) => ('refuse' in plan ? [{ call, why: plan.refuse }] : [])),
  }
}

function planOf(toolbox: Toolbox, call: StepCall): ToolPlan {
  if (call.raw !== undefined)
    return {
      refuse: { code: 'invalid_arguments', message: 'the arguments are not one JSON object that can be stored' },
    }
  return toolbox.plan({ toolCallId: call.id, name: call.name, args: call.args ?? {} })
}

interface Outcome {
  readonly status?: string
  readonly error?: { readonly code?: string; readonly message?: string }
}

/** The code and words of what is wrong with a step; undefined: something came of it. */
export function faultOf({ note, results }: StoryStep): { readonly code: string; readonly message: string } | undefined {
  if (note.told !== undefined) return { code: note.told.code, message: note.told.text }
  const refusals = note.calls.map(({ id, name }) => {
    const card = results.get(id)
    if (card?.metadata['refused'] !== true) return undefined
    const { code = 'refused', message = '' } = ((card.content ?? {}) as Outcome).error ?? {}
    const named = name === submitResultName ? `submit_result_${code}` : 'tool_calls_refused'
    return { code: named, message: `${name}: ${message}` }
  })
  return refusals.length > 0 && refusals.every((one) => one !== undefined) ? refusals[0] : undefined
}

function faultsIn({ steps, faults }: Story): Decision | undefined {
  const last = steps.length === 0 ? undefined : faultOf(steps.at(-1)!)
  if (last === undefined) return undefined
  const codes = [...faults, ...steps.map((step) => faultOf(step)?.code ?? null)]
  const same = codes.length - 1 - codes.findLastIndex((code) => code !== last.code)
  const any = codes.length - 1 - codes.lastIndexOf(null)
  if (same < sameFaultsMax && any < faultsMax) return undefined
  return {
    what: 'fail',
    code: last.code,
    message: `${any} answers in a row could not be used. The last: ${last.message}`,
  }
}
