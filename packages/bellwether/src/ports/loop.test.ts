import { type Clock, makeWake } from '@bellwether/base'
import { expect, it } from 'vitest'
import { loop } from './loop.js'

/** A clock that does not wait and records the requested times. */
function recordingClock(): Clock & { slept: number[] } {
  const slept: number[] = []
  return { slept, wallMs: () => 0, monotonicMs: () => 0, sleep: async (ms) => void slept.push(ms) }
}
const log = { info: () => undefined, warn: () => undefined, error: () => undefined }

async function failing(steady: boolean, times: number): Promise<number[]> {
  const clock = recordingClock()
  const stop = new AbortController()
  let steps = 0
  await loop({ name: 'it', intervalMs: 1_000, clock, log, signal: stop.signal, steady }, async () => {
    steps += 1
    if (steps === times) stop.abort()
    throw new Error('no')
  })
  return clock.slept
}

it('retries a failing step after a growing pause', async () => {
  expect(await failing(false, 4)).toEqual([1_000, 2_000, 3_000])
})

it('[W2.10] runs a watchdog at its interval while its step fails', async () => {
  expect(await failing(true, 4)).toEqual([1_000, 1_000, 1_000])
})

it('does not wait if it was woken before the wait', async () => {
  const clock = recordingClock()
  const wake = makeWake(clock)
  const { signal } = new AbortController()
  wake.now()
  await wake.wait(5_000, signal)
  expect(clock.slept).toEqual([])
  await wake.wait(5_000, signal)
  expect(clock.slept).toEqual([5_000])
})

it('steps again without a pause if it is woken during a step', async () => {
  const clock = recordingClock()
  const stop = new AbortController()
  const wake = makeWake(clock)
  let steps = 0
  await loop(
    { name: 'claim', intervalMs: 5_000, clock, log, signal: stop.signal },
    async () => {
      steps += 1
      // A ring that arrives while the first claim runs: the claim may have read the queue before the commit that it announces.
      if (steps === 1) wake.now()
      else stop.abort()
    },
    wake,
  )
  expect({ steps, slept: clock.slept }).toEqual({ steps: 2, slept: [] })
})

it('waits longer while its step has nothing to do, up to a limit, and its interval after work', async () => {
  const clock = recordingClock()
  const stop = new AbortController()
  const results = ['quiet', 'quiet', 'quiet', 'quiet', 'worked', 'quiet']
  await loop({ name: 'it', intervalMs: 200, quietMaxMs: 1_000, clock, log, signal: stop.signal }, async () => {
    const result = results.shift()
    if (result === undefined) stop.abort()
    return result
  })
  expect(clock.slept.slice(0, 6)).toEqual([400, 800, 1_000, 1_000, 200, 400])
})
