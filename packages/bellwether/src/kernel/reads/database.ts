/** Reads facts about the database itself: its clock, its identity, its version, and whether it answers. */
import type { Queryable } from '../../ports/database/database.js'

export async function databaseNow(db: Queryable): Promise<Date> {
  const [row] = await db.query<{ now: Date }>({ name: 'bw_now', text: 'select state.now() as now' })
  if (row === undefined) throw new Error('state.now() returned no row')
  return row.now
}

export interface DatabaseIdentity {
  readonly id: string
  readonly now_ms: number
}

/**
 * Identifies the cluster, its timeline and the database. A restart keeps all three; another data folder is another cluster; a
 * restored backup or a promoted standby has another timeline.
 */
export async function databaseIdentity(db: Queryable): Promise<DatabaseIdentity | undefined> {
  const [row] = await db.query<DatabaseIdentity>({
    name: 'bw_database_identity',
    text: `select format('pg:%s:%s:%s', (select system_identifier from pg_control_system()),
        left(pg_walfile_name(pg_current_wal_lsn()), 8),
        (select oid from pg_database where datname = current_database())) as id,
      (extract(epoch from state.now()) * 1000)::double precision as now_ms`,
  })
  return row
}

/** Rejects if the database does not answer. */
export async function pingDatabase(db: Queryable): Promise<void> {
  await db.query({ text: 'select 1' })
}

export async function serverVersion(db: Queryable): Promise<string> {
  const [row] = await db.query<{ version: string }>({ text: `select current_setting('server_version') as version` })
  return row?.version ?? ''
}
