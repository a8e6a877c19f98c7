/**
 * Whether an answer is one: the fields that the task asked for, one of the choices, or any words at all. Pure. What is refused is
 * refused with a reason that its author can act on.
 */
import type { FieldSpec } from '../../../kernel/verbs/cards.js'
import type { Delivery } from '../../../kernel/verbs/turn/deliver.js'
import { decideSubmission, submitResultName } from '../../submit-result.js'
import { objectOf } from './asks.js'

export type Judgement = { readonly good: Delivery['content'] } | { readonly refused: string }

/** People say it as it comes: words, {text}, {choice}, {fields: [{name, value}]}, or an object with the fields' names. */
export function judge(result: unknown, wanted: readonly FieldSpec[], choices: readonly string[]): Judgement {
  if (wanted.length > 0) return judgeFields(result, wanted)
  const text = wordsOf(result)?.trim()
  if (text === undefined || text === '') return { refused: 'the answer is empty: say it in words, as text' }
  if (choices.length === 0) return { good: { text } }
  const choice = choices.find((one) => one === text) ?? choices.find((one) => one.toLowerCase() === text.toLowerCase())
  if (choice === undefined) return { refused: `the answer must be one of: ${choices.join(', ')}` }
  return { good: { text: choice } }
}

function judgeFields(result: unknown, wanted: readonly FieldSpec[]): Judgement {
  const given = objectOf(result)
  const named = wanted.filter(({ name }) => Object.hasOwn(given, name))
  // A field may itself be called `fields`: a list of named ones comes first.
  const listed =
    Array.isArray(given['fields']) && given['fields'].every((one) => typeof objectOf(one)['name'] === 'string')
  const fields = listed ? given['fields'] : named.map(({ name }) => ({ name, value: given[name] }))
  const names = wanted.map(({ name, required }) => (required === true ? `${name} (required)` : name)).join(', ')
  if (!listed && named.length === 0) return { refused: `the answer must give these fields: ${names}` }
  const call = { toolCallId: 'answer', toolName: submitResultName, args: { fields } }
  const submission = decideSubmission([call], wanted)
  if (submission === undefined || 'refuse' in submission)
    return { refused: `${submission?.refuse.message ?? 'no answer'}; the fields are: ${names}` }
  return { good: submission.deliver }
}

function wordsOf(result: unknown): string | undefined {
  if (typeof result === 'string') return result
  if (typeof result === 'number' || typeof result === 'boolean') return String(result)
  const { text, choice, answer } = objectOf(result)
  const said = [text, choice, answer].find((one) => typeof one === 'string')
  if (said !== undefined) return said as string
  if (result === null || result === undefined) return undefined
  const json = JSON.stringify(result)
  return json === '{}' || json === '[]' ? undefined : json
}
