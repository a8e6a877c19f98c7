import { systemClock } from '@bellwether/base'
import pg from 'pg'
import { expect, it } from 'vitest'
import { vacuumHorizon } from '../../src/kernel/reads/gauges.js'
import type { Statement } from '../../src/ports/database/database.js'
import { horizonAges } from '../../src/telemetry/horizon.js'
import { serveMetrics } from '../../src/telemetry/metrics-server.js'
import type { Metrics } from '../../src/telemetry/metrics-page.js'
import { openMetrics } from '../../src/telemetry/metrics.js'
import { startTelemetry } from '../../src/telemetry/telemetry.js'
import { kernelPerFile, project, target } from '../support/kernel.js'
import { deliverTurn, enqueueTurn, reportSuccess, suspendedTurn } from '../support/kernel-turns.js'
import { quietLog } from '../support/quiet-log.js'
import { until } from '../support/until.js'

const t = kernelPerFile()

/** A clock on which every scrape reads the database. */
function impatient() {
  let ms = 0
  return { ...systemClock, monotonicMs: () => (ms += 10_000) }
}
const open = (more: Partial<Parameters<typeof openMetrics>[0]> = {}): Promise<Metrics> =>
  openMetrics({ db: t.db, clock: impatient(), log: quietLog, ...more })

/** The bellwether_ samples by name and labels. */
async function read(metrics: Pick<Metrics, 'text'>): Promise<Record<string, number>> {
  const lines = (await metrics.text()).split('\n').filter((line) => line.startsWith('bellwether_'))
  return Object.fromEntries(lines.map((line) => [line.replace(/ \S+$/, ''), Number(line.split(' ').at(-1))]))
}

/** Reads until the values match, because transactions in other databases may delay the outbox briefly. */
async function readUntil(metrics: Metrics, wanted: Readonly<Record<string, number>>): Promise<Record<string, number>> {
  let seen: Record<string, number> = {}
  const all = async () => {
    seen = await read(metrics)
    return Object.entries(wanted).every(([name, value]) => seen[name] === value) || undefined
  }
  await until('the numbers', all).catch((error: unknown) => {
    throw new Error(`the numbers are ${JSON.stringify(seen)}`, { cause: error })
  })
  return seen
}

it('counts outcomes, steps, tokens, tool calls and interventions since the start, each once', async () => {
  await t.agents('ann', 'bob', 'cid')
  const metrics = await open()
  const turn = await t.running('ann')
  const usage = { input_tokens: 100, output_tokens: 7, cost_usd: 0.25 }
  const metadata = { usage, duration_ms: 1_500 }
  await t.kernel.record({ ...turn, step: { stepId: 's1', phase: 'model', status: 'success', metadata } })
  await deliverTurn(t, turn)
  await t.kernel.deliver({ ...(await t.running('bob')), status: 'failed', error: 'x', content: { text: 'no' } })
  const asking = await suspendedTurn(t, 'cid', [{ toolCallId: 'm1', toolName: 'grep', args: {} }])
  await reportSuccess(t, 'm1')
  await t.claim()
  await t.kernel.resume(asking, 'worker-1')
  await deliverTurn(t, asking)
  await t.all(
    `insert into state.interventions (kind, reason, created_at) select 'reclaim', 'x', state.now() - interval '5 seconds' from generate_series(1, 3)`,
  )
  const wanted = {
    'bellwether_turns_total{outcome="success"}': 2,
    'bellwether_turns_total{outcome="failed"}': 1,
    'bellwether_turns_total{outcome="canceled"}': 0,
    'bellwether_step_seconds_count{phase="model"}': 1,
    'bellwether_step_seconds_sum{phase="model"}': 1.5,
    'bellwether_tokens_total{direction="input"}': 100,
    'bellwether_tokens_total{direction="output"}': 7,
    bellwether_cost_usd_total: 0.25,
    'bellwether_tool_calls_total{status="success"}': 1,
    'bellwether_interventions_total{kind="reclaim"}': 3,
    bellwether_database_up: 1,
  }
  await readUntil(metrics, wanted)
  expect(await read(metrics)).toMatchObject(wanted)
})

it('shows queued rows with their age, active agents, workers, and the delay of the outbox', async () => {
  await t.agents('dee', 'eve')
  await enqueueTurn(t, 'dee')
  await enqueueTurn(t, 'dee')
  await t.advance(120)
  await t.all('select state.sign_in($1, $2, 8, 5)', 'worker-9', target)
  const bell = () => ({
    kind: 'nats',
    connected: true,
    healthy: false,
    sent: 5,
    coalesced: 0,
    dropped: 2,
    failed: 1,
    trips: 4,
  })
  const metrics = await open({ bell, worker: () => ({ target, running: 3, concurrency: 8 }) })
  const event = {
    text: `insert into state.outbox (project_id, subject, kind, payload, created_at)
      values ('p', 's', 'step', '{}', state.now())`,
  }
  const seen = await t.db.transaction(async (tx) => {
    await tx.query(event)
    await t.db.query(event)
    await t.advance(30)
    return read(metrics)
  })
  expect(seen).toMatchObject({
    'bellwether_inbox_rows{status="queued"}': 1,
    'bellwether_inbox_rows{status="pending"}': 1,
    'bellwether_agents_active{status="dispatched"}': 1,
    [`bellwether_workers{target="${target}"}`]: 1,
    [`bellwether_worker_slots{target="${target}",state="free"}`]: 5,
    [`bellwether_worker_slots{target="${target}",state="taken"}`]: 3,
    [`bellwether_worker_running{target="${target}"}`]: 3,
    'bellwether_bell_connected{kind="nats"}': 1,
    'bellwether_bell_healthy{kind="nats"}': 0,
    'bellwether_bell_rings{kind="nats",result="dropped"}': 2,
  })
  expect(seen['bellwether_queue_age_seconds{status="queued"}']).toBeGreaterThanOrEqual(120)
  expect(seen['bellwether_outbox_horizon_age_seconds']).toBeGreaterThanOrEqual(30)
})

