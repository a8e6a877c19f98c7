/**
 * Describes what a figure was measured on: the machine and the PostgreSQL server that all contenders share, with its durability settings,
 * because a server that does not sync is not comparable.
 */
import { availableParallelism, cpus, release, totalmem, type } from 'node:os'
import pg from 'pg'

export interface Machine {
  readonly cpu: string
  readonly cores: number
  readonly memory_mb: number
  readonly os: string
}

export interface Server {
  readonly version: string
  readonly fsync: string
  readonly synchronous_commit: string
  readonly full_page_writes: string
  readonly shared_buffers: string
}

export function machine(): Machine {
  return {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: availableParallelism(),
    memory_mb: Math.round(totalmem() / 2 ** 20),
    os: `${type()} ${release()}`,
  }
}

export async function server(databaseUrl: string): Promise<Server> {
  const client = new pg.Client({ connectionString: databaseUrl })
  await client.connect()
  try {
    const { rows } = await client.query<Server>(
      `select current_setting('server_version') as version, current_setting('fsync') as fsync,
              current_setting('synchronous_commit') as synchronous_commit,
              current_setting('full_page_writes') as full_page_writes,
              current_setting('shared_buffers') as shared_buffers`,
    )
    return rows[0]!
  } finally {
    await client.end()
  }
}
