import fc from 'fast-check'
import { expect, it } from 'vitest'
import { nextRestart, defaultRestartRules } from './restart-policy.js'

it('restarts a part at once after its first failure', () => {
  expect(nextRestart([5_000])).toEqual({ afterMs: defaultRestartRules.backoff.baseMs, quarantined: false })
})

it('waits longer after each failure and ignores old failures', () => {
  const waits = [1, 2, 3, 4, 5].map((times) => nextRestart(Array.from({ length: times }, (_, at) => at)).afterMs)
  expect(waits).toEqual([200, 400, 800, 1_600, 3_200])
  expect(nextRestart([0, 1, 2, 3, 4, 5, 70_000]).quarantined).toBe(false)
})

it('quarantines a crash loop for a limited time', () => {
  expect(nextRestart([0, 1, 2, 3, 4, 5])).toEqual({ afterMs: defaultRestartRules.quarantineMs, quarantined: true })
  // After a quarantine the old failures are outside the window.
  expect(nextRestart([0, 1, 2, 3, 4, 5, 6 + defaultRestartRules.quarantineMs]).quarantined).toBe(false)
})

it('always waits, and never longer than a quarantine', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(1_000_000), { minLength: 1 }), (times) => {
      const { afterMs } = nextRestart(times.toSorted((a, b) => a - b))
      expect(afterMs).toBeGreaterThan(0)
      expect(afterMs).toBeLessThanOrEqual(defaultRestartRules.quarantineMs)
    }),
  )
})
