/** Tests the selection of watched directories with clocks that differ. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { driftOf, hottest, watchLimit } from './hot-set.js'

const day = 86_400
const now = 1_700_000_000

describe('the hot watch set', () => {
  it('[V3.1] selects the newest directories, the oldest of them first to be evicted', () => {
    const directories = [
      { path: '/new', mtime: now - 1 },
      { path: '/old', mtime: now - 100 * day },
      { path: '/mid', mtime: now - day },
    ]
    expect(hottest(directories, 2, 0, now).map(({ path }) => path)).toEqual(['/mid', '/new'])
  })

  it('[V3.1] the drift is the 99th percentile of mtimes: a few files dated 2050 do not move it', () => {
    const times = Array.from({ length: 1_000 }, (_, at) => now + 7_200 - at)
    const honest = driftOf(times, now)
    expect(honest).toBeCloseTo(7_200, -2)
    const forged = times.map((time, at) => (at % 200 === 0 ? 2_524_608_000 : time))
    expect(Math.abs(driftOf(forged, now) - honest)).toBeLessThan(60)
  })

  it('[V3.1] a file server two hours ahead or behind gives the same order and no time in the future', () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.integer({ min: 1, max: 1_000_000 }), { minLength: 1, maxLength: 200 }),
        fc.constantFrom(-7_200, 0, 7_200),
        fc.integer({ min: 1, max: 50 }),
        (ages, skew, limit) => {
          const directories = ages.map((age) => ({ path: `/${age}`, mtime: now + skew - age }))
          const drift = driftOf(
            directories.map(({ mtime }) => mtime),
            now,
          )
          const chosen = hottest(directories, limit, drift, now)
          const expected = [...ages]
            .sort((a, b) => a - b)
            .slice(0, limit)
            .map((age) => `/${age}`)
          // Times in the future all become "now", so their order does not matter.
          expect(new Set(chosen.map(({ path }) => path)).size).toBe(expected.length)
          for (const { at } of chosen) expect(at).toBeLessThanOrEqual(now)
          const coldest = Math.min(...chosen.map(({ at }) => at))
          const left = directories.filter(({ path }) => !chosen.some((each) => each.path === path))
          for (const { mtime } of left) expect(Math.min(mtime - drift, now)).toBeLessThanOrEqual(coldest)
        },
      ),
    )
  })

  it('[V3.1] the limit is 50,000 or the requested number, at most 80 % of the kernel’s', () => {
    expect(watchLimit(undefined, 1_000_000)).toBe(50_000)
    expect(watchLimit(undefined, 8_192)).toBe(6_553)
    expect(watchLimit(100, 8_192)).toBe(100)
    expect(watchLimit(100_000, 8_192)).toBe(6_553)
  })
})
