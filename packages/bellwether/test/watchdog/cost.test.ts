/** The cost of the watchdogs: sweeps use indexes for any number of agents, and beats write no index (hazard 14). */
import { systemClock } from '@bellwether/base'
import pg from 'pg'
import { expect, it } from 'vitest'
import { openKernel } from '../../src/kernel/kernel.js'
import { migrate } from '../../src/kernel/schema/migrate.js'
import { openDatabase } from '../../src/ports/database/pool.js'
import { kernelPerFile, project, target } from '../support/kernel.js'
import { startOwnPostgres } from '../support/processes/own-postgres.js'
import { guardOn } from '../support/watchdog.js'
import { silentBell } from '../support/silent-bell.js'

const t = kernelPerFile()

it('beats are HOT: they write no index entry for heads and inbox rows', async () => {
  // A separate server, because open transactions of other tests would prevent page pruning.
  const server = await startOwnPostgres()
  // One connection, so that the test can flush and read its counters.
  const db = await openDatabase({ url: server.url, poolSize: 1 })
  await migrate(db)
  const kernel = openKernel({ db, bell: silentBell, ids: t.ids })
  const agents = Array.from({ length: 20 }, (_, index) => `beating-${index}`)
  await kernel.putAgents(agents.map((agentId) => ({ projectId: project, agentId, workerTarget: target })))
  await kernel.enqueueMany(agents.map((agentId) => ({ projectId: project, agentId, instruction: 'x' })))
  const { turns } = await kernel.claim({ workerTarget: target, workerId: 'worker-1', max: 20, resumeLeaseSeconds: 30 })
  const updates = async () => {
    await db.query({ text: 'select pg_stat_force_next_flush()' })
    return db.query<{ relname: string; updated: number; hot: number }>({
      text: `select relname, n_tup_upd::int as updated, n_tup_hot_upd::int as hot from pg_stat_user_tables
        where relname in ('agent_state_head', 'agent_inbox') order by relname`,
    })
  }
  const growth = async (run: () => Promise<void>) => {
    const before = await updates()
    await run()
    const after = await updates()
    return Object.fromEntries(
      after.map((row, index) => [
        row.relname,
        { updated: row.updated - before[index]!.updated, hot: row.hot - before[index]!.hot },
      ]),
    )
  }
  try {
    const singly = await growth(async () => {
      for (let times = 0; times < 50; times += 1)
        for (const turn of turns) expect((await kernel.beat([turn], 'worker-1')).size).toBe(1)
    })
    const all = { updated: 1_000, hot: 1_000 }
    expect(singly).toEqual({ agent_state_head: all, agent_inbox: all })
    // Rows share the free space of a page, so some inbox rows of a batch may move to another page; heads rarely do.
    const together = await growth(async () => {
      for (let times = 0; times < 50; times += 1) expect((await kernel.beat(turns, 'worker-1')).size).toBe(20)
    })
    process.stdout.write(`beats of twenty turns at once: ${JSON.stringify(together)}\n`)
    expect(together.agent_state_head?.hot).toBeGreaterThan(700)
  } finally {
    await db.close()
    await server.stop()
  }
})

const agentCount = 100_000
const activeCount = 20_000
const overdueCount = 1_000

async function fill(): Promise<void> {
  await t.all(
    `select state.put_agents('[{"project_id": "p", "agent_id": "seed", "worker_target": "w", "box_id": "seed-box"}]')`,
  )
  // Heads only, without turns. Every fifth is active; of these every twentieth has been silent for too long.
  await t.all(
    `insert into state.agent_state_head (project_id, agent_id, status, worker_target, output_box_id, updated_at, turn_epoch, active_agent_turn_id,
       active_channel_id, turn_deadline, leased_at)
     select $1, 'many-' || n, case when n % 5 = 0 then 'running' else 'idle' end, 'w', 'box-' || n,
       state.now() - make_interval(secs => case when n % 100 = 0 then 400 else 0 end), 1,
       case when n % 5 = 0 then 'turn-' || n end, case when n % 5 = 0 then 'public' end,
       case when n % 5 = 0 then state.now() + interval '1 hour' end, case when n % 5 = 0 then state.now() end
     from generate_series(1, $2::int) n`,
    project,
    agentCount,
  )
  await t.all(
    `insert into state.agent_inbox (inbox_id, project_id, agent_id, worker_target, channel_id, message_type, status, agent_turn_id, turn_epoch, processed_at, claimed_by)
     select 'row-' || n, $1, 'many-' || n, 'w', 'public', 'turn', 'processing', 'turn-' || n, 1, state.now(), 'x'
     from generate_series(5, $2::int, 5) n`,
    project,
    agentCount,
  )
  await t.all('analyze state.agent_state_head')
  await t.all('analyze state.agent_inbox')
}

/** Runs a verb, returns the executed plan of every statement inside it, and rolls back. */
async function plansOf(sql: string): Promise<string> {
  const client = new pg.Client({ connectionString: t.url })
  await client.connect()
  const plans: string[] = []
  client.on('notice', (notice) => plans.push(notice.message ?? ''))
  try {
    await client.query(`load 'auto_explain'`)
    for (const set of ['log_min_duration = 0', 'log_nested_statements = on', `log_level = 'notice'`])
      await client.query(`set auto_explain.${set}`)
    await client.query('begin')
    await client.query(sql)
    await client.query('rollback')
  } finally {
    await client.end()
  }
  return plans.join('\n')
}

it('one guard step over 100,000 agents with 1 % overdue uses no sequential scan and ends them all', async () => {
  const guard = guardOn(t, { watchdogIntervalSeconds: 200 })
  await guard.step()
  await t.advance(310)
  await fill()
  // The idle worker was there all the time.
  await t.all('update state.workers set seen_at = state.now()')
  const settings = {
    dispatched_timeout_seconds: 30,
    max_queue_seconds: 3600,
    active_reap_seconds: 300,
    suspended_reap_seconds: 300,
    inbox_processing_timeout_seconds: 30,
    max_deaths: 3,
    watching_since: '2000-01-01T00:00:00Z',
    valid_until: '2100-01-01T00:00:00Z',
  }
  const cards = `array(select 'card-' || n from generate_series(1, 500) n)`
  const sweeps = {
    overdue: `select * from state.reap('${JSON.stringify(settings)}', ${cards})`,
    retry_dispatched: 'select * from state.retry_dispatched(10, 500)',
    wake_pending: 'select * from state.wake_pending(5, 60, 500)',
    sweep_queued: 'select * from state.sweep_queued(5, 500)',
    reclaim: `select * from state.reclaim('w', 30, 3, '2000-01-01', '2100-01-01', 500)`,
  }
  for (const [name, sql] of Object.entries(sweeps)) {
    const plan = await plansOf(sql)
    expect(plan, name).toMatch(/agent_state_head|agent_inbox/)
    expect(
      plan.match(/Seq Scan on (?:state\.)?(?:agent_state_head|agent_inbox|workers|interventions|events)\b.*/g) ?? [],
      name,
    ).toEqual([])
  }

  const startedMs = systemClock.monotonicMs()
  const done = await guard.step()
  const tookMs = systemClock.monotonicMs() - startedMs
  process.stdout.write(
    `one guard step, ${agentCount} agents, ${activeCount} active, ${overdueCount} overdue: ${tookMs.toFixed(0)} ms\n`,
  )
  expect(done.filter((verdict) => verdict.what === 'ended')).toHaveLength(overdueCount)
  const { n } = await t.one<{ n: number }>(
    `select count(*)::int as n from state.agent_state_head where status = 'running'`,
  )
  expect(n).toBe(activeCount - overdueCount)
})
