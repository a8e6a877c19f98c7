/**
 * `submit_result`, the call by which a model ends its turn (T4.4). Built into the worker: it is in no roster, never becomes a
 * tool command, and must be the only call of its step. Pure: given the calls and the fields that the task asked for, it says
 * what to deliver, or why not, in words that the agent can act on. The kernel checks required fields once more on delivery.
 */
import type { FieldSpec } from '../kernel/verbs/cards.js'
import type { Delivery } from '../kernel/verbs/turn/deliver.js'
import type { ToolCall } from '../kernel/verbs/turn/suspend.js'

export const submitResultName = 'submit_result'

export interface SubmissionRefusal {
  readonly code: 'not_the_only_call' | 'not_a_result' | 'missing_fields' | 'wrong_type'
  /** What is wrong and what to do about it, for the agent to read. */
  readonly message: string
  readonly fields: readonly string[]
}

export type Submission =
  | { readonly deliver: Delivery['content'] }
  | { readonly refuse: SubmissionRefusal; readonly call: ToolCall }

type Field = { readonly name: string; readonly value: unknown }

/** Undefined: this step submits nothing. */
export function decideSubmission(calls: readonly ToolCall[], wanted: readonly FieldSpec[]): Submission | undefined {
  const call = calls.find((one) => one.toolName === submitResultName)
  if (call === undefined) return undefined
  const refuse = (code: SubmissionRefusal['code'], message: string, fields: readonly string[] = []): Submission => ({
    refuse: { code, message, fields },
    call,
  })
  if (calls.length > 1) {
    return refuse('not_the_only_call', `${submitResultName} ends the turn: call it alone, in a step of its own`)
  }
  const { text, fields } = contentOf(call.args)
  if (text === undefined && fields === undefined) {
    return refuse('not_a_result', `${submitResultName} takes {"text": "…"} or {"fields": [{"name": "…", "value": …}]}`)
  }
  const given = new Map((fields ?? []).map((field) => [field.name, field.value]))
  const missing = wanted.filter((spec) => spec.required === true && (given.get(spec.name) ?? null) === null)
  if (missing.length > 0) {
    const names = missing.map((spec) => spec.name)
    return refuse('missing_fields', `required fields are missing: ${names.join(', ')}`, names)
  }
  const wrong = wanted.filter(
    (spec) => (given.get(spec.name) ?? null) !== null && !fits(given.get(spec.name), spec.type),
  )
  if (wrong.length > 0) {
    const said = wrong.map((spec) => `${spec.name} must be of type ${spec.type}`)
    const names = wrong.map((spec) => spec.name)
    return refuse('wrong_type', said.join('; '), names)
  }
  return { deliver: fields === undefined ? { text: text ?? '' } : { fields } }
}

/** The fields that a context box asks for: the last task.result_fields card speaks. */
export function wantedFields(context: readonly { readonly type: string; readonly content: unknown }[]): FieldSpec[] {
  const card = context.findLast((one) => one.type === 'task.result_fields')
  const { fields } = objectOf(card?.content)
  return Array.isArray(fields) ? fields.filter(isNamed) : []
}

function contentOf(args: unknown): { text: string | undefined; fields: Field[] | undefined } {
  const { text, fields } = objectOf(args)
  const listed = Array.isArray(fields) && fields.every(isNamed)
  return {
    text: typeof text === 'string' ? text : undefined,
    fields: listed ? fields.map(({ name, value }: Field) => ({ name, value: value ?? null })) : undefined,
  }
}

function objectOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {}
}

function isNamed(value: unknown): value is Field {
  return typeof objectOf(value).name === 'string'
}

/** A type that nobody knows constrains nothing. */
function fits(value: unknown, type: string | undefined): boolean {
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
      return typeof value === 'object' && value !== null && !Array.isArray(value)
    default:
      return true
  }
}
