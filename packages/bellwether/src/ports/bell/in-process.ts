/**
 * Wraps a bell for a process that rings and listens: listeners in the same process are called at once, without a round trip
 * to the server. The ring is then sent to the other processes, and its echo is ignored here.
 */
import { objectOf, type Random } from '@bellwether/base'
import { matches } from '@bellwether/protocol'
import type { Bell, Ring } from './bell.js'

export function inProcessBell(bell: Bell, random: Random): Bell {
  const listeners = new Set<{ readonly pattern: string; readonly onRing: (ring: Ring | undefined) => void }>()
  const processId = Buffer.from(random.bytes(6)).toString('hex')
  const isEcho = (ring: Ring | undefined): boolean => {
    return objectOf(ring?.payload['metadata'])['from'] === processId
  }
  let outgoing: Ring[] = []
  function flush(): Promise<void> {
    const rings = outgoing
    outgoing = []
    return bell.ring(rings.map((ring) => ({ ...ring, payload: { ...ring.payload, metadata: { from: processId } } })))
  }
  return {
    kind: bell.kind,
    async ring(rings) {
      for (const ring of rings) {
        for (const listener of listeners) if (matches(listener.pattern, ring.subject)) listener.onRing(ring)
      }
      // Not awaited: the caller has committed, and a bell does not throw. Sent after the local listeners have had a chance to
      // claim the work.
      if (outgoing.length === 0) setImmediate(() => void flush())
      outgoing.push(...rings)
    },
    async listen(pattern, onRing) {
      const listener = { pattern, onRing }
      listeners.add(listener)
      const listening = await bell.listen(pattern, (ring) => {
        if (!isEcho(ring)) onRing(ring)
      })
      return {
        async stop() {
          listeners.delete(listener)
          await listening.stop()
        },
      }
    },
    async close() {
      if (outgoing.length > 0) await flush()
      await bell.close()
    },
  }
}
