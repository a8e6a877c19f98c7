/**
 * One lone PostgreSQL connection outside the pool, for LISTEN and for ringing. Always: connecting and each query are
 * bounded, and a connection whose query timed out is torn down, because its next answer would be the old one's.
 * Reconnecting is left to the link, ordinary work to the pool.
 */
import pg from 'pg'
import type { Connection } from './link.js'
import { gate } from './link.js'
import { exchangeMs } from './retry.js'

export interface LoneClient extends Connection {
  query(text: string, values?: unknown[]): Promise<void>
  onNotification(heard: (payload: string) => void): void
  /** Ends the connection at once, without a farewell: for one that may be half open. */
  sever(reason: Error): void
}

export async function openLoneClient(url: string, name: string): Promise<LoneClient> {
  const client = new pg.Client({
    connectionString: url,
    application_name: name,
    connectionTimeoutMillis: exchangeMs,
    query_timeout: exchangeMs,
    keepAlive: true,
  })
  const over = gate<unknown>()
  client.on('error', over.open)
  client.on('end', () => over.open(new Error('the server closed the connection')))

  function sever(reason: Error): void {
    over.open(reason)
    client.connection.stream.destroy()
  }

  try {
    await client.connect()
  } catch (error) {
    client.connection.stream.destroy()
    throw error
  }
  return {
    closed: over.opened,
    sever,
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
      await over.opened
    },
  }
}
