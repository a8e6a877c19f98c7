/**
 * Migrates a database to this version: runs each numbered migration once, and replaces the verbs (functions) when their text changes. A lock
 * makes processes that start at the same time migrate once. A database that is newer than this program is rejected, because its verbs
 * would be replaced by older ones.
 */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Terminal } from '@bellwether/protocol'
import type { Database, Queryable } from '../../ports/database/database.js'

// Resolved from the package, so that src/ and dist/ read the same files.
const kernelFolder = new URL('../../../src/kernel/', import.meta.url)
const migrationLock = 0x62_77_01 // 'bw' 01: any number that no other advisory lock in this database uses

/** Checksums under which version 0.1 recorded migrations whose comments and line breaks have changed since. */
const checksumsOfFirstVersion: Readonly<Record<string, string>> = {
  '0001_tables': '7281c215a42de628c125c6d54bc8726a800f07ee2e867be49fd343441f1c4725',
  '0002_tool_hosts': '2e4e480a987631917c11cb04cfada4addfe88173bad441afb4488ce59598f95b',
  '0004_keys': '87f718ee62dadaeb4a48eb562826787c57c9e50e4f498067e9c8ee9599a0aba1',
}

interface SqlFile {
  readonly name: string
  readonly text: string
}

function sqlFiles(folder: URL): SqlFile[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.sql'))
    .sort()
    .map((name) => ({
      name: name.replace(/\.sql$/, ''),
      text: readFileSync(fileURLToPath(new URL(name, folder)), 'utf8'),
    }))
}

export function migrations(): SqlFile[] {
  return sqlFiles(new URL('schema/migrations/', kernelFolder))
}

/** Every function of the kernel (`create or replace` statements only), then the planner settings of the functions. */
function verbs(): SqlFile[] {
  const planner = readFileSync(new URL('schema/planner.sql', kernelFolder), 'utf8')
  return [...sqlFiles(new URL('verbs/', kernelFolder)), { name: 'planner', text: planner }]
}

export interface Migrated {
  readonly applied: readonly string[]
  readonly verbsReplaced: boolean
}

export async function migrate(db: Database): Promise<Migrated> {
  // The role of a worker may read the record, and may not take part in a migration.
  if (await isCurrent(db)) return { applied: [], verbsReplaced: false }
  return db.transaction(async (tx) => {
    await tx.query({ text: 'set local statement_timeout = 0' })
    await tx.query({ text: 'select pg_advisory_xact_lock($1)', values: [migrationLock] })
    await tx.query({ text: 'create schema if not exists bellwether' })
    await tx.query({
      text: `create table if not exists bellwether.migrations (
        name text primary key, checksum text not null,
          applied_at timestamptz not null default transaction_timestamp())`,
    })
    const applied = await runMigrations(tx)
    // A migration may drop functions, views and triggers together with a table.
    const verbsReplaced = await replaceVerbs(tx, applied.length > 0)
    return { applied, verbsReplaced }
  })
}

async function isCurrent(db: Database): Promise<boolean> {
  const [found] = await db.query<{ there: boolean }>({
    text: "select to_regclass('bellwether.migrations') is not null as there",
  })
  if (found?.there !== true) return false
  const rows = await db.query<{ name: string; checksum: string }>({
    text: 'select name, checksum from bellwether.migrations',
  })
  const done = new Map(rows.map((row) => [row.name, row.checksum]))
  const known = migrations()
  const isDone = (file: SqlFile) =>
    [checksum([file]), checksumsOfFirstVersion[file.name]].includes(done.get(file.name) ?? 'none')
  return done.size === known.length + 1 && done.get('verbs') === checksum(verbs()) && known.every(isDone)
}

async function runMigrations(tx: Queryable): Promise<string[]> {
  const done = await tx.query<{ name: string; checksum: string }>({
    text: "select name, checksum from bellwether.migrations where name <> 'verbs' order by name",
  })
  const known = new Map(migrations().map((file) => [file.name, file]))
  for (const row of done) {
    const file = known.get(row.name)
    if (file === undefined) {
      throw new Terminal(
        `Cannot migrate the database: it has migration "${row.name}", which this version does not know`,
        {
          code: 'database_is_newer',
          hint: 'run the newer version of Bellwether that created it, or restore a backup from before the upgrade',
        },
      )
    }
    if (checksum([file]) !== row.checksum && checksumsOfFirstVersion[row.name] !== row.checksum) {
      throw new Terminal(`Cannot migrate the database: migration "${row.name}" was changed after it ran`, {
        code: 'migration_changed',
        hint: 'restore its text and write a new migration instead',
      })
    }
    known.delete(row.name)
  }
  for (const file of known.values()) {
    await tx.query({ text: file.text })
    await remember(tx, file.name, checksum([file]))
  }
  return [...known.keys()]
}

async function replaceVerbs(tx: Queryable, anyway: boolean): Promise<boolean> {
  const files = verbs()
  const wanted = checksum(files)
  const [present] = await tx.query<{ checksum: string }>({
    text: "select checksum from bellwether.migrations where name = 'verbs'",
  })
  if (present?.checksum === wanted && !anyway) return false
  // A function may call functions of later files: PostgreSQL checks a body when it first runs.
  await tx.query({ text: 'set local check_function_bodies = off' })
  for (const file of files) await tx.query({ text: file.text })
  await remember(tx, 'verbs', wanted)
  return true
}

async function remember(tx: Queryable, name: string, sum: string): Promise<void> {
  await tx.query({
    text: `insert into bellwether.migrations (name, checksum) values ($1, $2)
      on conflict (name) do update set checksum = excluded.checksum, applied_at = excluded.applied_at`,
    values: [name, sum],
  })
}

/** What bellwether.migrations stores about a file. */
export function checksum(files: readonly SqlFile[]): string {
  const hash = createHash('sha256')
  for (const file of files) hash.update(file.name).update('\0').update(file.text).update('\0')
  return hash.digest('hex')
}
