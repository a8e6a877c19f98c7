import { expect, it } from 'vitest'
import { systemRandom } from '../random.js'
import type { Bell, Ring } from './bell.js'
import { nearBell } from './near.js'

/** A far bell that brings every ring back to its listeners, as a server does. */
function echoing(): Bell & { sent: Ring[]; come(ring: Ring | undefined): void } {
  const ears = new Set<(ring: Ring | undefined) => void>()
  const sent: Ring[] = []
  const come = (ring: Ring | undefined) => ears.forEach((ear) => ear(ring))
  return {
    kind: 'notify',
    sent,
    come,
    ring: async (rings) => {
      sent.push(...rings)
      for (const ring of rings) come(ring)
    },
    listen: async (_, onRing) => {
      ears.add(onRing)
      return { stop: async () => void ears.delete(onRing) }
    },
    close: async () => undefined,
  }
}

it('wakes listeners of the same process once, and lets the ring go out', async () => {
  const far = echoing()
  const bell = nearBell(far, systemRandom)
  const heard: (Ring | undefined)[] = []
  const listening = await bell.listen('bw.v1.*.*.cmd.agent.w.wakeup', (ring) => heard.push(ring))
  await bell.ring([{ subject: 'bw.v1.p.public.cmd.agent.w.wakeup', payload: { agent_id: 'ann' } }])
  await bell.ring([{ subject: 'bw.v1.p.public.cmd.agent.other.wakeup', payload: {} }])
  expect(heard).toEqual([{ subject: 'bw.v1.p.public.cmd.agent.w.wakeup', payload: { agent_id: 'ann' } }])
  expect(far.sent.map(({ payload }) => payload['agent_id'])).toEqual(['ann', undefined])
  far.come({ subject: 'bw.v1.p.public.cmd.agent.w.wakeup', payload: { metadata: { from: 'elsewhere' } } })
  far.come(undefined)
  expect(heard).toHaveLength(3)
  await listening.stop()
  await bell.ring([{ subject: 'bw.v1.p.public.cmd.agent.w.wakeup', payload: {} }])
  expect(heard).toHaveLength(3)
})
