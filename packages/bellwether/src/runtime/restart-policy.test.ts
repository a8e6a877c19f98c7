import fc from 'fast-check'
import { expect, it } from 'vitest'
import { restartOf, usualRules } from './restart-policy.js'

it('starts a part that ended once again at once', () => {
  expect(restartOf([5_000])).toEqual({ afterMs: usualRules.backoff.baseMs, quarantined: false })
})

it('waits longer each time, and forgives what is long ago', () => {
  const waits = [1, 2, 3, 4, 5].map((times) => restartOf(Array.from({ length: times }, (_, at) => at)).afterMs)
  expect(waits).toEqual([200, 400, 800, 1_600, 3_200])
  expect(restartOf([0, 1, 2, 3, 4, 5, 70_000]).quarantined).toBe(false)
})

it('puts a crash loop in quarantine, which ends', () => {
  expect(restartOf([0, 1, 2, 3, 4, 5])).toEqual({ afterMs: usualRules.quarantineMs, quarantined: true })
  // After a quarantine its endings are out of the window: it gets its chances again.
  expect(restartOf([0, 1, 2, 3, 4, 5, 6 + usualRules.quarantineMs]).quarantined).toBe(false)
})

it('never waits for ever, and never not at all', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(1_000_000), { minLength: 1 }), (times) => {
      const { afterMs } = restartOf(times.toSorted((a, b) => a - b))
      expect(afterMs).toBeGreaterThan(0)
      expect(afterMs).toBeLessThanOrEqual(usualRules.quarantineMs)
    }),
  )
})
