/**
 * Decides whether a submitted result is complete. The result comes with a `submit_result` call, which ends the turn (T4.4), or as
 * a person's answer. Pure: callers act on the verdict. The kernel checks the required fields again on delivery (T4.2a).
 */
import { isObject, objectOf } from '@bellwether/base'
import type { FieldSpec } from '../kernel/verbs/cards.js'
import type { Delivery } from '../kernel/verbs/turn/deliver.js'
import type { ToolCall } from '../kernel/verbs/turn/suspend.js'
import type { ToolOffer } from '../ports/model/model.js'

export const submitResultName = 'submit_result'

/** Give up after three rejected submissions. */
export const refusalsMax = 3

export interface Refusal {
  readonly code: string
  /** What is wrong and what to do about it, for the agent to read. */
  readonly message: string
}

interface ResultRefusal extends Refusal {
  readonly code: 'not_the_only_call' | 'not_a_result' | 'missing_fields' | 'wrong_type'
  readonly fields: readonly string[]
}

export type ResultVerdict = { readonly deliver: Delivery['content'] } | { readonly refuse: ResultRefusal }

export type Submission =
  | { readonly deliver: Delivery['content'] }
  /** `call` is the first `submit_result` call; `refusalOf` covers every call of the step, because none of them is sent. */
  | { readonly refuse: ResultRefusal; readonly call: ToolCall; readonly refusalOf: (toolName: string) => Refusal }

type Field = { readonly name: string; readonly value: unknown }

const notCalled: Refusal = {
  code: 'not_called',
  message: `not called, because ${submitResultName} must be the only call in its step`,
}

/** The verdict on a step. Undefined if the step does not call `submit_result`. */
export function decideSubmission(calls: readonly ToolCall[], wanted: readonly FieldSpec[]): Submission | undefined {
  const call = calls.find((one) => one.toolName === submitResultName)
  if (call === undefined) return undefined
  const verdict =
    calls.length > 1
      ? refusal('not_the_only_call', `${submitResultName} ends the turn and must be the only call in its step`)
      : decideResult(call.args, wanted)
  if ('deliver' in verdict) return verdict
  const { refuse } = verdict
  return { refuse, call, refusalOf: (toolName) => (toolName === submitResultName ? refuse : notCalled) }
}

/** The verdict on `{text}` or `{fields}`, given the fields that the task wants. */
export function decideResult(result: unknown, wanted: readonly FieldSpec[]): ResultVerdict {
  const { text, fields } = contentOf(result)
  if (text === undefined && fields === undefined)
    return refusal('not_a_result', `${submitResultName} takes {"text": "…"} or {"fields": [{"name": "…", "value": …}]}`)
  const values = new Map((fields ?? []).map((field) => [field.name, field.value]))
  const valueOf = ({ name }: FieldSpec) => values.get(name) ?? null
  const missing = wanted.filter((spec) => spec.required === true && valueOf(spec) === null)
  if (missing.length > 0) {
    const names = missing.map((spec) => spec.name)
    return refusal('missing_fields', `required fields are missing: ${names.join(', ')}`, names)
  }
  const wrong = wanted.filter((spec) => valueOf(spec) !== null && !hasType(valueOf(spec), spec.type))
  if (wrong.length > 0) {
    const messages = wrong.map((spec) => `${spec.name} must be of type ${spec.type}`)
    return refusal(
      'wrong_type',
      messages.join('; '),
      wrong.map((spec) => spec.name),
    )
  }
  return { deliver: fields === undefined ? { text: text ?? '' } : { fields } }
}

function refusal(code: ResultRefusal['code'], message: string, fields: readonly string[] = []) {
  return { refuse: { code, message, fields } }
}

/** The error of a turn that ends because its submissions were rejected. */
export const submissionError = (code: string) => `${submitResultName}_${code}`

/** The ending of a turn whose deliverable the kernel rejected because required fields are missing (T4.2a). */
export function incomplete(missing: readonly string[]) {
  return {
    deliver: { text: `The result lacks required fields: ${missing.join(', ')}.` },
    status: 'failed' as const,
    error: 'missing_result_fields',
  }
}

/** The fields that a context box asks for: those of its last `task.result_fields` card. */
export function wantedFields(context: readonly { readonly type: string; readonly content: unknown }[]): FieldSpec[] {
  const card = context.findLast((one) => one.type === 'task.result_fields')
  const { fields } = objectOf(card?.content)
  return Array.isArray(fields) ? fields.filter(isNamed) : []
}

/** The wanted fields that an object holds under their names. */
export function fieldsByName(object: Readonly<Record<string, unknown>>, wanted: readonly FieldSpec[]): Field[] {
  return wanted
    .filter(({ name }) => Object.hasOwn(object, name))
    .map(({ name }) => ({ name, value: object[name] ?? null }))
}

/** How a model must end its turn: an agent file may name a tool; without one, required fields ask for `submit_result`. */
export function endingOf(mustEndWith: string | undefined, wanted: readonly FieldSpec[]) {
  const required = wanted.some((field) => field.required === true)
  const tool = mustEndWith ?? (required ? submitResultName : undefined)
  return { mustEndWith: tool, offersSubmit: wanted.length > 0 || tool === submitResultName }
}

/** `submit_result` as a model sees it. */
export const submitOffer: ToolOffer = {
  name: submitResultName,
  description:
    'Ends your work with its result. Call it once, alone, when everything is done: with text, or with the requested fields.',
  parameters: {
    type: 'object',
    properties: {
      text: { type: 'string', description: 'The result as text, if the task asks for no fields.' },
      fields: {
        type: 'array',
        description: 'The fields that the task asks for, each with its value.',
        items: {
          type: 'object',
          properties: { name: { type: 'string' }, value: { description: 'A value of the type that the field has.' } },
          required: ['name', 'value'],
        },
      },
    },
  },
}

function contentOf(args: unknown): { text: string | undefined; fields: Field[] | undefined } {
  const { text, fields } = objectOf(args)
  const listed = Array.isArray(fields) && fields.every(isNamed)
  return {
    text: typeof text === 'string' ? text : undefined,
    fields: listed ? fields.map(({ name, value }: Field) => ({ name, value: value ?? null })) : undefined,
  }
}

function isNamed(value: unknown): value is Field {
  return typeof objectOf(value)['name'] === 'string'
}

/** A type that is not in this list accepts every value. */
function hasType(value: unknown, type: string | undefined): boolean {
  switch (type) {
    case 'string':
    case 'number':
    case 'boolean':
      return typeof value === type
    case 'integer':
      return Number.isInteger(value)
    case 'array':
      return Array.isArray(value)
    case 'object':
      return isObject(value)
    default:
      return true
  }
}
