/**
 * The bell on PostgreSQL's LISTEN and NOTIFY: channel `bw`, messages {s: subject, p: payload, t?: traceparent}. After every
 * LISTEN all listeners are called without a ring, so that they read the database. A probe to this process shows whether
 * messages arrive (a pooler in transaction mode drops them) and logs one warning if they do not. notify-sender.ts sends; doorbell.ts
 * shares the LISTEN connection.
 */
import {
  type Clock,
  deferred,
  type Log,
  objectOf,
  parseJson,
  type Random,
  systemClock,
  systemRandom,
} from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { keepConnected } from '../connections/connection-keeper.js'
import type { ConnectionKeeper } from '../connections/connection-keeper.js'
import { openDedicatedClient } from '../connections/postgres.js'
import { exchangeTimeoutMs } from '../retry.js'
import type { Ring } from './bell.js'
import { openDoorbell, type ListenConnection } from './doorbell.js'
import { notifySender } from './notify-sender.js'
import {
  checkPattern,
  isSubject,
  isTraceparent,
  messageMaxBytes,
  makeRing,
  payloadText,
  notifyListener,
} from './ring.js'
import type { Listener, MonitoredBell } from './ring.js'

export interface NotifyBellOptions {
  /** For sending; may lead through a pooler. */
  readonly url: string
  /** For LISTEN; must lead to the server itself. Default: `url`. */
  readonly directUrl?: string
  /** The socket at which the processes of this machine share one LISTEN connection. Default: this process listens alone. */
  readonly sharedAt?: string
  readonly log: Log
  readonly clock?: Clock
  readonly random?: Random
  readonly probeEveryMs?: number
  readonly probeWaitMs?: number
}

function encodeRing(ring: Ring, log: Log): string {
  const trace = isTraceparent(ring.traceparent) ? `,"t":"${ring.traceparent}"` : ''
  const write = (payload: string) => `{"s":${JSON.stringify(ring.subject)},"p":${payload}${trace}}`
  const full = write(payloadText(ring, log))
  return Buffer.byteLength(full) <= messageMaxBytes ? full : write('{}')
}

/** Rings that wake the same workers are one: a woken worker claims all there is. Other rings carry pointers. */
const keyOf = ({ subject }: Ring, text: string): string => (subject.endsWith('.wakeup') ? subject : text)

export function notifyBell(options: NotifyBellOptions): MonitoredBell {
  const {
    log,
    clock = systemClock,
    random = systemRandom,
    probeEveryMs = 30_000,
    probeWaitMs = exchangeTimeoutMs,
  } = options
  const sender = notifySender({ url: options.url, log, clock, random })
  const listeners = new Set<Listener>()
  const probes = new Map<string, () => void>()
  let keeper: ConnectionKeeper<ListenConnection> | undefined
  let announced: Promise<unknown> = Promise.resolve()
  let healthy = true
  let closed = false

  function receive(text: string): void {
    const { s, p, t, probe } = objectOf(parseJson(text))
    if (typeof probe === 'string') probes.get(probe)?.()
    if (typeof s !== 'string') return
    const ring = makeRing(s, p, t)
    for (const listener of [...listeners]) notifyListener(listener, ring, log)
  }

  async function probe(): Promise<'arrived' | 'lost' | 'not sent'> {
    const id = Buffer.from(random.bytes(8)).toString('hex')
    const arrived = deferred<'arrived'>()
    const done = new AbortController()
    probes.set(id, () => arrived.resolve('arrived'))
    try {
      await sender.settled()
      if (!(await sender.sendProbe(JSON.stringify({ probe: id })))) return 'not sent'
      return await Promise.race([arrived.promise, clock.sleep(probeWaitMs, done.signal).then(() => 'lost' as const)])
    } finally {
      done.abort()
      probes.delete(id)
    }
  }

  /** Probes one connection until it closes. */
  async function watch(client: ListenConnection): Promise<void> {
    let proven = false
    const over = new AbortController()
    void client.closed.then(() => over.abort())
    while (!over.signal.aborted) {
      const answer = await probe()
      if (over.signal.aborted) break
      if (answer === 'arrived') {
        if (!healthy) log.info({}, 'bell works again')
        healthy = proven = true
      } else if (answer === 'lost' && proven) {
        // An earlier probe arrived on this connection, so the connection itself is dead.
        client.destroy(new Error('The bell probe did not arrive'))
      } else if (answer === 'lost' && healthy) {
        healthy = false
        const hint = 'LISTEN needs a direct connection. Set database.direct_url if database.url leads through a pooler.'
        log.warn({ hint }, 'rings through PostgreSQL do not arrive, workers find work by polling')
      }
      await clock.sleep(answer === 'not sent' ? Math.min(probeEveryMs, 5_000) : probeEveryMs, over.signal)
    }
  }

  async function listenAlone(onMessage: (text: string) => void): Promise<ListenConnection> {
    const client = await openDedicatedClient(options.directUrl ?? options.url, 'bellwether bell listener')
    client.onNotification(onMessage)
    try {
      await client.query('listen bw')
    } catch (error) {
      await client.close()
      throw error
    }
    return client
  }

  /** Calls a listener without a ring as soon as its rings arrive, because earlier ones may have been missed. */
  async function announce(connection: ListenConnection, listener: Listener): Promise<void> {
    if (connection.subscribe !== undefined) await connection.subscribe(listener.pattern)
    if (listeners.has(listener)) notifyListener(listener, undefined, log)
  }

  function startListening(): ConnectionKeeper<ListenConnection> {
    const { sharedAt } = options
    return keepConnected<ListenConnection>({
      what: 'bell listener (PostgreSQL)',
      open: () =>
        sharedAt === undefined
          ? listenAlone(receive)
          : openDoorbell({ path: sharedAt, listen: listenAlone, onMessage: receive, clock, log }),
      onOpen(connection) {
        announced = Promise.all([...listeners].map((listener) => announce(connection, listener)))
        if (connection.subscribe === undefined) void watch(connection)
        else healthy = true
      },
      log,
      clock,
      random,
    })
  }

  return {
    kind: 'notify',
    async ring(rings) {
      const fit = rings.filter((ring) => isSubject(ring.subject))
      if (fit.length < rings.length) {
        sender.drop(rings.length - fit.length)
        log.warn({ rings: rings.length - fit.length }, 'rings with an invalid subject dropped')
      }
      await sender.send(
        fit.map((ring) => {
          const text = encodeRing(ring, log)
          return { key: keyOf(ring, text), text }
        }),
      )
    },
    async listen(pattern, onRing) {
      checkPattern(pattern)
      if (closed) throw new InvalidInput('The bell is closed', { code: 'bell_closed' })
      const listener = { pattern, onRing }
      const connection = keeper?.current()
      listeners.add(listener)
      keeper ??= startListening()
      if (connection !== undefined) await announce(connection, listener)
      await keeper.settled()
      await announced
      return {
        async stop() {
          if (listeners.delete(listener)) keeper?.current()?.unsubscribe?.(pattern)
        },
      }
    },
    status() {
      const { connected, ...counts } = sender.counts()
      return { ...counts, connected: connected && (keeper === undefined || keeper.current() !== undefined), healthy }
    },
    async close() {
      closed = true
      listeners.clear()
      await Promise.all([sender.close(), keeper?.close()])
    },
  }
}
