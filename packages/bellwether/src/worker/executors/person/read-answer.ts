/**
 * Reads a person's answer: the fields that the task wants, one of the choices, or any text. Pure. A rejected answer comes with a
 * reason that the person can act on.
 */
import { objectOf } from '@bellwether/base'
import type { FieldSpec } from '../../../kernel/verbs/cards.js'
import type { Delivery } from '../../../kernel/verbs/turn/deliver.js'
import { decideResult, fieldsByName } from '../../submit-result.js'

export type AnswerVerdict = { readonly accepted: Delivery['content'] } | { readonly rejected: string }

/** Accepts text, {text}, {choice}, {fields: [{name, value}]}, or an object with the fields' names. */
export function readAnswer(result: unknown, wanted: readonly FieldSpec[], choices: readonly string[]): AnswerVerdict {
  if (wanted.length > 0) return readFields(result, wanted)
  const text = answerText(result)?.trim()
  if (text === undefined || text === '') return { rejected: 'the answer is empty: answer with text' }
  if (choices.length === 0) return { accepted: { text } }
  const choice = choices.find((one) => one === text) ?? choices.find((one) => one.toLowerCase() === text.toLowerCase())
  if (choice === undefined) return { rejected: `the answer must be one of: ${choices.join(', ')}` }
  return { accepted: { text: choice } }
}

function readFields(result: unknown, wanted: readonly FieldSpec[]): AnswerVerdict {
  const object = objectOf(result)
  const named = fieldsByName(object, wanted)
  // A wanted field may itself be called `fields`: a list of named fields has precedence.
  const listed =
    Array.isArray(object['fields']) && object['fields'].every((one) => typeof objectOf(one)['name'] === 'string')
  const names = wanted.map(({ name, required }) => (required === true ? `${name} (required)` : name)).join(', ')
  if (!listed && named.length === 0) return { rejected: `the answer must have these fields: ${names}` }
  const verdict = decideResult({ fields: listed ? object['fields'] : named }, wanted)
  if ('refuse' in verdict) return { rejected: `${verdict.refuse.message}; the fields are: ${names}` }
  return { accepted: verdict.deliver }
}

function answerText(result: unknown): string | undefined {
  if (typeof result === 'string') return result
  if (typeof result === 'number' || typeof result === 'boolean') return String(result)
  const { text, choice, answer } = objectOf(result)
  const found = [text, choice, answer].find((one) => typeof one === 'string')
  if (found !== undefined) return found as string
  if (result === null || result === undefined) return undefined
  const json = JSON.stringify(result)
  return json === '{}' || json === '[]' ? undefined : json
}
