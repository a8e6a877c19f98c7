/**
 * The doorbell on PostgreSQL's LISTEN and NOTIFY: channel `bw`, letters {s: subject, p: payload, t?: traceparent}.
 * Always: after every LISTEN the listeners are told to look at the truth; a probe sent to ourselves shows whether
 * letters really arrive (a pooler in transaction mode swallows them), and when they do not we say so once. Sending is
 * left to notify-sender.ts, reconnecting to the link.
 */
import { type Clock, deferred, type Log, type Random, systemClock, systemRandom } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import { keepConnected } from '../connections/connection-keeper.js'
import type { ConnectionKeeper } from '../connections/connection-keeper.js'
import type { DedicatedClient } from '../connections/postgres.js'
import { openDedicatedClient } from '../connections/postgres.js'
import { exchangeTimeoutMs } from '../retry.js'
import type { Ring } from './bell.js'
import { notifySender } from './notify-sender.js'
import {
  checkPattern,
  isSubject,
  isTraceparent,
  messageMaxBytes,
  makeRing,
  parseJson,
  payloadFrom,
  payloadText,
  notifyListener,
} from './ring.js'
import type { Listener, MonitoredBell } from './ring.js'

export interface NotifyBellOptions {
  /** Used for ringing; may lead through a pooler. */
  readonly url: string
  /** Used for LISTEN; must lead to the server itself. Absent: `url`. */
  readonly directUrl?: string
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
  let link: ConnectionKeeper<DedicatedClient> | undefined
  let healthy = true
  let closed = false

  function hear(text: string): void {
    const { s, p, t, probe } = payloadFrom(parseJson(text))
    if (typeof probe === 'string') probes.get(probe)?.()
    if (typeof s !== 'string') return
    const ring = makeRing(s, p, t)
    for (const listener of [...listeners]) notifyListener(listener, ring, log)
  }

  async function probe(): Promise<'heard' | 'silent' | 'unsent'> {
    const id = Buffer.from(random.bytes(8)).toString('hex')
    const heard = deferred<'heard'>()
    const done = new AbortController()
    probes.set(id, () => heard.resolve('heard'))
    try {
      await sender.settled()
      if (!(await sender.sendProbe(JSON.stringify({ probe: id })))) return 'unsent'
      return await Promise.race([heard.promise, clock.sleep(probeWaitMs, done.signal).then(() => 'silent' as const)])
    } finally {
      done.abort()
      probes.delete(id)
    }
  }

  /** Probes one connection until it is over. */
  async function watch(client: DedicatedClient): Promise<void> {
    let proven = false
    const over = new AbortController()
    void client.closed.then(() => over.abort())
    while (!over.signal.aborted) {
      const answer = await probe()
      if (over.signal.aborted) break
      if (answer === 'heard') {
        if (!healthy) log.info({}, 'the bell is heard again')
        healthy = proven = true
      } else if (answer === 'silent' && proven) {
        // It worked on this very connection before: the connection is dead, though nobody told us.
        client.destroy(new Error('a probe of the bell did not come back'))
      } else if (answer === 'silent' && healthy) {
        healthy = false
        const hint = 'LISTEN needs a direct connection: set database.direct_url if database.url leads through a pooler'
        log.warn({ hint }, 'rings through PostgreSQL do not come back; work goes on by polling')
      }
      await clock.sleep(answer === 'unsent' ? Math.min(probeEveryMs, 5_000) : probeEveryMs, over.signal)
    }
  }

  function startListening(): ConnectionKeeper<DedicatedClient> {
    return keepConnected<DedicatedClient>({
      what: 'bell listener (PostgreSQL)',
      async open() {
        const client = await openDedicatedClient(options.directUrl ?? options.url, 'bellwether bell listener')
        client.onNotification(hear)
        try {
          await client.query('listen bw')
        } catch (error) {
          await client.close()
          throw error
        }
        return client
      },
      onOpen(client) {
        for (const listener of [...listeners]) notifyListener(listener, undefined, log)
        void watch(client)
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
        log.warn({ rings: rings.length - fit.length }, 'rings with an unfit subject were dropped')
      }
      await sender.send(fit.map((ring) => encodeRing(ring, log)))
    },
    async listen(pattern, onRing) {
      checkPattern(pattern)
      if (closed) throw new InvalidInput('this bell is closed', { code: 'bell_closed' })
      const listener = { pattern, onRing }
      const late = link?.current() !== undefined
      listeners.add(listener)
      link ??= startListening()
      if (late) notifyListener(listener, undefined, log)
      await link.settled()
      return {
        async stop() {
          listeners.delete(listener)
        },
      }
    },
    status() {
      const { connected, ...counts } = sender.counts()
      return { ...counts, connected: connected && (link === undefined || link.current() !== undefined), healthy }
    },
    async close() {
      closed = true
      listeners.clear()
      await Promise.all([sender.close(), link?.close()])
    },
  }
}
