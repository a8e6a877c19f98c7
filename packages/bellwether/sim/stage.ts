/** Opens a simulation world with the kernel: its own database, migrated and instrumented. */
import { readFileSync } from 'node:fs'
import { migrate } from '../src/kernel/schema/migrate.js'
import { openDatabase } from '../src/ports/database/pool.js'
import { openWorld, type World } from './engine/index.js'

export async function openKernelWorld(url: string): Promise<World> {
  const db = await openDatabase({ url, poolSize: 1 })
  try {
    await migrate(db)
    await db.query({ text: readFileSync(new URL('tables.sql', import.meta.url), 'utf8') })
  } finally {
    await db.close()
  }
  return openWorld({ url, schemas: ['state', 'cards', 'resource'], now: 'state.now', emptying: 'delete' })
}
