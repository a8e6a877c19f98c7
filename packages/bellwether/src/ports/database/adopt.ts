/**
 * Checks over SQL that the server on a port belongs to this cluster: before it adopts a postmaster that an earlier process
 * left running, and after every start.
 */
import { realpath } from 'node:fs/promises'
import { poll, systemClock } from '@bellwether/base'
import { InvalidInput, Retryable, Terminal } from '@bellwether/protocol'
import pg from './driver.js'
import { superuser, type Identity } from './cluster.js'
import type { Layout } from './layout.js'
import { translateError } from './pg-errors.js'
import {
  findPostmaster,
  type Postmaster,
  processStart,
  readPidFile,
  stopPostmaster,
  watchPostmaster,
} from './postmaster.js'

const database = 'bellwether'
const responseMs = 10_000
const recoveryMs = 300_000 // time to replay 2 GB of WAL on a slow disk

/**
 * The verified and ready postmaster that an earlier process left running on this cluster, or undefined. It stops a postmaster
 * that runs other binaries (after an upgrade) or uses another port than the wanted one.
 */
export async function adoptPostmaster(
  layout: Layout,
  identity: Identity,
  wanted: { readonly binary: string; readonly port: number },
): Promise<Postmaster | undefined> {
  const found = await readPidFile(layout.cluster)
  const seen = found && (await findPostmaster(found.pid, layout.cluster))
  if (!found || !seen) return undefined

  const port = await readyPort(layout, found.pid, seen.start)
  if (port === 'gone') return undefined
  await verifyServer(layout, identity, port)
  const postmaster = watchPostmaster(found.pid, port, seen.start)
  const otherBinary = seen.exe !== undefined && seen.exe !== wanted.binary
  const otherPort = wanted.port !== 0 && wanted.port !== port
  if (!otherBinary && !otherPort) return postmaster
  await stopPostmaster(postmaster)
  return undefined
}

/** Waits for a server that may still be recovering or shutting down. */
async function readyPort(layout: Layout, pid: number, born: string): Promise<number | 'gone'> {
  const state = await poll(systemClock, { everyMs: 50, withinMs: recoveryMs }, async () => {
    if ((await processStart(pid)) !== born) return 'gone' as const
    const file = await readPidFile(layout.cluster)
    return file?.pid === pid && file.status === 'ready' ? file.port : undefined
  })
  if (state !== undefined) return state
  throw new Retryable(
    `PostgreSQL (process ${pid}) was left running and did not become ready within ${recoveryMs / 1000} s`,
    { code: 'postmaster_stuck', hint: `Read ${layout.log}. To stop the server, run: kill -INT ${pid}` },
  )
}

/** Throws if the server belongs to another cluster; creates our database at the first start. */
export async function verifyServer(layout: Layout, identity: Identity, port: number): Promise<void> {
  const client = new pg.Client({
    connectionString: urlOf(identity, port, 'postgres'),
    application_name: 'bellwether start',
    connectionTimeoutMillis: responseMs,
    query_timeout: responseMs,
  })
  client.on('error', () => undefined) // the query in flight rejects with the same error
  try {
    await client.connect()
    const result = await client.query<{ id: string; folder: string; made: boolean }>(
      `select system_identifier::text as id, current_setting('data_directory') as folder,
              exists (select from pg_database where datname = '${database}') as made
         from pg_control_system()`,
    )
    const row = result.rows[0]
    const ours =
      row?.id === identity.systemIdentifier && (await realpath(row.folder)) === (await realpath(layout.cluster))
    if (!ours) throw anotherServer(layout, port)
    if (!row.made) await client.query(`create database ${database}`)
  } catch (error) {
    const known = translateError(error)
    throw known instanceof InvalidInput && known.code === 'database_login' ? anotherServer(layout, port) : known
  } finally {
    await client.end().catch(() => undefined) // the result does not depend on closing
  }
}

export function urlOf(identity: Identity, port: number, name: string = database): string {
  return `postgresql://${superuser}:${identity.password}@127.0.0.1:${port}/${name}`
}

function anotherServer(layout: Layout, port: number): Terminal {
  return new Terminal(`The server on port ${port} does not belong to "${layout.cluster}"`, {
    code: 'another_server',
    hint: 'Nothing was signalled or changed. Stop the process that uses the port, or choose another port.',
  })
}
