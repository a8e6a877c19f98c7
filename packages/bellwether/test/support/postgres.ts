/**
 * PostgreSQL for tests: one cluster per run (global-setup.ts) and one database per test file, a copy of a migrated template. The shared
 * cluster does not wait for the disk; a test that crashes servers starts its own (own-postgres.ts).
 */
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
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
  max_connections: '400',
  max_prepared_transactions: '8',
}

/** Starts the shared cluster; `remove` stops it and removes its folder. */
export async function startCluster(): Promise<{ readonly url: string; readonly remove: () => Promise<void> }> {
  const folder = await testFolder()
  const embedded = await startEmbedded({ dataDir: join(folder, 'postgres'), settings: fast, log: quietLog })
  await createTemplate(embedded.url)
  return {
    url: embedded.url,
    remove: async () => {
      await embedded.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

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

const template = 'migrated'

/** Creates the template of `freshDatabase`: migrating takes longer than copying. */
async function createTemplate(adminUrl: string): Promise<void> {
  const { url } = await createDatabase(adminUrl)
  const db = await openDatabase({ url, poolSize: 1 })
  try {
    await migrate(db)
  } finally {
    await db.close()
  }
  await asAdmin(adminUrl, `alter database ${new URL(url).pathname.slice(1)} rename to ${template}`)
}

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
