/** Plans do not depend on statistics: batches stay lookups by key after the tables were analysed while idle. */
import { systemClock, systemRandom } from '@bellwether/base'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openKernel } from '../../src/kernel/kernel.js'
import { migrate } from '../../src/kernel/schema/migrate.js'
import type { Database } from '../../src/ports/database/database.js'
import { openDatabase } from '../../src/ports/database/pool.js'
import { uuidv7 } from '../../src/ports/ids.js'
import { project, target } from '../support/kernel.js'
import { startOwnPostgres } from '../support/processes/own-postgres.js'
import { silentBell } from '../support/silent-bell.js'

const agents = Array.from({ length: 1_000 }, (_, at) => `a${at}`)
const turnsOf = (ids: readonly string[]) => ids.map((agentId) => ({ projectId: project, agentId }))

let server: Awaited<ReturnType<typeof startOwnPostgres>>
let db: Database
beforeAll(async () => {
  server = await startOwnPostgres()
  // One connection, so that the test can flush its counters and its plans are the first ones.
  db = await openDatabase({ url: server.url, poolSize: 1 })
  await migrate(db)
})
afterAll(async () => {
  await db.close()
  await server.stop()
})

/** Index entries read while `run` ran, by index. */
async function read(run: () => Promise<unknown>): Promise<Readonly<Record<string, number>>> {
  const counts = async () => {
    await db.query({ text: 'select pg_stat_force_next_flush()' })
    return db.query<{ name: string; read: number }>({
      text: `select indexrelname as name, idx_tup_read::int as read from pg_stat_user_indexes where schemaname = 'state' order by 1`,
    })
  }
  const before = await counts()
  await run()
  const after = await counts()
  return Object.fromEntries(after.map(({ name, read: total }, at) => [name, total - before[at]!.read]))
}

it('[T3.1b] [T3.5] enqueue, claim and deliver read a few index entries per turn although statistics show empty indexes', async () => {
  const kernel = openKernel({ db, bell: silentBell, ids: uuidv7(systemClock, systemRandom) })
  await kernel.putAgents(agents.map((agentId) => ({ projectId: project, agentId, workerTarget: target })))
  const claimant = { workerTarget: target, workerId: 'w', max: 1_000, resumeLeaseSeconds: 30 }
  const settle = async () => {
    const { turns } = await kernel.claim(claimant)
    await Promise.all(turns.map((turn) => kernel.deliver({ ...turn, status: 'success', content: { text: 'ok' } })))
    return turns.length
  }
  // An idle fleet with some history, as a nightly vacuum finds it.
  await kernel.enqueueMany(turnsOf(agents))
  expect(await settle()).toBe(agents.length)
  await db.query({ text: 'vacuum (analyze)' })

  const few = 30 * agents.length
  const many = (reads: Readonly<Record<string, number>>) => Object.entries(reads).filter(([, entries]) => entries > few)
  // The first turns are leased, the second ones are queued behind them.
  expect(many(await read(() => kernel.enqueueMany(turnsOf(agents))))).toEqual([])
  expect(many(await read(() => kernel.enqueueMany(turnsOf(agents))))).toEqual([])
  expect(many(await read(settle))).toEqual([])
  expect(await settle()).toBe(agents.length)
})
