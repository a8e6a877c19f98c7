import { getEventListeners } from 'node:events'
import { expect, it } from 'vitest'
import { aborted, linkAbort, onAbort } from './abort.js'

const listeners = (signal: AbortSignal) => getEventListeners(signal, 'abort').length

it('aborts with the first parent that aborts, and passes its reason on', () => {
  const [one, two] = [new AbortController(), new AbortController()]
  const link = linkAbort(one.signal, undefined, two.signal)
  two.abort('second')
  one.abort('first')
  expect(link.signal.reason).toBe('second')
})

it('is aborted from the start if a parent is', () => {
  const live = new AbortController()
  const link = linkAbort(live.signal, AbortSignal.abort('gone'))
  expect(link.signal.reason).toBe('gone')
  expect(listeners(live.signal)).toBe(0)
})

it('leaves no listener on a parent after abort, release or a parent’s abort', () => {
  const parent = new AbortController()
  linkAbort(parent.signal).abort()
  linkAbort(parent.signal).release()
  linkAbort(parent.signal, AbortSignal.abort())
  onAbort(parent.signal, () => {})()
  expect(listeners(parent.signal)).toBe(0)
})

it('calls back at once for a signal that has aborted, and never without a signal', () => {
  const calls: string[] = []
  onAbort(AbortSignal.abort(), () => calls.push('aborted'))
  onAbort(undefined, () => calls.push('undefined'))
  expect(calls).toEqual(['aborted'])
})

it('resolves when the signal aborts', async () => {
  const controller = new AbortController()
  const waiting = aborted(controller.signal)
  controller.abort()
  await expect(waiting).resolves.toBeUndefined()
})
