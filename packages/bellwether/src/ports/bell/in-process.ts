/**
 * A bell for processes that ring and listen: who listens in the same process is woken at once, without the way through the
 * server; the ring goes out to the others as always, right after, and its echo is not heard a second time. It still only wakes.
 */
import type { Random } from '@bellwether/base'
import { matches } from '@bellwether/protocol'
import type { Bell, Ring } from './bell.js'

interface Ear {
  readonly pattern: string
  readonly onRing: (ring: Ring | undefined) => void
}

export function inProcessBell(bell: Bell, random: Random): Bell {
  const ears = new Set<Ear>()
  const here = Buffer.from(random.bytes(6)).toString('hex')
  const isEcho = (ring: Ring | undefined): boolean => {
    const metadata = ring?.payload['metadata']
    return typeof metadata === 'object' && metadata !== null && 'from' in metadata && metadata.from === here
  }
  let outgoing: Ring[] = []
  function sendOut(): Promise<void> {
    const rings = outgoing
    outgoing = []
    return bell.ring(rings.map((ring) => ({ ...ring, payload: { ...ring.payload, metadata: { from: here } } })))
  }
  return {
    kind: bell.kind,
    async ring(rings) {
      for (const ring of rings) {
        for (const ear of ears) if (matches(ear.pattern, ring.subject)) ear.onRing(ring)
      }
      // Not awaited: whoever rings has committed already, and a bell keeps its failures to itself. After those here have
      // asked for their work: what they take needs nobody else.
      if (outgoing.length === 0) setImmediate(() => void sendOut())
      outgoing.push(...rings)
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
    async close() {
      if (outgoing.length > 0) await sendOut()
      await bell.close()
    },
  }
}
