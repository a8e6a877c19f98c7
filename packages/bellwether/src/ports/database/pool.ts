/**
 * PostgreSQL through node-postgres: a URL becomes a `Database`. Always true here: no connection that saw a broken
 * transaction goes back to the pool; every statement, connection and idle transaction has a bound; losing the server
 * fails the calls in flight as `Retryable` and never the process, and the next call connects anew.
 * Retrying is left to the caller, who knows whether the work may run twice.
 */
import { Retryable, Terminal } from '@bellwether/protocol'
import pg from 'pg'
import { checkServer, clientConfig, type ConnectOptions } from './connect.js'
import type { Database, Queryable, Statement } from './database.js'
import { isBroken, translateError } from './pg-errors.js'

export interface PoolOptions extends ConnectOptions {
  /** 10 unless told: two per core of a small server keeps it busy without queueing inside it. */
  readonly poolSize?: number
  /** Told of connections lost while nobody was waiting on them (a count or a log line; nothing to repair). */
  readonly onLost?: (error: Error) => void
  /** Told once, when a pooler in between turns out to give each transaction another connection, without its prepared statements. */
  readonly onUnprepared?: (error: Error) => void
}

// No such prepared statement; it is there already. Either way the statement has not run, and may be sent again.
const unpreparedCodes = new Set(['26000', '42P05'])

export async function openDatabase(options: PoolOptions): Promise<Database> {
  const bounds = await checkServer(options)
  const pool = new pg.Pool({
    ...clientConfig(options, bounds),
    max: options.poolSize ?? 10,
    idleTimeoutMillis: 60_000, // lets a burst's extra connections go after a minute
  })
  const onLost = options.onLost ?? (() => undefined)
  // A connection killed while idle, or between two statements of a transaction, is an 'error' event, which would end
  // the process if nobody listened. Whoever uses the connection next gets its own error.
  pool.on('connect', (client) => client.on('error', onLost))
  pool.on('error', () => undefined) // the same event again, from the pool

  let prepares = true
  /** True: from now on nothing is prepared, and the statement may be sent again. */
  function unprepared(error: unknown): boolean {
    if (!(error instanceof Error) || !('code' in error) || !unpreparedCodes.has(String(error.code))) return false
    if (prepares) options.onUnprepared?.(error)
    prepares = false
    return true
  }
  const outgoing = (statement: Statement): pg.QueryConfig => (prepares ? statement : plain(statement)) as pg.QueryConfig

  let closing: Promise<void> | undefined
  return {
    // Hot: one promise over the driver's. The driver copies the statement before it adds its own fields.
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
    // After a failed statement the server answers a commit with a rollback, without an error of its own.
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

/** False when the connection is clean again, otherwise what is wrong with it; the caller's error is the one to tell. */
async function rollback(client: pg.PoolClient): Promise<Error | false> {
  try {
    await client.query('rollback')
    return false
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error))
  }
}

function transactionOver(): Terminal {
  return new Terminal('A statement was sent after its transaction ended', {
    code: 'transaction_over',
    hint: 'Await every query inside the transaction, and do not keep its handle.',
  })
}

/** The transaction is lost with its first statement that failed; the next one prepares nothing. */
function transactionUnprepared(cause: unknown): Retryable {
  return new Retryable('A pooler in between does not keep prepared statements', {
    code: 'unprepared',
    afterMs: 0,
    cause,
  })
}

function transactionAborted(): Terminal {
  return new Terminal('The transaction was rolled back: a statement in it had failed and the failure was caught', {
    code: 'transaction_aborted',
    hint: 'Let a failed statement’s error leave the transaction.',
  })
}
