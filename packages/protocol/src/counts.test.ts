import fc from 'fast-check'
import { expect, it } from 'vitest'
import { count, duration, plural, shortened } from './counts.js'
import { dollars } from './spending.js'

const english = (number: number, places = 3) =>
  number.toLocaleString('en-US', { maximumFractionDigits: places, minimumFractionDigits: places === 2 ? 2 : 0 })

it('writes numbers as English does, without Intl', () => {
  expect([0, 999, 1_000, 1_234_567, -12_345, 12.5, 1_250.125].map(count)).toEqual([
    '0',
    '999',
    '1,000',
    '1,234,567',
    '-12,345',
    '12.5',
    '1,250.125',
  ])
  expect([plural(1, 'turn'), plural(1_250, 'turn')]).toEqual(['1 turn', '1,250 turns'])
  fc.assert(fc.property(fc.maxSafeInteger(), (number) => count(number) === english(number)))
})

it('writes money to the cent as English does', () => {
  const cents = fc.integer({ min: 1, max: 1_000_000_000 })
  expect(dollars(1_234_560_000)).toBe('$1,234.56')
  fc.assert(fc.property(cents, (one) => dollars(one * 10_000) === `$${english(one / 100, 2)}`))
})

it('writes a length of time with at most two units', () => {
  const [second, minute, hour] = [1_000, 60_000, 3_600_000]
  const lengths = [
    [-1, '–'],
    [0.4, '0 ms'],
    [999.4, '999 ms'],
    [999.6, '1.0 s'],
    [3.24 * second, '3.2 s'],
    [59.96 * second, '1 min'],
    [65 * second, '1 min 5 s'],
    [2 * hour, '2 h'],
    [2 * hour + 3 * minute, '2 h 3 min'],
    [47 * hour, '47 h'],
    [99 * hour, '4 d 3 h'],
  ] as const
  expect(lengths.map(([ms]) => duration(ms))).toEqual(lengths.map(([, text]) => text))
})

it('shortens a long text to its limit, without half a character', () => {
  expect(shortened('four', 4)).toBe('four')
  expect(shortened('fiver', 4)).toBe('fiv…')
  expect(shortened('ab😀cd', 4)).toBe('ab…')
  expect(shortened('ab😀cd', 5)).toBe('ab😀…')
})
