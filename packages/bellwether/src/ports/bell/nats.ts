/**
 * The bell on core NATS, for many hosts. It starts even if the server is down. Rings while it is disconnected, or faster than
 * the server reads them, are dropped and counted instead of buffered. After every connection, once the server has the
 * subscriptions, all listeners are called without a ring. ports/stream publishes durable events.
 */
import { defined } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { Msg, Subscription } from '@nats-io/transport-node'
import { headers } from '@nats-io/transport-node'
import type { NatsOptions, NatsSession } from '../connections/nats.js'
import { jsonOf, keepNatsConnected } from '../connections/nats.js'
import { exchangeTimeoutMs } from '../retry.js'
import type { Ring } from './bell.js'
import { checkPattern, isSubject, isTraceparent, makeRing, payloadText, notifyListener } from './ring.js'
import type { Listener, MonitoredBell } from './ring.js'

// The most rings in the client's buffer during one flush: 10,000 rings of about 300 bytes are 3 MB.
const unreadMax = 10_000

/** The rings sent on one connection; the server has not confirmed `unread` of them. */
interface Outgoing {
  readonly session: NatsSession
  unread: number
  confirming: Promise<void> | undefined
}

export function natsBell(options: NatsOptions): MonitoredBell {
  const { log } = options
  const listeners = new Map<Listener, Subscription | undefined>()
  const counts = { sent: 0, coalesced: 0, dropped: 0, failed: 0, trips: 0 }
  let outgoing: Outgoing | undefined
  let announced = Promise.resolve()
  let closed = false
  const keeper = keepNatsConnected({ name: 'bellwether bell', ...options }, onOpen)
  // Rings sent before the first try to connect has ended wait for its end.
  const firstTry = keeper.settled()

  function receive(listener: Listener, message: Msg): void {
    notifyListener(listener, makeRing(message.subject, jsonOf(message), message.headers?.get('traceparent')), log)
  }

  function subscribe(session: NatsSession, listener: Listener): void {
    const subscription = session.nats.subscribe(listener.pattern, {
      callback(error, message) {
        if (error === null) receive(listener, message)
        else log.warn({ err: error, pattern: listener.pattern }, 'bell subscription failed')
      },
    })
    listeners.set(listener, subscription)
  }

  async function announce(session: NatsSession, added: readonly Listener[]): Promise<void> {
    try {
      await session.flush(exchangeTimeoutMs)
    } catch (error) {
      log.warn({ err: error }, 'NATS server did not confirm the subscriptions')
      // Unconfirmed subscriptions may not receive rings: reconnect.
      await session.close()
      return
    }
    for (const listener of added) if (listeners.has(listener)) notifyListener(listener, undefined, log)
  }

  function onOpen(session: NatsSession): void {
    outgoing = { session, unread: 0, confirming: undefined }
    const added = [...listeners.keys()]
    for (const listener of added) subscribe(session, listener)
    announced = announce(session, added)
  }

  function publish(session: NatsSession, ring: Ring): void {
    const trace = isTraceparent(ring.traceparent) ? headers() : undefined
    if (ring.traceparent !== undefined) trace?.set('traceparent', ring.traceparent)
    session.nats.publish(ring.subject, payloadText(ring, log), defined({ headers: trace }))
  }

  /** Waits until the server has read everything sent, with one flush at a time. */
  async function confirm(to: Outgoing): Promise<void> {
    while (to.unread > 0) {
      const rings = to.unread
      try {
        await to.session.flush(exchangeTimeoutMs)
        counts.trips += 1
        counts.sent += rings
      } catch (error) {
        counts.failed += rings
        log.warn({ err: error, rings }, 'rings may be lost')
      }
      to.unread -= rings
    }
    to.confirming = undefined
  }

  function send(to: Outgoing, rings: readonly Ring[]): void {
    for (const ring of rings) {
      if (!isSubject(ring.subject) || to.unread >= unreadMax) {
        counts.dropped += 1
        continue
      }
      try {
        publish(to.session, ring)
        to.unread += 1
      } catch (error) {
        counts.failed += 1
        log.warn({ err: error, subject: ring.subject }, 'ring lost')
      }
    }
    to.confirming ??= confirm(to)
  }

  return {
    kind: 'nats',
    async ring(rings) {
      await firstTry
      if (outgoing === undefined || keeper.current() !== outgoing.session) counts.dropped += rings.length
      else send(outgoing, rings)
    },
    async listen(pattern, onRing) {
      checkPattern(pattern)
      if (closed) throw new InvalidInput('The bell is closed', { code: 'bell_closed' })
      const listener = { pattern, onRing }
      listeners.set(listener, undefined)
      const session = keeper.current()
      if (session === undefined) {
        await keeper.settled()
        await announced
      } else {
        subscribe(session, listener)
        await announce(session, [listener])
      }
      return {
        async stop() {
          const subscription = listeners.get(listener)
          listeners.delete(listener)
          if (subscription !== undefined && !subscription.isClosed()) subscription.unsubscribe()
        },
      }
    },
    status() {
      const connected = keeper.current() !== undefined
      return { ...counts, connected, healthy: connected }
    },
    async close() {
      closed = true
      await outgoing?.confirming
      listeners.clear()
      await keeper.close()
    },
  }
}
