import { expect, it } from 'vitest'
import { evalCheck } from '@bellwether/protocol/http'
import { checkTitle, decide, outcomeCheck, outputOf, type TurnEnd } from './checks.js'
import { answerOf } from './judge.js'

const end = (content: unknown, more: Partial<TurnEnd> = {}): TurnEnd => ({
  outcome: 'success',
  error: null,
  content,
  costMicros: 2_000,
  tokens: 300,
  durationMs: 1_500,
  ...more,
})
const verdict = (check: object, content: unknown, more?: Partial<TurnEnd>) => {
  const decided = decide(evalCheck.parse(check), end(content, more))
  return [decided?.passed, decided?.reason]
}
const text = (value: string) => ({ text: value })
const fields = {
  fields: [
    { name: 'total', value: 3 },
    { name: 'items', value: [{ a: 1, b: 2 }] },
  ],
}

it('looks at the output, its fields, its cost and its time', () => {
  expect(verdict({ contains: 'days' }, text('30 days'))).toEqual([true, 'the output contains it'])
  expect(verdict({ contains: ['30', 'weeks'] }, text('30 days'))).toEqual([
    false,
    'the output does not contain "weeks"',
  ])
  expect(verdict({ not_contains: 'days' }, text('30 days'))).toEqual([false, 'the output contains "days"'])
  expect(verdict({ equals: 'yes' }, text(' yes\n'))[0]).toBe(true)
  expect(verdict({ equals: 'yes' }, text('no'))).toEqual([false, 'the output is "no"'])
  expect(verdict({ matches: '^\\d+ days$' }, text('30 days'))[0]).toBe(true)
  expect(verdict({ fields: { items: [{ b: 2, a: 1 }] } }, fields)[0]).toBe(true)
  expect(verdict({ fields: { total: 4 } }, fields)).toEqual([false, 'the field "total" is 3, not 4'])
  expect(verdict({ fields: { total: 3 } }, text('```json\n{"total": 3}\n```'))[0]).toBe(true)
  expect(verdict({ fields: { total: 3 } }, text(`\`\`\`${'\n'.repeat(300_000)}x`))[0]).toBe(false)
  expect(verdict({ fields: { total: 3 } }, text('three'))[0]).toBe(false)
  const schema = { type: 'object', required: ['total'], properties: { total: { type: 'integer' } } }
  expect(verdict({ json_schema: schema }, text('{"total": 3}'))[0]).toBe(true)
  expect(verdict({ json_schema: schema }, text('{"total": "3"}'))[0]).toBe(false)
  expect(verdict({ max_cost_usd: 0.001 }, text(''))).toEqual([false, 'it cost $0.002, the limit is $0.001'])
  expect(verdict({ max_seconds: 2 }, text(''))[0]).toBe(true)
  expect(verdict({ max_tokens: 299 }, text(''))).toEqual([false, 'it used 300 tokens, the limit is 299'])
  expect(verdict({ command: 'true' }, text(''))).toEqual([undefined, undefined])
  expect(outcomeCheck({ outcome: 'failed', error: 'max_steps' })).toMatchObject({
    passed: false,
    reason: 'the turn ended as failed: max_steps',
  })
})

it('an output that is nested too deep to compare fails its check', () => {
  const deep = `${'['.repeat(20_000)}${']'.repeat(20_000)}`
  for (const check of [{ fields: { a: 1 } }, { json_schema: { type: 'object' } }])
    expect(verdict(check, text(`{"a": ${deep}}`))).toEqual([false, expect.stringMatching(/nested/)])
})

it('ends a pattern that takes exponential time, and the check fails', () => {
  const [passed, reason] = verdict({ matches: '^(a+)+$' }, text(`${'a'.repeat(60)}b`))
  expect([passed, reason]).toEqual([false, expect.stringContaining('took longer than 100 ms on this output')])
  // Without the limit this takes hours, and the test ends with its own.
})

it('a pattern that throws fails its check: one of another version, or one that needs too much memory on a long output', () => {
  expect(verdict({ matches: '(' }, text('30 days'))).toEqual([
    false,
    expect.stringMatching(/^the pattern "\(" cannot be applied: Invalid regular expression/),
  ])
  // Which of its two limits it reaches first depends on the machine.
  const nested = { matches: '(?:(?:(?:(?:.?){9}){99}){999}){9}z' }
  expect(verdict(nested, text('ab'.repeat(400_000)))[0]).toBe(false)
})

it('shows the fields of a deliverable as JSON, and titles of checks', () => {
  expect(JSON.parse(outputOf(fields))).toEqual({ total: 3, items: [{ a: 1, b: 2 }] })
  expect(outputOf(null)).toBe('null')
  expect(checkTitle(evalCheck.parse({ contains: 'x' }))).toBe('contains x')
  expect(checkTitle(evalCheck.parse({ name: 'polite', contains: 'x' }))).toBe('polite')
})

it('reads the answer of a judge, and an unclear one fails', () => {
  const answer = (pass: unknown) => ({
    fields: [
      { name: 'pass', value: pass },
      { name: 'reason', value: 'because' },
    ],
  })
  expect(answerOf(answer(true))).toEqual({ passed: true, reason: 'because' })
  expect(answerOf(answer('false'))).toEqual({ passed: false, reason: 'because' })
  expect(answerOf(text('Here: {"pass": true, "reason": "fine"}'))).toEqual({ passed: true, reason: 'fine' })
  expect(answerOf(answer('perhaps'))).toMatchObject({
    passed: false,
    reason: expect.stringContaining('did not answer pass or fail'),
  })
  expect(answerOf(text('It passes.')).passed).toBe(false)
})
