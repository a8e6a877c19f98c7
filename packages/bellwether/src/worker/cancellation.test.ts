import { expect, it } from 'vitest'
import { Cancellation } from './cancellation.js'

it('aborts the signal that was read before, and returns an aborted signal afterwards', () => {
  const early = new Cancellation()
  const { signal } = early
  expect(signal.aborted).toBe(false)
  early.cancel('fence_lost')
  early.cancel('draining')
  expect(signal).toMatchObject({ aborted: true, reason: 'fence_lost' })
  const late = new Cancellation()
  late.cancel('draining')
  expect(late.requested).toBe(true)
  expect(late.signal).toMatchObject({ aborted: true, reason: 'draining' })
  expect(new Cancellation().requested).toBe(false)
})
