/**
 * Publishes the outbox as rings on PostgreSQL notify: an event becomes a ring that points at its row, a command keeps its
 * payload of pointers. It is lossy: a consumer that needs every event reads the outbox by cursor, and the relay stores its
 * position itself.
 */
import { defined, objectOf } from '@bellwether/base'
import type { Bell } from '../bell/bell.js'
import type { EventStream, StreamEvent } from './stream.js'
import { pointer } from './stream.js'

export function notifyStream(options: { readonly bell: Bell }): EventStream {
  const toRing = (event: StreamEvent) => ({
    subject: event.subject,
    payload: event.durable ? { ...pointer(event) } : objectOf(event.payload),
    ...defined({ traceparent: event.traceparent }),
  })
  return {
    kind: 'notify',
    remembers: false,
    lastCursor: async () => undefined,
    async publish(events) {
      if (events.length > 0) await options.bell.ring(events.map(toRing))
      return 'ok'
    },
    // The owner of the bell closes it.
    close: async () => {},
  }
}
