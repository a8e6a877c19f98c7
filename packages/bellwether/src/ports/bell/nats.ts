/**
 * The doorbell on core NATS, for many hosts. Always: it starts whether or not the server is up; rings while disconnected,
 * or faster than the server reads them, are dropped and counted, never piled up; after every connection, once the server
 * has the subscriptions, the listeners are told to look at the truth. Durable events are left to ports/stream.
 */
import { type Clock, type Log, type Random, systemClock, systemRandom } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { Msg, Subscription } from '@nats-io/transport-node'
import { headers } from '@nats-io/transport-node'
import type { NatsSession } from '../connections/nats.js'
import { keepNatsConnected } from '../connections/nats.js'
import { exchangeTimeoutMs } from '../retry.js'
import type { Ring } from './bell.js'
import { checkPattern, isSubject, isTraceparent, makeRing, parseJson, payloadText, notifyListener } from './ring.js'
import type { Listener, MonitoredBell } from './ring.js'

export interface NatsBellOptions {
  readonly servers: string | readonly string[]
  readonly log: Log
  /** Shown by the server's monitoring. */
  readonly name?: string
  readonly clock?: Clock
  readonly random?: Random
}

// What one unanswered flush may leave in the client's buffer: 10,000 rings of some 300 bytes are 3 MB.
const unreadMax = 10_000
// A forged message may be as large as the server allows; ours never are, so larger ones are not even parsed.
const parseMaxBytes = 64 * 1024

/** One connection's rings; `unread` of them are not yet confirmed by the server. */
interface Outgoing {
  readonly session: NatsSession
  unread: number
  confirming: Promise<void> | undefined
}

export function natsBell(options: NatsBellOptions): MonitoredBell {
  const { log, clock = systemClock, random = systemRandom, name = 'bellwether bell' } = options
  const listeners = new Map<Listener, Subscription | undefined>()
  const counts = { sent: 0, dropped: 0, failed: 0, trips: 0 }
  let outgoing: Outgoing | undefined
  let announced = Promise.resolve()
  let closed = false
  const link = keepNatsConnected({ servers: options.servers, name, log, clock, random, onOpen })
  // Rings before the outcome of the first attempt wait for it, and only for it.
  const firstAttempt = link.settled()

  function hear(listener: Listener, message: Msg): void {
    const payload = message.data.length <= parseMaxBytes ? parseJson(Buffer.from(message.data).toString()) : undefined
    notifyListener(listener, makeRing(message.subject, payload, message.headers?.get('traceparent')), log)
  }

  function subscribe(session: NatsSession, listener: Listener): void {
    const subscription = session.nats.subscribe(listener.pattern, {
      callback(error, message) {
        if (error === null) hear(listener, message)
        else log.warn({ err: error, pattern: listener.pattern }, 'a subscription to the bell failed')
      },
    })
    listeners.set(listener, subscription)
  }

  async function announce(session: NatsSession, told: readonly Listener[]): Promise<void> {
    try {
      await session.flush(exchangeTimeoutMs)
    } catch (error) {
      log.warn({ err: error }, 'the NATS server did not confirm the subscriptions')
      // Without its confirmation we cannot know what is heard: a new connection will say.
      await session.close()
      return
    }
    for (const listener of told) if (listeners.has(listener)) notifyListener(listener, undefined, log)
  }

  function onOpen(session: NatsSession): void {
    outgoing = { session, unread: 0, confirming: undefined }
    const told = [...listeners.keys()]
    for (const listener of told) subscribe(session, listener)
    announced = announce(session, told)
  }

  function publish(session: NatsSession, ring: Ring): void {
    const trace = isTraceparent(ring.traceparent) ? headers() : undefined
    if (ring.traceparent !== undefined) trace?.set('traceparent', ring.traceparent)
    session.nats.publish(ring.subject, payloadText(ring, log), trace === undefined ? {} : { headers: trace })
  }

  /** Asks the server, one question at a time, whether it has read what was sent. */
  async function confirm(to: Outgoing): Promise<void> {
    while (to.unread > 0) {
      const rings = to.unread
      try {
        await to.session.flush(exchangeTimeoutMs)
        counts.trips += 1
        counts.sent += rings
      } catch (error) {
        counts.failed += rings
        log.warn({ err: error, rings }, 'rings may have been lost')
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
        log.warn({ err: error, subject: ring.subject }, 'a ring was lost')
      }
    }
    to.confirming ??= confirm(to)
  }

  return {
    kind: 'nats',
    async ring(rings) {
      await firstAttempt
      if (outgoing === undefined || link.current() !== outgoing.session) counts.dropped += rings.length
      else send(outgoing, rings)
    },
    async listen(pattern, onRing) {
      checkPattern(pattern)
      if (closed) throw new InvalidInput('this bell is closed', { code: 'bell_closed' })
      const listener = { pattern, onRing }
      listeners.set(listener, undefined)
      const session = link.current()
      if (session === undefined) {
        await link.settled()
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
      const connected = link.current() !== undefined
      return { ...counts, connected, healthy: connected }
    },
    async close() {
      closed = true
      await outgoing?.confirming
      listeners.clear()
      await link.close()
    },
  }
}
