/**
 * The outbox on PostgreSQL notify: events become rings that point at their row, commands keep their (pointer) payload.
 * Always lossy: whoever needs every event reads the outbox by cursor, so the relay keeps its own position.
 */
import type { Bell } from '../bell/bell.js'
import { payloadFrom } from '../bell/ring.js'
import type { EventStream, StreamEvent } from './stream.js'
import { pointer } from './stream.js'

export function notifyStream(options: { readonly bell: Bell }): EventStream {
  const toRing = (event: StreamEvent) => ({
    subject: event.subject,
    payload: event.durable ? { ...pointer(event) } : payloadFrom(event.payload),
    ...(event.traceparent === undefined ? {} : { traceparent: event.traceparent }),
  })
  return {
    kind: 'notify',
    remembers: false,
    lastCursor: async () => undefined,
    async publish(events) {
      if (events.length > 0) await options.bell.ring(events.map(toRing))
      return 'ok'
    },
    // The bell belongs to whoever made it.
    close: async () => {},
  }
}