it('shows for how long a snapshot of another role has kept dead rows', async () => {
  const role = `reader_${crypto.randomUUID().replaceAll('-', '')}`
  const [holder, ordinary] = [new pg.Client({ connectionString: t.url }), new pg.Client({ connectionString: t.url })]
  await Promise.all([holder.connect(), ordinary.connect()])
  await holder.query(`create role ${role}`)
  await holder.query('begin isolation level repeatable read; select pg_current_snapshot()')
  await ordinary.query(`set role ${role}`)
  const db = { query: async <Row extends object>({ text }: Statement) => (await ordinary.query(text)).rows as Row[] }
  const ages = horizonAges(impatient())
  await t.all('select pg_current_xact_id()')
  const first = await vacuumHorizon(db)
  ages(first)
  await t.all('select pg_current_xact_id()')
  const second = await vacuumHorizon(db)
  expect(second.horizon).toBe(first.horizon)
  expect(second.next).toBeGreaterThan(first.next)
  expect(ages(second)).toBe(10)
  await holder.query('rollback')
  await ordinary.query('reset role')
  await until('the horizon moves', async () => (await vacuumHorizon(db)).horizon > first.horizon || undefined)
  await holder.query(`drop role ${role}`)
  await Promise.all([holder.end(), ordinary.end()])
})

it('counts the turns whose target has no live worker, and drops the target when a worker is back', async () => {
  await t.kernel.putAgents([{ projectId: project, agentId: 'stranded', workerTarget: 'gpu' }])
  await enqueueTurn(t, 'stranded')
  const metrics = await open()
  const waiting = 'bellwether_turns_without_worker{target="gpu"}'
  expect(await read(metrics)).not.toHaveProperty([waiting])
  await t.advance(70)
  expect(await read(metrics)).toMatchObject({ [waiting]: 1 })
  await t.all('select state.sign_in($1, $2, 8, 8)', 'worker-gpu', 'gpu')
  expect(await read(metrics)).not.toHaveProperty([waiting])
})

it('shows the last values while the database is unavailable, and shares one read between scrapes', async () => {
  let broken = false
  let questions = 0
  const db = {
    query: async <Row extends object>(statement: Statement): Promise<Row[]> => {
      questions += 1
      if (broken) throw new Error('away')
      return t.db.query<Row>(statement)
    },
  }
  const metrics = await open({ db, clock: systemClock })
  await metrics.text()
  const before = questions
  const pages = await Promise.all(Array.from({ length: 20 }, () => metrics.text()))
  expect(pages[0]).toContain('bellwether_database_up 1')
  expect(questions).toBe(before)
  const late = await open({ db })
  broken = true
  expect(await late.text()).toMatch(/bellwether_database_up 0[^]*/)
  broken = false
  expect(await late.text()).toContain('bellwether_database_up 1')
})

it('bounds the number of labels', async () => {
  await t.agents('fay')
  const metrics = await open()
  const turn = await t.running('fay')
  for (let at = 0; at < 70; at += 1)
    await t.kernel.record({ ...turn, step: { stepId: `many-${at}`, phase: `phase-${at}`, status: 'success' } })
  await deliverTurn(t, turn)
  const seen = await readUntil(metrics, { 'bellwether_step_seconds_count{phase="other"}': 20 })
  const counts = Object.entries(seen).filter(([name]) => name.includes('step_seconds_count'))
  expect(counts).toHaveLength(51)
  expect(counts.reduce((sum, [, count]) => sum + count, 0)).toBe(70)
})

it('serves metrics on loopback, warns if the port is in use, and reads nothing without a scrape', async () => {
  const stop = new AbortController()
  const common = { db: t.db, clock: systemClock, log: quietLog, signal: stop.signal }
  const served = await startTelemetry({ ...common, metricsPort: 0 })
  const page = await fetch(served.metricsUrl!)
  expect([page.status, page.headers.get('content-type')]).toEqual([200, expect.stringContaining('text/plain')])
  expect(await page.text()).toContain('process_resident_memory_bytes')
  expect((await fetch(served.metricsUrl!.replace('/metrics', '/other'))).status).toBe(404)
  const port = Number(new URL(served.metricsUrl!).port)
  await expect(serveMetrics(await open(), port)).rejects.toMatchObject({ code: 'metrics_port_taken' })
  const warned: string[] = []
  const warn = (_fields: object, message: string) => void warned.push(message)
  const second = await startTelemetry({ ...common, log: { ...quietLog, warn }, metricsPort: port })
  expect([second.metricsUrl, ...warned]).toEqual([undefined, 'metrics are not served by this process'])
  await second.close()
  stop.abort()
  await served.close()
  await until('it is gone', async () =>
    fetch(served.metricsUrl!).then(
      () => undefined,
      () => true,
    ),
  )

  const messages: string[] = []
  const error = (_fields: object, message: string) => void messages.push(message)
  const wrong = await startTelemetry({ ...common, log: { ...quietLog, error }, endpoint: 'not a url' })
  await wrong.close()
  expect(messages).toEqual(['trace export failed to start'])

  const never = { query: () => Promise.reject(new Error('asked')) }
  const nothing = await startTelemetry({ ...common, db: never })
  expect(nothing.metricsUrl).toBeUndefined()
  await nothing.close()
})
