import fc from 'fast-check'
import { expect, it } from 'vitest'
import { Sorted } from './sorted.js'

it('Sorted equals a sorted array after any sequence of insertions and deletions', () => {
  const move = fc.record({ add: fc.boolean(), value: fc.nat(3_000) })
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.nat(3_000), { maxLength: 2_000 }),
      fc.array(move, { maxLength: 1_500 }),
      (start, moves) => {
        const plain = new Set(start)
        const sorted = new Sorted<number>((a, b) => a - b)
        sorted.replaceAll([...start])
        for (const { add, value } of moves) {
          if (!add) sorted.delete(value)
          else if (!plain.has(value)) sorted.add(value)
          if (add) plain.add(value)
          else plain.delete(value)
        }
        const expected = [...plain].sort((a, b) => a - b)
        expect([...sorted]).toEqual(expected)
        expect(sorted.length).toBe(expected.length)
        expect(sorted.first(700)).toEqual(expected.slice(0, 700))
      },
    ),
    { numRuns: 60 },
  )
})
