import { expect, it } from 'vitest'
import { Halt } from './cancellation.js'

it('fires the signal that was asked for before, and hands out a fired one afterwards', () => {
  const early = new Halt()
  const { signal } = early
  expect(signal.aborted).toBe(false)
  early.call('fence_lost')
  early.call('draining')
  expect(signal).toMatchObject({ aborted: true, reason: 'fence_lost' })
  const late = new Halt()
  late.call('draining')
  expect(late.called).toBe(true)
  expect(late.signal).toMatchObject({ aborted: true, reason: 'draining' })
  expect(new Halt().called).toBe(false)
})
