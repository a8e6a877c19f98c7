/**
 * PostgreSQL for tests: one cluster per run (global-setup.ts) and one database per test file. The shared cluster does not wait for the
 * disk; a test that crashes servers starts its own with `durable: true`.
 */
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { inject } from 'vitest'
import type { Database } from '../../src/ports/database/database.js'
import { startEmbedded, type Embedded } from '../../src/ports/database/embedded.js'
import { openDatabase, type PoolOptions } from '../../src/ports/database/pool.js'
import type { Settings } from '../../src/ports/database/settings.js'
import { quietLog } from './quiet-log.js'

declare module 'vitest' {
  interface ProvidedContext {
    readonly postgresUrl: string
  }
}

export interface TestCluster extends Embedded {
  readonly dataDir: string
  /** Creates an empty database in this cluster. */
  createDatabase(): Promise<TestDatabase>
  /** Stops the server and removes its folder. */
  remove(): Promise<void>
}

export interface TestDatabase {
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

export async function testCluster(options: { readonly durable?: boolean } = {}): Promise<TestCluster> {
  const folder = await testFolder()
  const dataDir = join(folder, 'postgres')
  const settings = options.durable ? {} : fast
  const embedded = await startEmbedded({ dataDir, settings, log: quietLog })
  return {
    ...embedded,
    dataDir,
    createDatabase: () => createDatabase(embedded.url),
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

/** Creates a database in the shared cluster and opens a pool on it. */
export async function freshDatabase(options: Omit<PoolOptions, 'url'> = {}): Promise<FreshDatabase> {
  const created = await createDatabase(inject('postgresUrl'))
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

async function createDatabase(adminUrl: string): Promise<TestDatabase> {
  const name = `test_${crypto.randomUUID().replaceAll('-', '')}`
  await asAdmin(adminUrl, `create database ${name}`)
  const url = new URL(adminUrl)
  url.pathname = `/${name}`
  return { url: url.href, drop: () => asAdmin(adminUrl, `drop database if exists ${name} with (force)`) }
}

async function asAdmin(url: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000, query_timeout: 30_000 })
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
