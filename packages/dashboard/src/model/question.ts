/** A question to a person, parsed from a tool call's arguments, and the answer in the expected form. Pure. */
import { isObject, objectOf, parseJson } from '@bellwether/base'
import type { FieldSpec, Question, ToolAnswer } from '../api/types.js'
import { jsonOf } from './text.js'

export interface ParsedQuestion {
  readonly text: string
  readonly instructions: string | null
  readonly to: string | null
  readonly choices: readonly string[]
  readonly fields: readonly FieldSpec[]
  /** Why the last answer was rejected. */
  readonly refused: string | null
}

const text = (value: unknown) => (typeof value === 'string' && value !== '' ? value : null)
// More than a form can hold.
const listMax = 200

export function questionIn(question: Pick<Question, 'arguments'>): ParsedQuestion {
  const raw = question.arguments
  const args = objectOf(raw)
  const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value.slice(0, listMax) : [])
  return {
    text:
      text(args['question']) ??
      text(args['text']) ??
      (typeof raw === 'string' ? raw : jsonOf(raw ?? '(empty question)')),
    instructions: text(args['instructions']),
    to: text(args['to']),
    choices: list(args['choices']).filter((one): one is string => typeof one === 'string'),
    fields: list(args['result_fields']).filter(isField),
    refused: text(args['refused']),
  }
}

function isField(value: unknown): value is FieldSpec {
  return typeof objectOf(value)['name'] === 'string'
}

/** Values by field. A map, because a field may be named `__proto__`. Text and choices are under `text`. */
export type Draft = ReadonlyMap<string, string>
export const words = 'text'

/** The answer to send, or the problems by field. */
export function answerOf(
  parsed: ParsedQuestion,
  draft: Draft,
): { readonly answer: ToolAnswer } | { readonly wrong: Draft } {
  if (parsed.fields.length === 0) {
    const input = (draft.get(words) ?? '').trim()
    if (input === '') return { wrong: new Map([[words, parsed.choices.length > 0 ? 'choose one' : 'enter an answer']]) }
    return { answer: { status: 'success', result: input } }
  }
  const wrong = new Map<string, string>()
  const fields: { name: string; value: unknown }[] = []
  for (const field of parsed.fields) {
    const input = draft.get(field.name) ?? ''
    if (input.trim() === '') {
      if (field.required === true) wrong.set(field.name, 'required')
      continue
    }
    const read = valueOf(field, input)
    if ('wrong' in read) wrong.set(field.name, read.wrong)
    else fields.push({ name: field.name, value: read.value })
  }
  if (wrong.size > 0) return { wrong }
  if (fields.length === 0) return { wrong: new Map([[parsed.fields[0]!.name, 'enter at least one']]) }
  return { answer: { status: 'success', result: { fields } } }
}

function valueOf(field: FieldSpec, input: string): { readonly value: unknown } | { readonly wrong: string } {
  switch (field.type) {
    case 'number':
    case 'integer': {
      const value = Number(input)
      if (!Number.isFinite(value)) return { wrong: 'must be a number' }
      return field.type === 'integer' && !Number.isInteger(value) ? { wrong: 'must be a whole number' } : { value }
    }
    case 'boolean':
      return input === 'true' || input === 'false' ? { value: input === 'true' } : { wrong: 'must be yes or no' }
    case 'array':
    case 'object':
      return json(input, field.type)
    default:
      return { value: input }
  }
}

function json(input: string, type: 'array' | 'object'): { readonly value: unknown } | { readonly wrong: string } {
  const value = parseJson(input)
  const fits = type === 'array' ? Array.isArray(value) : isObject(value)
  return fits ? { value } : { wrong: `must be a JSON ${type}` }
}
