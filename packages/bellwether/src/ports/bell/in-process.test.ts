import { systemRandom } from '@bellwether/base'
import { expect, it } from 'vitest'
import type { Bell, Ring } from './bell.js'
import { inProcessBell } from './in-process.js'

/** A far bell that brings every ring back to its listeners, as a server does. `rung` resolves with the next rings sent. */
function echoing() {
  const ears = new Set<(ring: Ring | undefined) => void>()
  const sent: Ring[] = []
  let told: () => void = () => undefined
  const come = (ring: Ring | undefined) => ears.forEach((ear) => ear(ring))
  const far: Bell = {
    kind: 'notify',
    ring: async (rings) => {
      sent.push(...rings)
      for (const ring of rings) come(ring)
      told()
    },
    listen: async (_, onRing) => {
      ears.add(onRing)
      return { stop: async () => void ears.delete(onRing) }
    },
    close: async () => undefined,
  }
  return { far, sent, come, rung: () => new Promise<void>((resolve) => (told = resolve)) }
}

it('wakes listeners of the same process once, and lets the ring go out', async () => {
  const { far, sent, come, rung } = echoing()
  const bell = inProcessBell(far, systemRandom)
  const heard: (Ring | undefined)[] = []
  const listening = await bell.listen('bw.v1.*.*.cmd.agent.w.wakeup', (ring) => heard.push(ring))
  await bell.ring([{ subject: 'bw.v1.p.public.cmd.agent.w.wakeup', payload: { agent_id: 'ann' } }])
  await bell.ring([{ subject: 'bw.v1.p.public.cmd.agent.other.wakeup', payload: {} }])
  expect(heard).toEqual([{ subject: 'bw.v1.p.public.cmd.agent.w.wakeup', payload: { agent_id: 'ann' } }])
  expect(sent).toEqual([])
  await rung()
  expect(sent.map(({ payload }) => payload['agent_id'])).toEqual(['ann', undefined])
  expect(heard).toHaveLength(1)
  come({ subject: 'bw.v1.p.public.cmd.agent.w.wakeup', payload: { metadata: { from: 'elsewhere' } } })
  come(undefined)
  expect(heard).toHaveLength(3)
  await listening.stop()
  await bell.ring([{ subject: 'bw.v1.p.public.cmd.agent.w.wakeup', payload: {} }])
  expect(heard).toHaveLength(3)
})

it('sends what is still to go out before it closes', async () => {
  const { far, sent } = echoing()
  const bell = inProcessBell(far, systemRandom)
  void bell.ring([{ subject: 'bw.v1.p.public.cmd.agent.w.wakeup', payload: {} }])
  await bell.close()
  expect(sent).toHaveLength(1)
})
