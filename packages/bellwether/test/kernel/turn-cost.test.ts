/** What a turn writes (decision 0015): rows, HOT updates and WAL bytes, which do not depend on the speed of the machine. */
import { expect, it } from 'vitest'
import { openKernel } from '../../src/kernel/kernel.js'
import { openDatabase } from '../../src/ports/database/pool.js'
import { kernelPerFile, project, target } from '../support/kernel.js'
import { silentBell } from '../support/silent-bell.js'

const t = kernelPerFile()
const agents = Array.from({ length: 100 }, (_, at) => `agent-${at}`)
const roundCount = 3
// Measured: 2,868, without full-page images, which a checkpoint adds.
const walMax = 3_000
const triesMax = 5

type Written = Readonly<Record<'inserted' | 'updated' | 'hot' | 'deleted' | 'images' | 'wal', number>>

/** Every eighth lease writes the key of its head; all other updates are HOT if nothing disturbs them. */
const isClean = ({ updated, hot, images }: Written): boolean => images === 0 && hot > updated - 0.4

it('a bulk turn inserts 5 rows and 2 of 16 others, updates 5 and writes at most 3,000 bytes of WAL', async () => {
  await t.agents(...agents)
  // One connection, so that the test can flush and read its counters.
  const db = await openDatabase({ url: t.url, poolSize: 1 })
  const kernel = openKernel({ db, bell: silentBell, ids: t.ids })
  const one = async <Row extends object>(text: string): Promise<Row> => (await db.query<Row>({ text }))[0]!
  const written = async () => {
    await db.query({ text: 'select pg_stat_force_next_flush()' })
    return one<Written>(`
      select s.*, w.wal_fpi::int as images, w.wal_bytes::int as wal from (
        select sum(n_tup_ins)::int as inserted, sum(n_tup_upd)::int as updated, sum(n_tup_hot_upd)::int as hot,
          sum(n_tup_del)::int as deleted
        from pg_stat_user_tables where schemaname in ('state', 'cards')) s,
        pg_stat_get_backend_wal(pg_backend_pid()) w`)
  }
  /** One turn of each agent, in one batch per verb. */
  const round = async () => {
    await kernel.enqueueMany(agents.map((agentId) => ({ projectId: project, agentId, payload: { job: 1 } })))
    const claimant = { workerTarget: target, workerId: 'w', max: agents.length, resumeLeaseSeconds: 30 }
    const { turns } = await kernel.claim(claimant)
    expect(turns).toHaveLength(agents.length)
    await Promise.all(turns.map((turn) => kernel.deliver({ ...turn, status: 'success', content: { text: 'ok' } })))
  }
  const measured = async (): Promise<Written> => {
    const before = await written()
    for (let at = 0; at < roundCount; at += 1) await round()
    const after = await written()
    const perTurn = (key: keyof Written) => (after[key] - before[key]) / (roundCount * agents.length)
    return {
      inserted: perTurn('inserted'),
      updated: perTurn('updated'),
      hot: perTurn('hot'),
      deleted: perTurn('deleted'),
      images: perTurn('images'),
      wal: perTurn('wal'),
    }
  }
  try {
    // The first leases wake the agents, which writes an index.
    await round()
    let perTurn = await measured()
    // A neighbour in the cluster may hold a snapshot, so that updates find no room, or checkpoint, so that WAL has page images.
    for (let tries = 1; tries < triesMax && !isClean(perTurn); tries += 1) perTurn = await measured()
    // Inbox row, queue row, the end, card, box entry, and two rows per 16 leases and starts; the head three times, the inbox row twice.
    const packed = (2 * Math.ceil(agents.length / 16)) / agents.length
    expect(perTurn).toMatchObject({ inserted: 5 + packed, updated: 5, deleted: 1 })
    // If no measurement was clean, only the rows count.
    expect(isClean(perTurn) ? perTurn.wal : 0).toBeLessThanOrEqual(walMax)
  } finally {
    await db.close()
  }
})
