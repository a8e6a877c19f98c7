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

interface TestDatabase {
  readonly url: string
  readonly drop: () => Promise<void>
}

export interface FreshDatabase extends TestDatabase {
  readonly db: Database
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
  const { href } = Object.assign(new URL(embedded.url), { pathname: '/postgres' })
  await asAdmin(href, `create database ${template} template ${new URL(embedded.url).pathname.slice(1)}`)
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
  const created = await createDatabase(inject('postgresUrl'), empty ? undefined : template)
  const db = await openDatabase({ ...options, url: created.url })
  return {
    url: created.url,
    db,
    drop: async () => {
      await db.close()
      await created.drop()
    },
  }
}

/** The template of `freshDatabase`. */
const template = 'migrated'

async function createDatabase(adminUrl: string, copied?: string): Promise<TestDatabase> {
  const name = `test_${crypto.randomUUID().replaceAll('-', '')}`
  await asAdmin(
    adminUrl,
    `create database ${name}${copied === undefined ? '' : ` template ${copied}`} strategy file_copy`,
  )
  const url = new URL(adminUrl)
  url.pathname = `/${name}`
  return { url: url.href, drop: () => asAdmin(adminUrl, `drop database if exists ${name} with (force)`) }
}

async function asAdmin(url: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 120_000, query_timeout: 120_000 })
  await client.connect()
  try {
    await client.query(sql)
  } finally {
    await client.end()
  }
}

async function readableByAll(folder: string): Promise<string> {
  await chmod(folder, 0o755)
  return folder
}
