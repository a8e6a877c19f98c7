import { expect, it } from 'vitest'
import type { FieldSpec } from '../kernel/verbs/cards.js'
import { decideSubmission, endingOf, fieldsByName, wantedFields } from './submit-result.js'

const submit = (args: unknown) => ({ toolCallId: 'c', toolName: 'submit_result', args })
const grep = { toolCallId: 'd', toolName: 'grep', args: {} }
const wanted = [
  { name: 'title', required: true, type: 'string' },
  { name: 'count', type: 'integer' },
]
const fields = (...pairs: [string, unknown][]) => ({ fields: pairs.map(([name, value]) => ({ name, value })) })
const whole = fields(['title', 'x'], ['count', 3])
const withNull = fields(['title', 'x'], ['count', null])
const refused = (code: string, ...names: string[]) => ({ refuse: { code, fields: names }, call: { toolCallId: 'c' } })

type Row = [title: string, calls: ReturnType<typeof submit>[], wanted: FieldSpec[], verdict: object | undefined]
const rows: Row[] = [
  ['ignores a step without submit_result', [grep], wanted, undefined],
  ['delivers text if no fields are wanted', [submit({ text: 'x' })], [], { deliver: { text: 'x' } }],
  [
    'delivers fields that include the required ones',
    [submit(fields(['title', 'x']))],
    wanted,
    { deliver: fields(['title', 'x']) },
  ],
  ['delivers fields of the right types', [submit(whole)], wanted, { deliver: whole }],
  ['delivers fields that are not wanted', [submit(fields(['a', { b: 1 }]))], [], { deliver: fields(['a', { b: 1 }]) }],
  ['delivers an optional field that is null', [submit(withNull)], wanted, { deliver: withNull }],
  [
    'delivers a field of an unknown type',
    [submit(fields(['when', 'soon']))],
    [{ name: 'when', type: 'date', required: true }],
    { deliver: fields(['when', 'soon']) },
  ],
  ['refuses submit_result beside another call', [submit(whole), grep], wanted, refused('not_the_only_call')],
  [
    'refuses two submit_result calls in one step',
    [submit({ text: 'a' }), submit({ text: 'b' })],
    [],
    refused('not_the_only_call'),
  ],
  ['refuses text if fields are required', [submit({ text: 'x' })], wanted, refused('missing_fields', 'title')],
  [
    'refuses a required field that is null',
    [submit(fields(['title', null]))],
    wanted,
    refused('missing_fields', 'title'),
  ],
  ['refuses a number for a string', [submit(fields(['title', 7]))], wanted, refused('wrong_type', 'title')],
  [
    'refuses a fraction for an integer',
    [submit(fields(['title', 'x'], ['count', 1.5]))],
    wanted,
    refused('wrong_type', 'count'),
  ],
  [
    'refuses a list for an object',
    [submit(fields(['o', []]))],
    [{ name: 'o', type: 'object' }],
    refused('wrong_type', 'o'),
  ],
  [
    'refuses an object for a list',
    [submit(fields(['l', {}]))],
    [{ name: 'l', type: 'array' }],
    refused('wrong_type', 'l'),
  ],
  ['refuses missing arguments', [submit(undefined)], [], refused('not_a_result')],
  ['refuses arguments of another shape', [submit({ fields: { title: 'x' } })], [], refused('not_a_result')],
  ['refuses fields without names', [submit({ fields: [{ value: 1 }] })], [], refused('not_a_result')],
]

/** A verdict without the texts of its refusal. */
function withoutTexts(decided: ReturnType<typeof decideSubmission>) {
  if (decided === undefined || 'deliver' in decided) return decided
  const { code, fields } = decided.refuse
  return { refuse: { code, fields }, call: { toolCallId: decided.call.toolCallId } }
}

it.each(rows)('[T4.4] [T4.2a] %s', (_title, calls, specs, verdict) => {
  const decided = decideSubmission(calls, specs)
  expect(withoutTexts(decided)).toEqual(verdict)
})

it('[T4.4] gives every call of a rejected step its own refusal', () => {
  const decided = decideSubmission([submit(whole), grep], wanted)
  const refusalOf = decided !== undefined && 'refuse' in decided ? decided.refusalOf : undefined
  expect(refusalOf?.('submit_result').code).toBe('not_the_only_call')
  expect(refusalOf?.('grep').code).toBe('not_called')
})

it('[T4.4] reads the wanted fields from the last task.result_fields card, and none from a broken card', () => {
  const card = (content: unknown) => ({ type: 'task.result_fields', content })
  const instruction = { type: 'task.instruction', content: {} }
  expect(wantedFields([card({ fields: [{ name: 'old' }] }), instruction, card({ fields: wanted })])).toEqual(wanted)
  for (const broken of [null, [], 'x', { fields: 'x' }, { fields: [1, null, { name: 2 }] }])
    expect(wantedFields([card(broken)])).toEqual([])
  expect(wantedFields([])).toEqual([])
})

it('[T4.4] takes the wanted fields of an object by name, and null for an undefined value', () => {
  expect(fieldsByName({ title: 'x', count: undefined, other: 1 }, wanted)).toEqual(withNull.fields)
})

it.each([
  ['nothing', undefined, [], { mustEndWith: undefined, offersSubmit: false }],
  ['an optional field', undefined, [{ name: 'a' }], { mustEndWith: undefined, offersSubmit: true }],
  ['a required field', undefined, wanted, { mustEndWith: 'submit_result', offersSubmit: true }],
  ['a tool of the agent file', 'grep', [], { mustEndWith: 'grep', offersSubmit: false }],
  ['a tool and a required field', 'grep', wanted, { mustEndWith: 'grep', offersSubmit: true }],
])('[T4.4] decides how a turn must end, given %s', (_title, mustEndWith, specs, ending) => {
  expect(endingOf(mustEndWith, specs)).toEqual(ending)
})
