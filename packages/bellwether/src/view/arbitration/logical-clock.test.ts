import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { LogicalClock } from './logical-clock.js'

const now = 1_800_000_000
const in2050 = 2_524_608_000

describe('the clock of the files', () => {
  it('[V6.7] is the server time as long as there are no samples', () => {
    expect(new LogicalClock().watermark(now)).toBe(now)
  })

  it('[V6.7] follows the most frequent difference, also when the file server is two hours off', () => {
    for (const skew of [7_200, -7_200, 3]) {
      const clock = new LogicalClock()
      for (let i = 0; i < 100; i += 1) clock.sample(now + i, now + i - skew - (i % 4 === 0 ? 0.3 : 0))
      for (let i = 0; i < 30; i += 1) clock.sample(now, now - i * 100)
      expect(clock.watermark(now)).toBe(now - skew)
    }
  })

  it('[V6.7] is not moved by a file from 2050, not even by the first or only one', () => {
    const clock = new LogicalClock()
    for (let i = 0; i < 50; i += 1) clock.sample(now, in2050)
    expect(clock.watermark(now)).toBe(now)
    clock.sample(now, now - 5)
    expect(clock.watermark(now)).toBe(now - 5)
    clock.sample(now, in2050)
    expect(clock.watermark(now)).toBe(now - 5)
  })

  it('[V6.7] is moved by no single outlier, wherever it lies', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: -100_000, max: 4_000_000 }),
        fc.integer({ min: -7_200, max: 7_200 }),
        (outlier, skew) => {
          const clock = new LogicalClock()
          for (let i = 0; i < 3; i += 1) clock.sample(now, now - skew)
          clock.sample(now, now - outlier)
          expect(clock.watermark(now)).toBe(now - skew)
        },
      ),
    )
  })

  it('[V6.7] forgets: after a file server was set right, the new difference wins', () => {
    const clock = new LogicalClock()
    for (let i = 0; i < 10_000; i += 1) clock.sample(now, now - 3_600)
    for (let i = 0; i < 10_000; i += 1) clock.sample(now, now)
    expect(clock.watermark(now)).toBe(now)
    expect(clock.samples).toBe(8_192)
  })

  it('[V6.7] agrees with a plain count of all samples', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: -3, max: 3 }), { minLength: 1, maxLength: 40 }), (skews) => {
        const clock = new LogicalClock()
        for (const skew of skews) clock.sample(now, now - skew)
        // While nobody has the majority it may lag by a few samples: ask again with the same ones until it has looked.
        const votes = new Map<number, number>()
        for (const skew of skews) votes.set(skew, (votes.get(skew) ?? 0) + 1)
        const most = Math.max(...votes.values())
        expect(votes.get(clock.skewSeconds)).toBe(most)
      }),
    )
  })
})
