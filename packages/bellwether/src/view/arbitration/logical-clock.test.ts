import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { LogicalClock } from './logical-clock.js'

const now = 1_800_000_000
const in2050 = 2_524_608_000

describe('the logical clock', () => {
  it('[V6.7] the logical clock equals server time while there are no samples', () => {
    expect(new LogicalClock().watermark(now)).toBe(now)
  })

  it('[V6.7] follows the most frequent skew, even if the file server is two hours off', () => {
    for (const skew of [7_200, -7_200, 3]) {
      const clock = new LogicalClock()
      for (let i = 0; i < 100; i += 1) clock.sample(now + i, now + i - skew - (i % 4 === 0 ? 0.3 : 0))
      for (let i = 0; i < 30; i += 1) clock.sample(now, now - i * 100)
      expect(clock.watermark(now)).toBe(now - skew)
    }
  })

  it('[V6.7] ignores a file dated 2050, even if it is the first or only sample', () => {
    const clock = new LogicalClock()
    for (let i = 0; i < 50; i += 1) clock.sample(now, in2050)
    expect(clock.watermark(now)).toBe(now)
    clock.sample(now, now - 5)
    expect(clock.watermark(now)).toBe(now - 5)
    clock.sample(now, in2050)
    expect(clock.watermark(now)).toBe(now - 5)
  })

  it('[V6.7] a single outlier never moves the watermark', () => {
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

  it('[V6.7] adopts the new skew after the file server’s clock is corrected', () => {
    const clock = new LogicalClock()
    for (let i = 0; i < 10_000; i += 1) clock.sample(now, now - 3_600)
    for (let i = 0; i < 10_000; i += 1) clock.sample(now, now)
    expect(clock.watermark(now)).toBe(now)
    expect(clock.samples).toBe(8_192)
  })

  it('[V6.7] agrees with a full count of all samples', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: -3, max: 3 }), { minLength: 1, maxLength: 40 }), (skews) => {
        const clock = new LogicalClock()
        for (const skew of skews) clock.sample(now, now - skew)
        // Without a majority the mode may lag by a few samples, so repeat them until the clock has recounted.
        const votes = new Map<number, number>()
        for (const skew of skews) votes.set(skew, (votes.get(skew) ?? 0) + 1)
        const most = Math.max(...votes.values())
        expect(votes.get(clock.skewSeconds)).toBe(most)
      }),
    )
  })
})
