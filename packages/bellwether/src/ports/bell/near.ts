/**
 * A bell for processes that ring and listen: who listens in the same process is woken at once, without the way through the
 * server; the ring goes out to the others as always, and its echo is not heard a second time. It still only wakes.
 */
import { matches } from '@bellwether/protocol'
import type { Random } from '../random.js'
import type { Bell, Ring } from './bell.js'

interface Ear {
  readonly pattern: string
  readonly onRing: (ring: Ring | undefined) => void
}

export function nearBell(bell: Bell, random: Random): Bell {
  const ears = new Set<Ear>()
  const here = Buffer.from(random.bytes(6)).toString('hex')
  const isEcho = (ring: Ring | undefined): boolean => {
    const metadata = ring?.payload['metadata']
    return typeof metadata === 'object' && metadata !== null && 'from' in metadata && metadata.from === here
  }
  return {
    kind: bell.kind,
    async ring(rings) {
      for (const ring of rings) {
        for (const ear of ears) if (matches(ear.pattern, ring.subject)) ear.onRing(ring)
      }
      // Not awaited: whoever rings has committed already, and a bell keeps its failures to itself.
      void bell.ring(rings.map((ring) => ({ ...ring, payload: { ...ring.payload, metadata: { from: here } } })))
    },
    async listen(pattern, onRing) {
      const ear = { pattern, onRing }
      ears.add(ear)
      const listening = await bell.listen(pattern, (ring) => {
        if (!isEcho(ring)) onRing(ring)
      })
      return {
        async stop() {
          ears.delete(ear)
          await listening.stop()
        },
      }
    },
    close: () => bell.close(),
  }
}
