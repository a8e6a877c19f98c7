/**
 * Implements `Database` with a node-postgres pool. A connection with a broken transaction never returns to the pool. Every
 * statement, connection and idle transaction has a timeout. If the server is lost, calls in flight fail as `Retryable` and the
 * next call reconnects. The caller retries, because it knows whether the work may run twice.
 */
import { asError } from '@bellwether/base'
import { Retryable, Terminal } from '@bellwether/protocol'
import pg from './driver.js'
import { checkServer, clientConfig, type ConnectOptions } from './connect.js'
import type { Database, Queryable, Statement } from './database.js'
import { isBroken, translateError } from './pg-errors.js'

export interface PoolOptions extends ConnectOptions {
  /** Default 10: enough to keep a small server busy without queues inside it. */
  readonly poolSize?: number
  /** Called if a connection is lost before `close`; for counting and logging only. */
  readonly onLost?: (error: Error) => void
  /** Called once, if a pooler gives each transaction another connection without its prepared statements. */
  readonly onUnprepared?: (error: Error) => void
}

// The prepared statement does not exist, or exists already. In both cases the statement has not run and may be sent again.
const unpreparedCodes = new Set(['26000', '42P05'])

export async function openDatabase(options: PoolOptions): Promise<Database> {
  const bounds = await checkServer(options)
  const pool = new pg.Pool({
    ...clientConfig(options, bounds),
    max: options.poolSize ?? 10,
    idleTimeoutMillis: 60_000, // closes the extra connections of a burst after a minute
  })
  let closing: Promise<void> | undefined
  // A connection that is lost while idle, or between two statements of a transaction, emits 'error', which would end the
  // process without a listener. The next use of the connection rejects.
  const onError = (error: Error) => {
    // A server that stops right after `close` may end a connection before its socket has closed.
    if (closing === undefined) options.onLost?.(error)
  }
  pool.on('connect', (client) => client.on('error', onError))
  pool.on('error', () => undefined) // the pool emits the same event again

  let prepares = true
  /** True: from now on statements are sent unprepared, and this one may be sent again. */
  function unprepared(error: unknown): boolean {
    if (!(error instanceof Error) || !('code' in error) || !unpreparedCodes.has(String(error.code))) return false
    if (prepares) options.onUnprepared?.(error)
    prepares = false
    return true
  }
  const outgoing = (statement: Statement): pg.QueryConfig => (prepares ? statement : plain(statement)) as pg.QueryConfig

  return {
    // Hot path: one promise on top of the driver's. The driver copies the statement before it adds its own fields.
    query: <Row extends object>(statement: Statement) =>
      pool.query(outgoing(statement)).then(rowsOf<Row>, (error: unknown) => {
        if (!unprepared(error)) throw translateError(error)
        return pool.query(outgoing(statement)).then(rowsOf<Row>, fail)
      }),
    transaction: (run) => transaction({ pool, outgoing, unprepared }, run),
    close: () => (closing ??= pool.end()),
  }
}

function plain({ text, values }: Statement): Statement {
  return values === undefined ? { text } : { text, values }
}

function rowsOf<Row>(result: { readonly rows: unknown[] }): Row[] {
  return result.rows as Row[]
}

function fail(error: unknown): never {
  throw translateError(error)
}

interface Sending {
  readonly pool: pg.Pool
  readonly outgoing: (statement: Statement) => pg.QueryConfig
  readonly unprepared: (error: unknown) => boolean
}

async function transaction<T>({ pool, outgoing, unprepared }: Sending, run: (tx: Queryable) => Promise<T>): Promise<T> {
  const client = await pool.connect().catch(fail)
  let over = false
  let broken: unknown
  const tx: Queryable = {
    query: <Row extends object>(statement: Statement) => {
      if (over) return Promise.reject(transactionOver())
      return client.query(outgoing(statement)).then(rowsOf<Row>, (error: unknown) => {
        if (isBroken(error)) broken = error
        throw unprepared(error) ? transactionUnprepared(error) : translateError(error)
      })
    },
  }
  try {
    await client.query('begin')
    const result = await run(tx)
    over = true
    // After a failed statement the server turns a commit into a rollback without an error.
    const { command } = await client.query('commit')
    if (command !== 'COMMIT') throw transactionAborted()
    client.release()
    return result
  } catch (error) {
    over = true
    client.release(broken === undefined && !isBroken(error) ? await rollback(client) : true)
    throw translateError(error)
  }
}

/** False if the connection is clean again, else its error; the caller throws the original error. */
async function rollback(client: pg.PoolClient): Promise<Error | false> {
  try {
    await client.query('rollback')
    return false
  } catch (error) {
    return asError(error)
  }
}

function transactionOver(): Terminal {
  return new Terminal('A statement was sent after its transaction ended', {
    code: 'transaction_over',
    hint: 'Await every query inside the transaction, and do not use its handle afterwards.',
  })
}

/** The failed statement aborts the transaction; a retry sends its statements unprepared. */
function transactionUnprepared(cause: unknown): Retryable {
  return new Retryable('A connection pooler dropped the prepared statements', { code: 'unprepared', afterMs: 0, cause })
}

function transactionAborted(): Terminal {
  return new Terminal('The transaction was rolled back: one of its statements failed and the error was caught', {
    code: 'transaction_aborted',
    hint: 'Do not catch the error of a failed statement inside the transaction.',
  })
}
