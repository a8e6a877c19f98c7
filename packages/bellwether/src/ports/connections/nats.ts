/**
 * Keeps a connection to NATS open. The client's own reconnection is off: messages published while the server is unavailable
 * are not buffered and sent later, and requests in flight fail as soon as the connection closes. The owner subscribes again
 * after a reconnection.
 */
import { defined, parseJson, systemClock, systemRandom, type Clock, type Log, type Random } from '@bellwether/base'
import { InvalidInput } from '@bellwether/protocol'
import type { ConnectionOptions, Msg, NatsConnection } from '@nats-io/transport-node'
import { connect } from '@nats-io/transport-node'
import type { Connection, ConnectionKeeper } from './connection-keeper.js'
import { keepConnected } from './connection-keeper.js'
import { closeTimeoutMs, exchangeTimeoutMs, withTimeout } from '../retry.js'

// Three unanswered pings close the connection.
const pingEveryMs = 5_000

export interface NatsSession extends Connection {
  readonly nats: NatsConnection
  /** Resolves when the server has read everything sent so far; rejects after `ms`. */
  flush(ms: number): Promise<void>
}

/** In PEM. */
export interface NatsTls {
  readonly ca?: string | undefined
  readonly cert?: string | undefined
  readonly key?: string | undefined
}

/** How to reach the servers. */
interface NatsAddress {
  /** One or several `nats://[user:password@]host:port`, as a list or separated by commas. */
  readonly servers: string | readonly string[]
  /** Absent: TLS only if a URL begins with tls:// or the server asks for it, with the authorities of Node. */
  readonly tls?: NatsTls | undefined
}

/** What every adapter on NATS takes. */
export interface NatsOptions extends NatsAddress {
  readonly log: Log
  /** Shown by the server's monitoring. */
  readonly name?: string
  readonly clock?: Clock
  readonly random?: Random
}

// Messages of Bellwether are smaller; a larger one is forged and is not parsed.
const parseMaxBytes = 64 * 1_024

/** The JSON of a message; undefined if it has none. */
export const jsonOf = ({ data }: Pick<Msg, 'data'>): unknown =>
  data.length <= parseMaxBytes ? parseJson(Buffer.from(data).toString()) : undefined

function parseServer(text: string): URL {
  try {
    return new URL(text.includes('://') ? text : `nats://${text}`)
  } catch {
    // The message leaves the URL out because it may contain a password.
    throw new InvalidInput('Invalid NATS server URL', {
      code: 'invalid_url',
      hint: 'Use nats://[user:password@]host:port; separate several servers with commas.',
    })
  }
}

/** Turns credentials in a URL into connection options, because the client ignores them in the URL. */
export function connectionOptions(servers: string | readonly string[], tls?: NatsTls): ConnectionOptions {
  const texts = (typeof servers === 'string' ? servers.split(',') : servers).map((text) => text.trim())
  const urls = texts.filter((text) => text !== '').map(parseServer)
  const options: ConnectionOptions = { servers: urls.map((url) => url.host) }
  for (const url of urls) {
    const [user, pass] = [decodeURIComponent(url.username), decodeURIComponent(url.password)]
    if (user !== '') Object.assign(options, pass === '' ? { token: user } : { user, pass })
    if (url.protocol === 'tls:') options.tls = {}
  }
  if (tls !== undefined) options.tls = defined({ ...tls })
  return options
}

export function keepNatsConnected(
  options: NatsOptions & { readonly name: string },
  onOpen?: (session: NatsSession) => void,
): ConnectionKeeper<NatsSession> {
  const { log, name, clock = systemClock, random = systemRandom } = options
  const target = connectionOptions(options.servers, options.tls)
  return keepConnected<NatsSession>({
    what: `${name} (NATS)`,
    log,
    clock,
    random,
    ...defined({ onOpen }),
    async open() {
      const nats = await connect({
        ...target,
        name,
        reconnect: false,
        timeout: exchangeTimeoutMs,
        pingInterval: pingEveryMs,
        maxPingOut: 2,
        noAsyncTraces: true,
      })
      void report(nats, log)
      return {
        nats,
        closed: nats.closed(),
        flush: (ms) => withTimeout(clock, ms, 'flushing the NATS connection', nats.flush()),
        async close() {
          try {
            if (!nats.isClosed()) await withTimeout(clock, closeTimeoutMs, 'closing the NATS connection', nats.close())
          } catch (error) {
            log.warn({ err: error }, 'the NATS connection did not close cleanly')
          }
        },
      }
    },
  })
}

/** Logs errors that the server reports outside of a call, such as missing permissions. */
async function report(nats: NatsConnection, log: Log): Promise<void> {
  for await (const status of nats.status()) {
    if (status.type === 'error') log.warn({ err: status.error }, 'the NATS server reported an error')
  }
}
