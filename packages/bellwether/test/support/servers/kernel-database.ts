/**
 * Databases of test kernels, with a clock that tests move. Creating one takes ten times as long as emptying one, so the next test gets a
 * database again if the test before left no session, no prepared transaction and no change of a schema in it, and not many rows.
 */
import { systemClock } from '@bellwether/base'
import pg from 'pg'
import { inject } from 'vitest'
import { openDatabase } from '../../../src/ports/database/pool.js'
import { asAdmin, createDatabase, databaseAt, dropDatabase, type FreshDatabase } from '../postgres.js'

declare module 'vitest' {
  interface ProvidedContext {
    readonly emptyKernel: EmptyKernel
  }
}

interface EmptyKernel {
  /** Stands for every table, column, function and trigger of the template. */
  readonly fingerprint: string
  /** Gives all tables and sequences the content that they have in the template. */
  readonly reset: string
}

const template = 'kernel'
const spares = 'spare_databases'
/** A database with more than this was filled by a test of large tables: it is not emptied. */
const bytesMax = 24 * 1_048_576
// A closed connection ends its session a moment later.
const endingTries = 40
const endingMs = 25

const clock = `
  create table state.test_clock (
    started_at timestamptz not null, rate double precision not null, offset_seconds double precision not null);
  insert into state.test_clock values (clock_timestamp(), 1, 0);
  create or replace function state.now() returns timestamptz language sql volatile as
    'select started_at + (clock_timestamp() - started_at) * rate + make_interval(secs => offset_seconds) from state.test_clock'`

/** Creates the template from a migrated database. */
export async function createKernelTemplate(url: string, migrated: string): Promise<EmptyKernel> {
  await asAdmin(url, `create table ${spares} (name text primary key)`)
  await asAdmin(url, `create database ${template} template ${migrated}`)
  const client = await connect(databaseAt(url, template))
  try {
    await client.query(clock)
    const { rows } = await client.query<{ fingerprint: string }>(`select ${fingerprint} as fingerprint`)
    return { fingerprint: rows[0]!.fingerprint, reset: await resetOf(client) }
  } finally {
    await client.end()
  }
}

const own = 'where oid >= 16384'
const fingerprint = `(select md5(string_agg(entry, ',' order by entry)) from (
  select concat('class ', oid, xmin) as entry from pg_class ${own}
  union all select concat('function ', oid, xmin) from pg_proc ${own}
  union all select concat('trigger ', oid, xmin) from pg_trigger ${own}
  union all select concat('constraint ', oid, xmin) from pg_constraint ${own}
  union all select concat('schema ', oid, xmin) from pg_namespace
  union all select concat('column ', attrelid, '.', attnum, xmin) from pg_attribute where attrelid >= 16384
  union all select concat('setting ', xmin) from pg_db_role_setting
    where setdatabase = (select oid from pg_database where datname = current_database())) entries)`

async function resetOf(client: pg.Client): Promise<string> {
  const { rows: relations } = await client.query<{ name: string; kind: string }>(`
    select format('%I.%I', nspname, relname) as name, relkind as kind from pg_class c
      join pg_namespace n on n.oid = relnamespace where relkind in ('r', 'S') and c.oid >= 16384 order by 1`)
  const statements: string[] = []
  for (const { name } of relations.filter(({ kind }) => kind === 'r')) {
    const { rows } = await client.query<{ content: string | null }>(
      `select quote_literal(jsonb_agg(to_jsonb(t))) as content from ${name} t`,
    )
    statements.push(`delete from ${name}`)
    const { content } = rows[0]!
    if (content !== null)
      statements.push(`insert into ${name} select * from jsonb_populate_recordset(null::${name}, ${content})`)
  }
  for (const { name } of relations.filter(({ kind }) => kind === 'S')) {
    const { rows } = await client.query<{ position: string }>(
      `select concat_ws(', ', last_value, is_called::text) as position from ${name}`,
    )
    statements.push(`select setval('${name}', ${rows[0]!.position})`)
  }
  // No trigger and no foreign key looks at these changes.
  return ['begin', 'set local session_replication_role = replica', ...statements, 'commit'].join(';\n')
}

/** Only a reused database may have held rows of an earlier test. */
export async function kernelDatabase(isReused: boolean): Promise<FreshDatabase> {
  const admin = inject('postgresUrl')
  const url = (isReused ? await takeSpare(admin) : undefined) ?? (await createDatabase(admin, template))
  const db = await openDatabase({ url })
  return {
    url,
    db,
    async drop() {
      await db.close()
      if (isReused && (await isEmptied(url)))
        await asAdmin(admin, `insert into ${spares} values ('${new URL(url).pathname.slice(1)}')`)
      else await dropDatabase(admin, url)
    },
  }
}

async function takeSpare(admin: string): Promise<string | undefined> {
  const [spare] = await asAdmin<{ name: string }>(
    admin,
    `delete from ${spares} where name = (select name from ${spares} limit 1 for update skip locked) returning name`,
  )
  return spare && databaseAt(admin, spare.name)
}

/** Empties the database, unless the test left something else in it. */
async function isEmptied(url: string): Promise<boolean> {
  const empty = inject('emptyKernel')
  const client = await connect(url)
  try {
    for (let tries = 0; ; tries += 1) {
      const { rows } = await client.query<{ sessions: number; isLike: boolean }>(`select
        (select count(*)::int from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
          and backend_type = 'client backend') as sessions,
        not exists (select from pg_prepared_xacts where database = current_database())
          and pg_database_size(current_database()) < ${bytesMax}
          and ${fingerprint} = '${empty.fingerprint}' as "isLike"`)
      const { sessions, isLike } = rows[0]!
      if (!isLike || tries === endingTries) return false
      if (sessions === 0) break
      await systemClock.sleep(endingMs)
    }
    await client.query(empty.reset)
    return true
  } finally {
    await client.end()
  }
}

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 120_000, query_timeout: 120_000 })
  await client.connect()
  return client
}
