import { systemRandom } from '@bellwether/base'
import { expect, it } from 'vitest'
import type { Bell, Ring } from './bell.js'
import { inProcessBell } from './in-process.js'

/** A bell that delivers every ring to its own listeners, as a server does. `sentNext` resolves after the next `ring`. */
function echoingBell() {
  const listeners = new Set<(ring: Ring | undefined) => void>()
  const sent: Ring[] = []
  let onSent: () => void = () => undefined
  const deliver = (ring: Ring | undefined) => listeners.forEach((listener) => listener(ring))
  const server: Bell = {
    kind: 'notify',
    ring: async (rings) => {
      sent.push(...rings)
      for (const ring of rings) deliver(ring)
      onSent()
    },
    listen: async (_, onRing) => {
      listeners.add(onRing)
      return { stop: async () => void listeners.delete(onRing) }
    },
    close: async () => undefined,
  }
  return { server, sent, deliver, sentNext: () => new Promise<void>((resolve) => (onSent = resolve)) }
}

it('calls listeners of the same process once and sends the ring to the others', async () => {
  const { server, sent, deliver, sentNext } = echoingBell()
  const bell = inProcessBell(server, systemRandom)
  const received: (Ring | undefined)[] = []
  const listening = await bell.listen('bw.v1.*.*.cmd.agent.w.wakeup', (ring) => received.push(ring))
  await bell.ring([{ subject: 'bw.v1.p.public.cmd.agent.w.wakeup', payload: { agent_id: 'ann' } }])
  await bell.ring([{ subject: 'bw.v1.p.public.cmd.agent.other.wakeup', payload: {} }])
  expect(received).toEqual([{ subject: 'bw.v1.p.public.cmd.agent.w.wakeup', payload: { agent_id: 'ann' } }])
  expect(sent).toEqual([])
  await sentNext()
  expect(sent.map(({ payload }) => payload['agent_id'])).toEqual(['ann', undefined])
  expect(received).toHaveLength(1)
  deliver({ subject: 'bw.v1.p.public.cmd.agent.w.wakeup', payload: { metadata: { from: 'elsewhere' } } })
  deliver(undefined)
  expect(received).toHaveLength(3)
  await listening.stop()
  await bell.ring([{ subject: 'bw.v1.p.public.cmd.agent.w.wakeup', payload: {} }])
  expect(received).toHaveLength(3)
})

it('sends waiting rings before it closes', async () => {
  const { server, sent } = echoingBell()
  const bell = inProcessBell(server, systemRandom)
  void bell.ring([{ subject: 'bw.v1.p.public.cmd.agent.w.wakeup', payload: {} }])
  await bell.close()
  expect(sent).toHaveLength(1)
})
