/**
 * A PostgreSQL connection outside the pool, for LISTEN and NOTIFY. Connecting and every query have a timeout; a query that
 * times out destroys the connection, because the next query would read the late answer. The connection keeper reconnects.
 */
import pg from '../database/driver.js'
import { asError, deferred, defined } from '@bellwether/base'
import type { Connection } from './connection-keeper.js'
import { exchangeTimeoutMs } from '../retry.js'

export interface DedicatedClient extends Connection {
  /** `name`: the server parses and plans the statement once per connection. */
  query(text: string, values?: unknown[], name?: string): Promise<void>
  onNotification(onPayload: (payload: string) => void): void
  /** Closes the socket at once, without the protocol's goodbye: for a connection that may be half open. */
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
    async query(text, values, name) {
      try {
        await client.query({ text, ...defined({ values, name }) })
      } catch (error) {
        const reason = asError(error)
        // After an error that the server reported the connection is usable; after any other error it may not be.
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
