/**
 * One lone PostgreSQL connection outside the pool, for LISTEN and for ringing. Always: connecting and each query are
 * bounded, and a connection whose query timed out is torn down, because its next answer would be the old one's.
 * Reconnecting is left to the link, ordinary work to the pool.
 */
import pg from 'pg'
import { deferred } from '@bellwether/base'
import type { Connection } from './connection-keeper.js'
import { exchangeTimeoutMs } from '../retry.js'

export interface DedicatedClient extends Connection {
  query(text: string, values?: unknown[]): Promise<void>
  onNotification(onPayload: (payload: string) => void): void
  /** Ends the connection at once, without a farewell: for one that may be half open. */
  destroy(reason: Error): void
}

export async function openDedicatedClient(url: string, name: string): Promise<DedicatedClient> {
  const client = new pg.Client({
    connectionString: url,
    application_name: name,
    connectionTimeoutMillis: exchangeTimeoutMs,
    query_timeout: exchangeTimeoutMs,
    keepAlive: true,
  })
  const closed = deferred<unknown>()
  client.on('error', closed.resolve)
  client.on('end', () => closed.resolve(new Error('the server closed the connection')))

  function sever(reason: Error): void {
    closed.resolve(reason)
    client.connection.stream.destroy()
  }

  try {
    await client.connect()
  } catch (error) {
    client.connection.stream.destroy()
    throw error
  }
  return {
    closed: closed.promise,
    destroy: sever,
    async query(text, values) {
      try {
        await client.query(text, values)
      } catch (error) {
        const reason = error instanceof Error ? error : new Error(String(error))
        // An error that the server reported leaves the connection usable; anything else leaves it in doubt.
        if (!(error instanceof pg.DatabaseError)) sever(reason)
        throw reason
      }
    },
    onNotification(heard) {
      client.on('notification', (message) => heard(message.payload ?? ''))
    },
    async close() {
      sever(new Error('closed by its owner'))
      await closed.promise
    },
  }
}
