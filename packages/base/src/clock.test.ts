import { expect, it } from 'vitest'
import { type Clock, poll } from './clock.js'

/** A clock whose sleep advances the time at once. */
function fakeClock(): Clock {
  let nowMs = 0
  return { wallMs: () => nowMs, monotonicMs: () => nowMs, sleep: async (ms) => void (nowMs += ms) }
}

it('polls until there is a value', async () => {
  const values = [undefined, undefined, 'ready', 'later']
  expect(await poll(fakeClock(), { everyMs: 10, withinMs: 1_000 }, async () => values.shift())).toBe('ready')
})

it('stops polling when the time is over, after one last read', async () => {
  const clock = fakeClock()
  let reads = 0
  expect(await poll(clock, { everyMs: 10, withinMs: 30 }, async () => void (reads += 1))).toBeUndefined()
  expect([reads, clock.monotonicMs()]).toEqual([4, 30])
})
