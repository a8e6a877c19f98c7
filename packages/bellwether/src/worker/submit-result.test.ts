import { expect, it } from 'vitest'
import { decideSubmission, wantedFields } from './submit-result.js'

const submit = (args: unknown) => ({ toolCallId: 'c', toolName: 'submit_result', args })
const wanted = [
  { name: 'title', required: true, type: 'string' },
  { name: 'count', type: 'integer' },
]
const fields = (...pairs: [string, unknown][]) => ({ fields: pairs.map(([name, value]) => ({ name, value })) })

it('[T4.4] a step without submit_result submits nothing', () => {
  expect(decideSubmission([{ toolCallId: 'c', toolName: 'grep', args: {} }], wanted)).toBeUndefined()
})

it('[T4.4] it must be the only call of its step', () => {
  const calls = [submit(fields(['title', 'x'])), { toolCallId: 'd', toolName: 'grep', args: {} }]
  expect(decideSubmission(calls, wanted)).toMatchObject({ refuse: { code: 'not_the_only_call' } })
  expect(decideSubmission([submit({ text: 'a' }), submit({ text: 'b' })], [])).toMatchObject({
    refuse: { code: 'not_the_only_call' },
  })
})

it.each([
  ['text where nothing is asked for', { text: 'x' }, [], { text: 'x' }],
  ['fields that cover what is required', fields(['title', 'x']), wanted, fields(['title', 'x'])],
  ['fields of the right types', fields(['title', 'x'], ['count', 3]), wanted, fields(['title', 'x'], ['count', 3])],
  ['fields that nobody asked for', fields(['extra', { a: 1 }]), [], fields(['extra', { a: 1 }])],
  [
    'an optional field left null',
    fields(['title', 'x'], ['count', null]),
    wanted,
    fields(['title', 'x'], ['count', null]),
  ],
  [
    'a type that nobody knows',
    fields(['when', 'soon']),
    [{ name: 'when', type: 'date', required: true }],
    fields(['when', 'soon']),
  ],
])('[T4.4] [T4.2a] %s is delivered', (_title, args, asked, content) => {
  expect(decideSubmission([submit(args)], asked)).toEqual({ deliver: content })
})

it.each([
  ['text where fields are required', { text: 'x' }, wanted, 'missing_fields', ['title']],
  ['a required field that is null', fields(['title', null]), wanted, 'missing_fields', ['title']],
  ['a number for a string', fields(['title', 7]), wanted, 'wrong_type', ['title']],
  ['a fraction for an integer', fields(['title', 'x'], ['count', 1.5]), wanted, 'wrong_type', ['count']],
  ['a list for an object', fields(['o', []]), [{ name: 'o', type: 'object' }], 'wrong_type', ['o']],
  ['an object for a list', fields(['l', {}]), [{ name: 'l', type: 'array' }], 'wrong_type', ['l']],
  ['no arguments', undefined, [], 'not_a_result', []],
  ['arguments of another shape', { fields: { title: 'x' } }, [], 'not_a_result', []],
  ['fields without names', { fields: [{ value: 1 }] }, [], 'not_a_result', []],
])('[T4.4] [T4.2a] %s is refused, and said why', (_title, args, asked, code, names) => {
  expect(decideSubmission([submit(args)], asked)).toMatchObject({
    refuse: { code, fields: names },
    call: { toolCallId: 'c' },
  })
})

it('[T4.4] the last task.result_fields card of the context speaks; a broken one asks for nothing', () => {
  const card = (content: unknown) => ({ type: 'task.result_fields', content })
  expect(
    wantedFields([
      card({ fields: [{ name: 'old' }] }),
      { type: 'task.instruction', content: {} },
      card({ fields: wanted }),
    ]),
  ).toEqual(wanted)
  for (const broken of [null, [], 'x', { fields: 'x' }, { fields: [1, null, { name: 2 }] }])
    expect(wantedFields([card(broken)])).toEqual([])
  expect(wantedFields([])).toEqual([])
})
