/**
 * How one connection to PostgreSQL is made: its URL is checked, its bounds are set, its server is new enough.
 * Leaves pooling to pool.ts. `openListener` is for LISTEN alone, on a URL that reaches the server without a pooler.
 */
import { InvalidInput, Retryable, Terminal } from '@bellwether/protocol'
import pg from 'pg'
import { translateError } from './pg-errors.js'
import { types } from './pg-types.js'

export interface ConnectOptions {
  readonly url: string
  readonly applicationName?: string
  readonly connectTimeoutMs?: number
  readonly statementTimeoutMs?: number
}

/** 'session': we set the bounds at start-up. 'role': a pooler forbids that, and the role carries them. */
export type Bounds = 'session' | 'role'

const oldestServer = 150_000
const connectTimeoutMs = 10_000
const statementTimeoutMs = 30_000
// Shorter than a turn's lease: a stuck transaction holds back every reader of events.
const idleInTransactionMs = 30_000
// The server's own timeout must win: only a dead network lets the client's fire.
const networkGraceMs = 5_000

export function clientConfig(options: ConnectOptions, bounds: Bounds): pg.ClientConfig {
  const statementMs = options.statementTimeoutMs ?? statementTimeoutMs
  return {
    connectionString: options.url,
    application_name: options.applicationName ?? 'bellwether',
    connectionTimeoutMillis: options.connectTimeoutMs ?? connectTimeoutMs,
    query_timeout: statementMs + networkGraceMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    types,
    ...(bounds === 'session' && {
      statement_timeout: statementMs,
      idle_in_transaction_session_timeout: idleInTransactionMs,
    }),
  }
}

/** Connects once, so that a wrong URL, login or server is told at start, in words, and not by the first query. */
export async function checkServer(options: ConnectOptions): Promise<Bounds> {
  try {
    return await probe(options, 'session')
  } catch (error) {
    // PgBouncer answers 08P01 to start-up parameters that it does not track.
    if ((error as { code?: unknown }).code !== '08P01') throw refused(error)
  }
  return probe(options, 'role').catch((error: unknown) => {
    throw refused(error)
  })
}

async function probe(options: ConnectOptions, bounds: Bounds): Promise<Bounds> {
  const client = connectable(options.url, clientConfig(options, bounds))
  try {
    await client.connect()
    const asked = await client.query<{ version: string; idle: string }>(
      `select current_setting('server_version_num') as version,
              current_setting('idle_in_transaction_session_timeout') as idle`,
    )
    const row = asked.rows[0]
    if (Number(row?.version) < oldestServer) throw tooOld(Number(row?.version))
    if (row?.idle === '0') throw unbounded(client.user ?? 'ROLE')
    return bounds
  } finally {
    // Whatever the connection says while it closes, the outcome is already known.
    await client.end().catch(() => undefined)
  }
}

export interface ListenerOptions extends Omit<ConnectOptions, 'statementTimeoutMs'> {
  /** Called once when the connection is gone for any reason but our own `end()`. */
  readonly onLost: (error: Error) => void
}

/** A connected client of its own, for LISTEN. Reconnecting, and looking at the truth afterwards, is the bell's. */
export async function openListener(options: ListenerOptions): Promise<pg.Client> {
  const client = connectable(options.url, {
    ...clientConfig(options, 'role'),
    query_timeout: options.connectTimeoutMs ?? connectTimeoutMs,
  })
  let reported = true
  client.on('error', (error: Error) => {
    if (reported) return
    reported = true
    options.onLost(error)
  })
  try {
    await client.connect()
  } catch (error) {
    await client.end().catch(() => undefined)
    throw translateError(error)
  }
  reported = false
  return client
}

function connectable(url: string, config: pg.ClientConfig): pg.Client {
  if (!/^postgres(ql)?:\/\//.test(url)) throw badUrl()
  try {
    const client = new pg.Client(config)
    client.on('error', () => undefined) // an error while nobody waits is told by the next call, not by a crash
    return client
  } catch (error) {
    throw badUrl(error)
  }
}

/** The URL itself is never repeated: it holds a password. */
function badUrl(cause?: unknown): InvalidInput {
  return new InvalidInput('The database URL cannot be read', {
    code: 'database_url',
    cause,
    hint: 'It looks like postgresql://USER:PASSWORD@HOST:5432/NAME, with special characters percent-encoded.',
  })
}

/** What is neither a known refusal nor an outage (TLS, the protocol, a server that is not PostgreSQL). */
function refused(error: unknown): Error {
  const known = translateError(error)
  if (known instanceof Terminal || known instanceof Retryable) return known
  return new InvalidInput(`The database cannot be used: ${known.message}`, {
    code: 'database_refused',
    cause: error,
    hint: 'Check host, port and sslmode in [database] url.',
  })
}

function tooOld(version: number): InvalidInput {
  return new InvalidInput(`PostgreSQL ${Math.floor(version / 10_000)} is too old: 15 or later is needed`, {
    code: 'database_version',
    hint: 'Upgrade the server, or leave [database] url out to use the embedded PostgreSQL.',
  })
}

function unbounded(role: string): InvalidInput {
  return new InvalidInput('Transactions may stay idle for ever on this database, which would hold back all events', {
    code: 'database_unbounded',
    hint: `A pooler keeps us from setting it, so run: alter role "${role}" set idle_in_transaction_session_timeout = '30s'; alter role "${role}" set statement_timeout = '30s'`,
  })
}
