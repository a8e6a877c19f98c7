/**
 * Held snapshots (decision 0014): verbs do not read the dead versions of earlier turns again, and skip no row although they continue where
 * they stopped.
 */
import pg from 'pg'
import { expect, it } from 'vitest'
import { openKernel } from '../../src/kernel/kernel.js'
import { enqueue, turnRow } from '../../src/kernel/verbs/turn/enqueue.js'
import { openDatabase } from '../../src/ports/database/pool.js'
import { kernelPerFile, project, target } from '../support/kernel.js'
import { headOf } from '../support/kernel-rows.js'
import { deliverTurn, enqueueTurn } from '../support/kernel-turns.js'
import { silentBell } from '../support/silent-bell.js'

const t = kernelPerFile()
const agents = ['ann', 'ben']
const turnCount = 300
// Index pages get deeper and a lookup passes the versions of up to eight epochs; versions of all turns would be thousands of pages.
const growthMax = 60

it('[T3.1b] [T3.2a] [T3.5] enqueue, claim and deliver read as few pages after 300 turns under a held snapshot as before', async () => {
  await t.agents(...agents)
  // An autovacuum reads pages too, and on a busy machine it lasts longer than the rounds that are measured.
  await t.all(`do $$ declare v_table regclass; begin
    for v_table in select oid from pg_class where relkind = 'r' and relnamespace::regnamespace::text in ('state', 'cards') loop
      execute format('alter table %s set (autovacuum_enabled = off, toast.autovacuum_enabled = off)', v_table);
    end loop;
  end $$`)
  // One connection, so that the test can flush and read its counters.
  const db = await openDatabase({ url: t.url, poolSize: 1 })
  const kernel = openKernel({ db, bell: silentBell, ids: t.ids })
  const holder = new pg.Client({ connectionString: t.url })
  await holder.connect()

  const pages = async (): Promise<number> => {
    await db.query({ text: 'select pg_stat_force_next_flush()' })
    const [row] = await db.query<{ pages: number }>({
      text: `select sum(heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read)::int as pages
        from pg_statio_user_tables where schemaname in ('state', 'cards')`,
    })
    return row!.pages
  }
  const cost = async <T>(run: () => Promise<T>): Promise<{ readonly pages: number; readonly result: T }> => {
    const before = await pages()
    const result = await run()
    return { pages: (await pages()) - before, result }
  }
  /** One turn of each agent, with a second one queued behind it. */
  const round = async () => {
    const wanted = [...agents, ...agents].map((agentId) => ({ projectId: project, agentId }))
    const enqueue = await cost(() => kernel.enqueueMany(wanted))
    const claimant = { workerTarget: target, workerId: 'w', max: 10, resumeLeaseSeconds: 30 }
    const claim = await cost(() => kernel.claim(claimant))
    const { turns } = claim.result
    expect(turns).toHaveLength(agents.length)
    const end = (which: typeof turns) =>
      Promise.all(which.map((turn) => kernel.deliver({ ...turn, status: 'success', content: { text: 'ok' } })))
    const deliver = await cost(() => end(turns))
    await end((await kernel.claim(claimant)).turns)
    return { enqueue: enqueue.pages, claim: claim.pages, deliver: deliver.pages }
  }

  try {
    await round()
    const before = await round()
    await holder.query('begin isolation level repeatable read')
    await holder.query('select 1')
    for (let turns = 0; turns < turnCount; turns += 2 * agents.length) await round()
    // The least of three: a round may be the first to use another index page.
    const rounds = [await round(), await round(), await round()]
    const least = (verb: 'enqueue' | 'claim' | 'deliver') => Math.min(...rounds.map((one) => one[verb]))
    const after = { enqueue: least('enqueue'), claim: least('claim'), deliver: least('deliver') }
    process.stdout.write(`pages per call before ${JSON.stringify(before)} and after ${JSON.stringify(after)}\n`)
    for (const verb of ['enqueue', 'claim', 'deliver'] as const)
      expect(after[verb] - before[verb], verb).toBeLessThan(growthMax)
  } finally {
    await holder.end()
    await db.close()
  }
})

/** A kernel with one connection, so that each claim continues where the last one stopped, and its claims. */
async function oneSession() {
  const db = await openDatabase({ url: t.url, poolSize: 1 })
  const kernel = openKernel({ db, bell: silentBell, ids: t.ids })
  const claim = async (workerTarget = target) => {
    const { turns } = await kernel.claim({ workerTarget, workerId: 'w', max: 10, resumeLeaseSeconds: 30 })
    return turns
  }
  return { kernel, claim, close: () => db.close() }
}
const names = (turns: readonly { readonly agentId: string }[]) => turns.map((turn) => turn.agentId).toSorted()

it('[T3.2a] a claim takes a row whose transaction was open during the last claim of the session', async () => {
  await t.agents('late', 'early')
  const { claim, close } = await oneSession()
  await t.db.transaction(async (tx) => {
    await enqueue(tx, [turnRow(t.ids, { projectId: project, agentId: 'late', instruction: 'x' })])
    await enqueueTurn(t, 'early')
    expect(names(await claim())).toEqual(['early'])
    expect(await claim()).toEqual([])
  })
  expect(names(await claim())).toEqual(['late'])
  await close()
})

it('[T3.2a] [W2.1] a claim takes a row that returned to pending or came from another target', async () => {
  const elsewhere = 'elsewhere'
  await t.agents('back')
  await t.kernel.putAgents([{ projectId: project, agentId: 'moved', workerTarget: elsewhere }])
  const { kernel, claim, close } = await oneSession()
  await enqueueTurn(t, 'back')
  await enqueueTurn(t, 'moved')
  const [turn] = await claim()
  expect(await claim()).toEqual([])
  await kernel.handBack([turn!], 'w')
  expect(names(await claim())).toEqual(['back'])
  expect(await claim()).toEqual([])
  await t.agents('moved')
  expect(names(await claim())).toEqual(['moved'])
  expect(await claim(elsewhere)).toEqual([])
  await close()
})

it('[T3.1b] [T3.5] leases a turn that was queued after the clock was set back', async () => {
  await t.agents('slow')
  const first = await t.running('slow')
  await t.advance(-3_600)
  const { agentTurnId } = await enqueueTurn(t, 'slow')
  await deliverTurn(t, first)
  expect(await headOf(t, 'slow')).toMatchObject({ status: 'dispatched', active_agent_turn_id: agentTurnId })
})
