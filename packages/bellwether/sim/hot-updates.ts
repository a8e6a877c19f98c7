/**
 * Checks hazard 14: 1,000 beats are all HOT updates, which write no index. Prints one JSON object in the format of the simulation, so that a
 * mutation can name it.
 */
import { parseArgs } from 'node:util'
import { systemClock, systemRandom } from '@bellwether/base'
import { openKernel } from '../src/kernel/kernel.js'
import { migrate } from '../src/kernel/schema/migrate.js'
import { openDatabase } from '../src/ports/database/pool.js'
import { uuidv7 } from '../src/ports/ids.js'
import { quietBell } from './race.js'

const { values } = parseArgs({ options: { url: { type: 'string' } } })
const db = await openDatabase({ url: values.url ?? '', poolSize: 1 })
const kernel = openKernel({ db, bell: quietBell, ids: uuidv7(systemClock, systemRandom) })
const agents = Array.from({ length: 100 }, (_, index) => `a${index}`)
await migrate(db)
await kernel.putAgents(agents.map((agentId) => ({ projectId: 'p', agentId, workerTarget: 'w' })))
await kernel.enqueueMany(agents.map((agentId) => ({ projectId: 'p', agentId })))
const { turns } = await kernel.claim({ workerTarget: 'w', workerId: 'one', max: 100, resumeLeaseSeconds: 30 })

interface Counts {
  readonly n_tup_upd: number
  readonly n_tup_hot_upd: number
}
const counts = async (): Promise<Counts> => {
  await db.query({ text: 'select pg_stat_force_next_flush()' })
  const [row] = await db.query<Counts>({
    text: `select sum(n_tup_upd)::int as n_tup_upd, sum(n_tup_hot_upd)::int as n_tup_hot_upd from pg_stat_user_tables
      where relname in ('agent_state_head', 'agent_inbox')`,
  })
  return row!
}
await db.query({ text: 'vacuum state.agent_state_head' })
await db.query({ text: 'vacuum state.agent_inbox' })
const before = await counts()
for (let round = 0; round < 10; round += 1) await kernel.beat(turns, null)
const after = await counts()
await db.close()

const updates = after.n_tup_upd - before.n_tup_upd
const hot = after.n_tup_hot_upd - before.n_tup_hot_upd
// A full page costs a few HOT updates; an index on a column that beats change costs all of them.
const cold = updates < 2_000 || hot < 0.9 * updates
const found = cold ? [{ breaks: 'beats stay HOT', finding: `${hot} of ${updates} updates by beats were HOT` }] : []
process.stdout.write(`${JSON.stringify({ figures: { updates, hot }, found })}\n`)
