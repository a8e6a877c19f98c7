/**
 * The server over SQL: is the one that answers on this port really the one of this cluster? Asked before a postmaster
 * that an earlier process left behind is taken over, and after every start.
 */
import { realpath } from 'node:fs/promises'
import { InvalidInput, Retryable, Terminal } from '@bellwether/protocol'
import pg from 'pg'
import { superuser, type Identity } from './cluster.js'
import type { Layout } from './layout.js'
import { translateError } from './pg-errors.js'
import { poll } from './poll.js'
import {
  processStart,
  readPidFile,
  findPostmaster,
  stopPostmaster,
  watchPostmaster,
  type Postmaster,
} from './postmaster.js'

const database = 'bellwether'
const answerMs = 10_000
const recoveryMs = 300_000 // replaying 2 GB of log on a slow disk

/**
 * The postmaster that an earlier process left running on this cluster, proven and ready, or nothing. One that runs
 * other binaries (an upgrade replaced them) or must move to another port is stopped instead.
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

/** It may still be recovering, or be on its way out. */
async function readyPort(layout: Layout, pid: number, born: string): Promise<number | 'gone'> {
  const state = await poll({ everyMs: 50, withinMs: recoveryMs }, async () => {
    if ((await processStart(pid)) !== born) return 'gone' as const
    const file = await readPidFile(layout.cluster)
    return file?.pid === pid && file.status === 'ready' ? file.port : undefined
  })
  if (state !== undefined) return state
  throw new Retryable(`PostgreSQL (process ${pid}) was left running and does not become ready`, {
    code: 'postmaster_stuck',
    hint: `Read ${layout.log}, and stop it by hand if need be: kill -INT ${pid}`,
  })
}

/** Refuses a server that is not this cluster's; makes our database if this is its first start. */
export async function verifyServer(layout: Layout, identity: Identity, port: number): Promise<void> {
  const client = new pg.Client({
    connectionString: urlOf(identity, port, 'postgres'),
    application_name: 'bellwether start',
    connectionTimeoutMillis: answerMs,
    query_timeout: answerMs,
  })
  client.on('error', () => undefined) // the call in flight fails with it
  try {
    await client.connect()
    const asked = await client.query<{ id: string; folder: string; made: boolean }>(
      `select system_identifier::text as id, current_setting('data_directory') as folder,
              exists (select from pg_database where datname = '${database}') as made
         from pg_control_system()`,
    )
    const row = asked.rows[0]
    const ours =
      row?.id === identity.systemIdentifier && (await realpath(row.folder)) === (await realpath(layout.cluster))
    if (!ours) throw anotherServer(layout, port)
    if (!row.made) await client.query(`create database ${database}`)
  } catch (error) {
    const known = translateError(error)
    throw known instanceof InvalidInput && known.code === 'database_login' ? anotherServer(layout, port) : known
  } finally {
    await client.end().catch(() => undefined) // the outcome is already known
  }
}

export function urlOf(identity: Identity, port: number, name: string = database): string {
  return `postgresql://${superuser}:${identity.password}@127.0.0.1:${port}/${name}`
}

function anotherServer(layout: Layout, port: number): Terminal {
  return new Terminal(`The server on port ${port} is not the one of ${layout.cluster}`, {
    code: 'another_server',
    hint: 'Nothing was signalled or changed. Stop the process that took the port, or choose another port.',
  })
}
