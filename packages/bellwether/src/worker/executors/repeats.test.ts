import fc from 'fast-check'
import { expect, it } from 'vitest'
import { countRepeats, exchangeOf, repeatsOf } from './repeats.js'

it('counts the same exchange in a row, and cycles of two and three', () => {
  expect(repeatsOf([])).toBe(0)
  expect(repeatsOf('abc'.split(''))).toBe(1)
  expect(repeatsOf('xaaa'.split(''))).toBe(3)
  expect(repeatsOf('xababab'.split(''))).toBe(3)
  expect(repeatsOf('ababa'.split(''))).toBe(2)
  expect(repeatsOf('abcabc'.split(''))).toBe(2)
  expect(repeatsOf('aaab'.split(''))).toBe(1)
})

it('a result that changes each time is never a repeat', () => {
  const results = fc.uniqueArray(fc.integer(), { minLength: 1, maxLength: 100 })
  fc.assert(
    fc.property(results, (all) => {
      expect(repeatsOf(all.map((result) => exchangeOf('poll', { id: 7 }, result)))).toBe(1)
    }),
  )
})

it('the order of keys in arguments does not matter, values do', () => {
  expect(exchangeOf('read', { path: 'a', from: { x: 1, y: 2 } })).toBe(
    exchangeOf('read', { from: { y: 2, x: 1 }, path: 'a' }),
  )
  expect(exchangeOf('read', { path: 'a' })).not.toBe(exchangeOf('read', { path: 'b' }))
  expect(exchangeOf('read', ['a', 'b'])).not.toBe(exchangeOf('read', ['b', 'a']))
})

it('counts the calls of a transcript by arguments and result, whatever their ids', () => {
  const count = countRepeats(6)
  let ids = 0
  const exchange = (name: string, content: string, result: string) => {
    const callId = `call-${(ids += 1)}`
    count({ kind: 'tool_call', content, callId, name })
    return count({ kind: 'tool_result', content: result, callId })
  }
  expect([1, 2, 3].map(() => exchange('Bash', 'npm test', 'failed'))).toEqual([1, 2, 3])
  expect(exchange('Bash', 'npm test', 'passed')).toBe(1)
  expect(exchange('Bash', 'npm test', 'passed')).toBe(2)
  // A change of a file between two runs is progress, also if the program reports no result of it.
  count({ kind: 'tool_call', content: 'edit', callId: 'edit-1', name: 'file_change' })
  expect(exchange('Bash', 'npm test', 'passed')).toBe(1)
  expect(count({ kind: 'text', content: 'Bash', continued: false })).toBe(0)
})

it('calls that run at the same time count with their own results, in whatever order these come', () => {
  /** Two calls per round, whose results come in the opposite order. */
  const rounds = (resultOf: (round: number) => string) => {
    const count = countRepeats(6)
    return [1, 2, 3, 4, 5, 6].map((round) => {
      const id = (name: string) => `${name}-${round}`
      for (const name of ['wait', 'read']) count({ kind: 'tool_call', content: '{}', callId: id(name), name })
      const read = count({ kind: 'tool_result', content: 'text', callId: id('read') })
      return Math.max(read, count({ kind: 'tool_result', content: resultOf(round), callId: id('wait') }))
    })
  }
  expect(rounds((round) => `${round} of 6 done`)).toEqual([1, 1, 1, 1, 1, 1])
  expect(rounds(() => 'nothing new')).toEqual([1, 2, 3, 4, 5, 6])
})
