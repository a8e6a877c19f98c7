/**
 * PostgreSQL for tests: one cluster per run (global-setup.ts) and one database per test file, a copy of a migrated template. The shared
 * cluster does not wait for the disk; a test that crashes servers starts its own (own-postgres.ts).
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import pg from 'pg'
import { inject } from 'vitest'
import { migrate } from '../../src/kernel/schema/migrate.js'
import type { Database } from '../../src/ports/database/database.js'
import { startEmbedded } from '../../src/ports/database/embedded.js'
import { openDatabase, type PoolOptions } from '../../src/ports/database/pool.js'
import type { Settings } from '../../src/ports/database/settings.js'
import { quietLog } from './quiet-log.js'

declare module 'vitest' {
  interface ProvidedContext {
    readonly postgresUrl: string
    /** The files of a migrated cluster that does not run. */
    readonly clusterSeed: string
  }
}

export interface FreshDatabase {
  readonly url: string
  readonly db: Database
  readonly drop: () => Promise<void>
}

const fast: Settings = {
  fsync: 'off',
  synchronous_commit: 'off',
  full_page_writes: 'off',
  max_connections: '600',
  max_prepared_transactions: '8',
}

interface TestCluster {
  readonly url: string
  readonly seed: string
  readonly remove: () => Promise<void>
}

/** Starts the shared cluster; `remove` stops it and removes its folder. `seed` is a copy of its files before it got databases. */
export async function startCluster(): Promise<TestCluster> {
  const folder = await testFolder()
  const seed = join(folder, 'seed')
  const options = { dataDir: join(folder, 'postgres'), log: quietLog }
  const first = await startEmbedded({ ...options, settings: fast })
  const db = await openDatabase({ url: first.url, poolSize: 1 })
  // Servers with other settings use the copies, too. The system outlives every server that a test kills.
  await db.query({ text: "alter system set fsync = 'off'" })
  await migrate(db)
  await db.close()
  await first.stop()
  copyCluster(join(options.dataDir, 'cluster'), seed)
  const embedded = await startEmbedded({ ...options, settings: fast })
  // Migrating takes longer than copying. A database that is copied has no sessions.
  const source = new URL(embedded.url).pathname.slice(1)
  await asAdmin(databaseAt(embedded.url, 'postgres'), `create database ${template} template ${source}`)
  return {
    url: embedded.url,
    seed,
    remove: async () => {
      await embedded.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/**
 * Gives the folder of an embedded database the files of a migrated cluster, which does not wait for the disk: creating and migrating one takes
 * longer. Tests of the first start create theirs.
 */
export function seedCluster(dataDir: string): void {
  mkdirSync(dirname(dataDir), { recursive: true, mode: 0o711 })
  mkdirSync(dataDir, { mode: 0o700 })
  copyCluster(inject('clusterSeed'), join(dataDir, 'cluster'))
}

// node does not copy owners.
const copyCluster = (from: string, to: string) => execFileSync('cp', ['-a', '--reflink=auto', from, to])

/** Creates a folder under /tmp, which the account of the server can reach. */
export function testFolder(): Promise<string> {
  return mkdtemp(join(tmpdir(), 'bellwether-test-')).then(readableByAll)
}

export interface FreshOptions extends Omit<PoolOptions, 'url'> {
  /** Without the kernel's schema. */
  readonly empty?: boolean
}

/** Creates a database with the kernel's schema in the shared cluster and opens a pool on it. */
export async function freshDatabase({ empty = false, ...options }: FreshOptions = {}): Promise<FreshDatabase> {
  const admin = inject('postgresUrl')
  const url = await createDatabase(admin, empty ? undefined : template)
  const db = await openDatabase({ ...options, url })
  return {
    url,
    db,
    drop: async () => {
      await db.close()
      await dropDatabase(admin, url)
    },
  }
}

/** What `freshDatabase` copies. */
export const template = 'migrated'

/** Returns the URL of a new database. */
export async function createDatabase(admin: string, copied?: string): Promise<string> {
  const name = `test_${crypto.randomUUID().replaceAll('-', '')}`
  const from = copied === undefined ? '' : ` template ${copied}`
  await asAdmin(admin, `create database ${name}${from} strategy file_copy`)
  return databaseAt(admin, name)
}

export async function dropDatabase(admin: string, url: string): Promise<void> {
  await asAdmin(admin, `drop database if exists ${new URL(url).pathname.slice(1)} with (force)`)
}

/** The URL of another database of the server. */
export const databaseAt = (url: string, name: string) => Object.assign(new URL(url), { pathname: `/${name}` }).href

export async function asAdmin<Row extends object>(url: string, sql: string): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 120_000, query_timeout: 120_000 })
  await client.connect()
  try {
    return (await client.query<Row>(sql)).rows
  } finally {
    await client.end()
  }
}

async function readableByAll(folder: string): Promise<string> {
  await chmod(folder, 0o755)
  return folder
}
