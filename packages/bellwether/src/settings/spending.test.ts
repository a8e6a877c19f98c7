import { expect, it } from 'vitest'
import { readSpendingLimits, readTimeZone } from './spending.js'

it('reads limits of projects, agents and models, and joins the money and the tokens of one limit', () => {
  expect(
    readSpendingLimits(
      'project day 50 usd, project  news month 800.5 usd,agent coder day 2000000 tokens, agent coder day 3 usd, model a/b-1 month 7 tokens,',
    ),
  ).toEqual([
    { scope: 'project', period: 'day', costMicros: 50_000_000 },
    { scope: 'project', name: 'news', period: 'month', costMicros: 800_500_000 },
    { scope: 'agent', name: 'coder', period: 'day', tokens: 2_000_000, costMicros: 3_000_000 },
    { scope: 'model', name: 'a/b-1', period: 'month', tokens: 7 },
  ])
  expect(readSpendingLimits('')).toEqual([])
})

it.each([
  'project week 5 usd',
  'agent day 5 usd',
  'day 5 usd',
  'project day 5 eur',
  'project day usd',
  'agent a b day 5 usd',
])('rejects %s with the key, the value and the form', (text) => {
  expect(() => readSpendingLimits(text)).toThrow(`"limits" in [spending] of bellwether.toml must be a list of SCOPE`)
  expect(() => readSpendingLimits(text)).toThrow(`(got "${text}")`)
})

it('rejects amounts that are zero, too large or in parts of tokens, repeated limits and unknown time zones', () => {
  for (const text of ['project day 0 usd', 'project day 1.5 tokens', 'project day 9999999999999 tokens'])
    expect(() => readSpendingLimits(text)).toThrow(`the amount of "${text}"`)
  expect(() => readSpendingLimits('project day 1 usd, project day 2 usd')).toThrow('twice')
  expect(readTimeZone('Europe/Berlin')).toBe('Europe/Berlin')
  expect(() => readTimeZone('Mars/Base')).toThrow('"time_zone" in [spending] of bellwether.toml')
})
