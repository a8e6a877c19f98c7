/** What an agent asks a person, read from a tool call's arguments, and the answer in the shape that is waited for. Pure. */
import type { Answer, FieldSpec, Question } from '../api/types.js'
import { jsonOf } from './text.js'

export interface Asked {
  readonly text: string
  readonly instructions: string | null
  readonly to: string | null
  readonly choices: readonly string[]
  readonly fields: readonly FieldSpec[]
  /** Why the last answer was not taken. */
  readonly refused: string | null
}

const text = (value: unknown) => (typeof value === 'string' && value !== '' ? value : null)
// More of either than this fits no form.
const listMax = 200

export function askedIn(question: Question): Asked {
  const told = question.arguments
  const args = typeof told === 'object' && told !== null ? (told as Record<string, unknown>) : {}
  const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value.slice(0, listMax) : [])
  return {
    text:
      text(args['question']) ?? text(args['text']) ?? (typeof told === 'string' ? told : jsonOf(told ?? '(no words)')),
    instructions: text(args['instructions']),
    to: text(args['to']),
    choices: list(args['choices']).filter((one): one is string => typeof one === 'string'),
    fields: list(args['result_fields']).filter(isField),
    refused: text(args['refused']),
  }
}

function isField(value: unknown): value is FieldSpec {
  return typeof value === 'object' && value !== null && 'name' in value && typeof value.name === 'string'
}

/** By field; a map, because a field may be called `__proto__`. Words and choices are under `text`. */
export type Draft = ReadonlyMap<string, string>
export const words = 'text'

/** The answer to send, or what is missing in it, by field. */
export function answerOf(asked: Asked, draft: Draft): { readonly answer: Answer } | { readonly wrong: Draft } {
  if (asked.fields.length === 0) {
    const said = (draft.get(words) ?? '').trim()
    if (said === '') return { wrong: new Map([[words, asked.choices.length > 0 ? 'choose one' : 'say something']]) }
    return { answer: { status: 'success', result: said } }
  }
  const wrong = new Map<string, string>()
  const fields: { name: string; value: unknown }[] = []
  for (const field of asked.fields) {
    const said = draft.get(field.name) ?? ''
    if (said.trim() === '') {
      if (field.required === true) wrong.set(field.name, 'needed')
      continue
    }
    const read = valueOf(field, said)
    if ('wrong' in read) wrong.set(field.name, read.wrong)
    else fields.push({ name: field.name, value: read.value })
  }
  if (wrong.size > 0) return { wrong }
  if (fields.length === 0) return { wrong: new Map([[asked.fields[0]!.name, 'give at least one']]) }
  return { answer: { status: 'success', result: { fields } } }
}

function valueOf(field: FieldSpec, said: string): { readonly value: unknown } | { readonly wrong: string } {
  switch (field.type) {
    case 'number':
    case 'integer': {
      const value = Number(said)
      if (!Number.isFinite(value)) return { wrong: 'must be a number' }
      return field.type === 'integer' && !Number.isInteger(value) ? { wrong: 'must be a whole number' } : { value }
    }
    case 'boolean':
      return said === 'true' || said === 'false' ? { value: said === 'true' } : { wrong: 'must be yes or no' }
    case 'array':
    case 'object':
      return json(said, field.type)
    default:
      return { value: said }
  }
}

function json(said: string, type: 'array' | 'object'): { readonly value: unknown } | { readonly wrong: string } {
  try {
    const value: unknown = JSON.parse(said)
    const fits =
      type === 'array' ? Array.isArray(value) : typeof value === 'object' && value !== null && !Array.isArray(value)
    return fits ? { value } : { wrong: `must be a JSON ${type}` }
  } catch {
    return { wrong: `must be a JSON ${type}` }
  }
}
