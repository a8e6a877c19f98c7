/**
 * A small PostgreSQL pool for the checks, independent of the product's own. Every failure that a restart of the database can
 * cure is a `Retryable`.
 */
import { errorMessage } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import pg from 'pg'

export interface Queryable {
  query<Row extends object>(statement: { readonly text: string; readonly values?: readonly unknown[] }): Promise<Row[]>
}

export interface Database extends Queryable {
  close(): Promise<void>
}

const connectMs = 2_000
const connections = 3
// Connection failures, lack of resources, and shutdown by an operator.
const passing = /^(08|53|57)/

export function openDatabase(url: string, applicationName: string): Database {
  const pool = new pg.Pool({
    connectionString: url,
    application_name: applicationName,
    max: connections,
    connectionTimeoutMillis: connectMs,
  })
  // An idle connection that breaks is an event; the next query gets its own error.
  pool.on('error', () => undefined)
  pool.on('connect', (client) => client.on('error', () => undefined))
  return {
    async query<Row extends object>({ text, values = [] }: { text: string; values?: readonly unknown[] }) {
      try {
        return (await pool.query(text, [...values])).rows as Row[]
      } catch (error) {
        if (error instanceof pg.DatabaseError && !passing.test(error.code ?? '')) throw error
        throw new Retryable(`The database does not answer: ${errorMessage(error)}`, {
          code: 'database_away',
          cause: error,
        })
      }
    },
    close: () => pool.end(),
  }
}
