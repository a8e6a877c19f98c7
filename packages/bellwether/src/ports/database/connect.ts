/**
 * Opens one connection to PostgreSQL: checks the URL and the server's version and sets the timeouts. pool.ts does the pooling.
 */
import { InvalidInput, Retryable, Terminal } from '@bellwether/protocol'
import pg from './driver.js'
import { translateError } from './pg-errors.js'
import { types } from './pg-types.js'

export interface ConnectOptions {
  readonly url: string
  readonly applicationName?: string
  readonly connectTimeoutMs?: number
  readonly statementTimeoutMs?: number
}

/** Where the timeouts are set. 'session': at connect. 'role': on the database role, because a pooler forbids start-up parameters. */
export type Bounds = 'session' | 'role'

const oldestServer = 150_000
const connectTimeoutMs = 10_000
const statementTimeoutMs = 30_000
// Shorter than a turn's lease: a stuck transaction holds up every reader of events.
const idleInTransactionMs = 30_000
// Longer than the server's timeout, so that the client's timeout fires only if the network is dead.
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

/** Connects once, so that a wrong URL, login or server is reported at start with a clear message. */
export async function checkServer(options: ConnectOptions): Promise<Bounds> {
  try {
    return await probe(options, 'session')
  } catch (error) {
    // PgBouncer rejects start-up parameters that it does not track with 08P01.
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
    const result = await client.query<{ version: string; idle: string }>(
      `select current_setting('server_version_num') as version,
              current_setting('idle_in_transaction_session_timeout') as idle`,
    )
    const row = result.rows[0]
    if (Number(row?.version) < oldestServer) throw tooOld(Number(row?.version))
    if (row?.idle === '0') throw unbounded(client.user ?? 'ROLE')
    return bounds
  } finally {
    // The result does not depend on closing.
    await client.end().catch(() => undefined)
  }
}

function connectable(url: string, config: pg.ClientConfig): pg.Client {
  if (!/^postgres(ql)?:\/\//.test(url)) throw badUrl()
  try {
    const client = new pg.Client(config)
    client.on('error', () => undefined) // without a listener an error while idle would crash the process; the next call rejects
    return client
  } catch (error) {
    throw isFileError(error) ? unreadable(error) : badUrl(error)
  }
}

/** The driver reads the files of sslrootcert, sslcert and sslkey. */
const isFileError = (error: unknown): error is Error & { readonly path: string } =>
  error instanceof Error && 'syscall' in error && 'path' in error

function unreadable(error: Error & { readonly path: string }): InvalidInput {
  return new InvalidInput(`Cannot read ${error.path}: ${error.message}`, {
    code: 'cannot_read_file',
    cause: error,
    hint: 'Correct sslrootcert, sslcert or sslkey in [database] url; this account must be able to read the file.',
  })
}

/** The message leaves the URL out because it contains a password. */
function badUrl(cause?: unknown): InvalidInput {
  return new InvalidInput('Invalid database URL', {
    code: 'database_url',
    cause,
    hint: 'Use postgresql://USER:PASSWORD@HOST:5432/NAME and percent-encode special characters.',
  })
}

/** Wraps errors that are neither a known refusal nor an outage: TLS, protocol errors, a server that is not PostgreSQL. */
function refused(error: unknown): Error {
  const known = translateError(error)
  if (known instanceof Terminal || known instanceof Retryable) return known
  return new InvalidInput(`Cannot use the database: ${known.message}`, {
    code: 'database_refused',
    cause: error,
    hint: 'Check host, port and sslmode in [database] url.',
  })
}

function tooOld(version: number): InvalidInput {
  return new InvalidInput(
    `PostgreSQL ${Math.floor(version / 10_000)} is too old: Bellwether needs version 15 or later`,
    { code: 'database_version', hint: 'Upgrade the server, or remove [database] url to use the embedded PostgreSQL.' },
  )
}

function unbounded(role: string): InvalidInput {
  return new InvalidInput('The database does not limit idle transactions, so a stuck one would hold up all events', {
    code: 'database_unbounded',
    hint: `A pooler prevents Bellwether from setting the limit. Run: alter role "${role}" set idle_in_transaction_session_timeout = '30s'; alter role "${role}" set statement_timeout = '30s'`,
  })
}
