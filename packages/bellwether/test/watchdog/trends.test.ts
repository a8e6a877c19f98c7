/** The counts of the Trends page: real database, several PMOs. Every number is compared with SQL over the tables that were counted. */
import { defined } from '@bellwether/base'
import { trendRangeNames, trendRanges, type TrendRangeName } from '@bellwether/protocol/trends'
import { describe, expect, it } from 'vitest'
import { middleOf, readTrends } from '../../src/kernel/reads/trends.js'
import { countTrends, pruneTrends, sampleTrends } from '../../src/kernel/verbs/trends/trends.js'
import { deliver, deliveryRow } from '../../src/kernel/verbs/turn/deliver.js'
import { prune } from '../../src/kernel/verbs/watchdog/watchdog.js'
import { signIn } from '../../src/kernel/verbs/roster.js'
import { openTrendCounter } from '../../src/pmo/trends.js'
import type { ClaimedTurn } from '../../src/kernel/verbs/turn/claim.js'
import type { Queryable } from '../../src/ports/database/database.js'
import { kernelPerTest, project } from '../support/kernel.js'
import { deliverTurn, enqueueTurn } from '../support/kernel-turns.js'
import { quietLog } from '../support/quiet-log.js'
import { guardOn, pass } from '../support/watchdog.js'

const t = kernelPerTest()

/** Counts in a session of this time zone; the numbers do not depend on it. */
const countIn = (zone: string, max: number) =>
  t.db.transaction(async (tx) => {
    await tx.query({ text: `set local timezone to '${zone}'` })
    return countTrends(tx, max)
  })

/** Two PMOs count at the same time in small pages, and one of them is killed before its commit. */
async function count(): Promise<void> {
  const killed = t.db.transaction(async (tx) => {
    await countTrends(tx, 7)
    await tx.query({ text: 'select pg_terminate_backend(pg_backend_pid())' })
  })
  await Promise.all([
    expect(killed).rejects.toThrow('terminat'),
    countIn('Europe/Berlin', 5),
    countIn('America/St_Johns', 5),
    countIn('Asia/Kathmandu', 5),
  ])
  for (let left = 1; left > 0;) {
    const counted = await countTrends(t.db, 20)
    left = counted === undefined ? 1 : counted.events + counted.interventions
  }
}

const models = ['opus', 'haiku', undefined, '=cmd()']

async function use(turn: ClaimedTurn, seed: number): Promise<void> {
  const model = models[seed % models.length]
  const usage = {
    input_tokens: 100 + seed,
    output_tokens: 10 + seed,
    cache_read_tokens: 7 * seed,
    cache_write_tokens: seed % 3,
    ...(seed % 2 === 0 ? { cost_usd: seed / 1_000 } : {}),
  }
  const metadata = {
    usage,
    ...defined({ model }),
    ...(seed % 2 === 0 ? {} : { cost_micros: 1_000 + seed }),
    // Reservations charged it; the turn has used it all the same.
    ...(seed % 5 === 0 ? { charged: true } : {}),
  }
  const step = { stepId: t.ids.next(), phase: 'think', status: 'success', metadata }
  expect(await t.kernel.record({ ...turn, step })).not.toBe('stale')
}

/** A turn of one of eight kinds. */
async function makeTurn(seed: number): Promise<void> {
  const agent = ['ann', 'bob', 'cid'][seed % 3]!
  const kind = seed % 8
  if (kind === 5) {
    const { agentTurnId } = await enqueueTurn(t, agent)
    await t.kernel.stop({ projectId: project, agentTurnId })
    return
  }
  await enqueueTurn(t, agent)
  await t.advance((seed * 37) % 200)
  const [turn] = await t.claim()
  if (turn === undefined) throw new Error('the turn was not claimed')
  for (let step = 0; step < kind % 4; step += 1) await use(turn, seed + step)
  await t.advance((seed * seed * 13) % 3_000)
  if (kind === 6) await t.kernel.stop({ projectId: project, agentTurnId: turn.agentTurnId })
  else if (kind === 7) await pass(t, 330, guardOn(t))
  else {
    const status = kind === 4 ? 'failed' : 'success'
    await t.kernel.deliver({ ...turn, status, content: { text: 'x' } })
  }
}

interface Expected {
  readonly bar: number
  readonly name: string
  readonly amount: number
}

/** The same charts, computed from turns, steps and interventions. */
async function fromTables(range: TrendRangeName, from: string, to: string, agent: string | null) {
  const { barSeconds } = trendRanges[range]
  const values = [from, to, barSeconds, agent]
  const bar = (at: string) => `floor(extract(epoch from ${at} - $1::timestamptz) / $3)::int as bar`
  const ended = `state.agent_inbox i where i.message_type in ('turn', 'ui_action') and i.project_id = 'p'
    and i.ended_at >= $1 and i.ended_at < $2 and ($4::text is null or i.agent_id = $4)`
  const steps = ended.replace(' where', ' join state.agent_steps s on s.agent_turn_id = i.agent_turn_id where')
  const cost = `coalesce((s.metadata ->> 'cost_micros')::bigint,
    round((s.metadata -> 'usage' ->> 'cost_usd')::numeric * 1000000), 0)`
  const all = (text: string) => t.all<Expected>(`select ${text} group by 1, 2 order by 1, 2`, ...values)
  const times = async (ms: string) => {
    const percentile = (name: string, share: number) =>
      all(`${bar('i.ended_at')}, '${name}' as name, percentile_disc(${share}) within group (order by ${ms})::float
        as amount from ${ended} and i.started_at is not null`)
    return [...(await percentile('p50', 0.5)), ...(await percentile('p95', 0.95))]
  }
  const kinds = ['input', 'output', 'cache_read', 'cache_write']
    .map((kind) => `('${kind}', (s.metadata -> 'usage' ->> '${kind}_tokens')::float)`)
    .join(', ')
  return {
    turns: await all(`${bar('i.ended_at')}, i.outcome as name, count(*)::float as amount from ${ended}`),
    queue_time: await times('extract(epoch from i.started_at - i.created_at)::float * 1000'),
    run_time: await times('extract(epoch from i.ended_at - i.started_at)::float * 1000'),
    cost_by_agent: await all(`${bar('i.ended_at')}, i.agent_id as name, sum(${cost})::float as amount from ${steps}`),
    cost_by_model: await all(`${bar('i.ended_at')}, coalesce(s.metadata ->> 'model', '(no name)') as name,
      sum(${cost})::float as amount from ${steps}`),
    tokens: await all(`${bar('i.ended_at')}, k.name, sum(k.amount)::float as amount
      from ${steps.replace(' where', ` cross join lateral (values ${kinds}) k (name, amount) where`)}`),
    interventions: await all(`${bar('v.created_at')}, v.kind as name, count(*)::float as amount
      from state.interventions v where v.project_id = 'p' and v.created_at >= $1 and v.created_at < $2
        and ($4::text is null or v.agent_id = $4)`),
  }
}

const isTime = (chart: string) => chart === 'queue_time' || chart === 'run_time'
const bucketOf = (ms: number) => (ms < 1 ? 0 : 1 + Math.floor(8 * Math.log2(ms) + 1e-9))

const sumsOf = (rows: readonly Expected[]) => {
  const sums: Record<string, number> = {}
  for (const { name, amount } of rows) if (amount > 0) sums[name] = (sums[name] ?? 0) + amount
  return sums
}

/** The percentiles of all turns of the range, not of the bars. */
async function timesOf(chart: string, { from, to, agent }: Awaited<ReturnType<typeof readTrends>>) {
  const ms = chart === 'queue_time' ? 'started_at - i.created_at' : 'ended_at - i.started_at'
  const { p50, p95 } = await t.one<{ p50: number; p95: number }>(
    `select percentile_disc(0.5) within group (order by ms) as p50, percentile_disc(0.95) within group (order by ms) as p95
      from (select extract(epoch from i.${ms})::float * 1000 as ms from state.agent_inbox i where i.project_id = 'p'
        and i.message_type in ('turn', 'ui_action') and i.ended_at >= $1 and i.ended_at < $2 and i.started_at is not null
        and ($3::text is null or i.agent_id = $3)) d`,
    iso(from),
    iso(to),
    agent,
  )
  return { p50: middleOf(bucketOf(p50)), p95: middleOf(bucketOf(p95)) }
}

async function compare(range: TrendRangeName, agent?: string): Promise<number> {
  const read = (tx: Queryable) => readTrends(tx, { projectId: project, range, agentId: agent })
  const trends = await t.db.transaction(async (tx) => {
    await tx.query({ text: "set local timezone to 'Europe/Berlin'" })
    return read(tx)
  })
  const expected = await fromTables(range, iso(trends.from), iso(trends.to), agent ?? null)
  let compared = 0
  for (const [chart, rows] of Object.entries(expected)) {
    const found = trends.charts
      .find((one) => one.chart === chart)!
      .series.flatMap(({ name, values }) => values.flatMap((amount, bar) => (amount ? [{ bar, name, amount }] : [])))
      .toSorted((one, other) => one.bar - other.bar || (one.name < other.name ? -1 : 1))
    const wanted = rows
      .filter(({ amount }) => amount > 0 || isTime(chart))
      .map((row) => (isTime(chart) ? { ...row, amount: middleOf(bucketOf(row.amount)) } : row))
      .toSorted((one, other) => one.bar - other.bar || (one.name < other.name ? -1 : 1))
    expect(found, `${chart} of ${range}`).toEqual(wanted)
    compared += wanted.length
  }
  for (const [chart, series] of trends.charts.map((one) => [one.chart, one.series] as const)) {
    const rows = chart in expected ? expected[chart as keyof typeof expected] : []
    if (rows.length === 0) continue
    const totals = isTime(chart) ? await timesOf(chart, trends) : sumsOf(rows)
    const found = series.flatMap(({ name, total }) => (total ? [[name, total]] : []))
    expect(Object.fromEntries(found), `totals of ${chart} of ${range}`).toEqual(totals)
  }
  return compared
}

const iso = (at: string | Date) => new Date(at).toISOString()

/** Moves the clock to this time of a year in which the tests run. */
async function moveTo(when: string): Promise<void> {
  const { seconds } = await t.one<{ seconds: number }>(
    'select extract(epoch from $1::timestamptz - state.now())::float as seconds',
    when,
  )
  await t.advance(seconds)
}

describe('counts of ended turns', () => {
  it('equal SQL over turns, steps and interventions in every range, across days, under several PMOs and a kill', async () => {
    await t.agents('ann', 'bob', 'cid')
    // Summer time begins in Europe on 28 March 2027, and in America on 14 March.
    await moveTo('2027-03-12T22:00:00Z')
    for (let seed = 0; seed < 24; seed += 1) {
      await makeTurn(seed)
      await t.advance(38_000 + ((seed * 7_919) % 25_000))
      if (seed % 6 === 5) await count()
    }
    await moveTo('2027-03-28T00:40:00Z')
    for (let seed = 24; seed < 48; seed += 1) {
      await makeTurn(seed)
      if (seed % 9 === 8) await count()
    }
    await count()
    const compared: number[] = []
    for (const range of trendRangeNames) compared.push(await compare(range))
    compared.push(await compare('30d', 'bob'))
    // Every range has something to compare.
    expect(Math.min(...compared)).toBeGreaterThan(5)
    expect(await t.one('select count(*)::int as open from state.interventions where not counted')).toEqual({ open: 0 })
  })

  it('name the eight agents and models with the highest cost, and agents that were made for one task as one', async () => {
    const names = Array.from({ length: 10 }, (_, at) => `a${at}`)
    await t.agents(...names, 'ann')
    const costs = new Map<string, number>()
    const end = async (name: string, turn: ClaimedTurn, cost: number) => {
      const step = {
        stepId: t.ids.next(),
        phase: 'think',
        status: 'success',
        metadata: { model: name, cost_micros: cost },
      }
      await t.kernel.record({ ...turn, step })
      await deliverTurn(t, turn)
      costs.set(name, (costs.get(name) ?? 0) + cost)
    }
    for (const [at, name] of names.entries()) await end(name, await t.running(name), 1_000 - at)
    for (let copy = 0; copy < 4; copy += 1) {
      await t.kernel.fork({
        projectId: project,
        tasks: [{ targetStrategy: 'clone', targetRef: 'ann', instruction: 'x' }],
      })
      const [turn] = await t.claim()
      await end('ann-*', turn!, 700)
    }
    await count()
    const { charts } = await readTrends(t.db, { projectId: project, range: '24h' })
    const totals = (chart: string) =>
      charts.find((one) => one.chart === chart)!.series.map(({ name, total }) => [name, total])
    const largest = [...costs].toSorted(([, one], [, other]) => other - one)
    const others = largest.slice(8).reduce((sum, [, cost]) => sum + cost, 0)
    const shown = [...largest.slice(0, 8), ['(others)', others]]
    expect(shown[0]).toEqual(['ann-*', 2_800])
    expect(totals('cost_by_agent')).toEqual(shown)
    expect(totals('cost_by_model')).toEqual(shown)
    const rows = "select distinct agent_id from state.trends where measure = 'turns' and agent_id like 'ann%'"
    expect(await t.all(rows)).toEqual([{ agent_id: 'ann-*' }])
  })

  it('put a duration into a bucket whose middle is less than 4.5 % off', async () => {
    const rows = await t.all<{ ms: number; bucket: number }>(
      `select ms, state.trend_bucket(ms) as bucket from (
        select exp(n / 37.0) as ms from generate_series(1, 900) n union all select 2.0 ^ n from generate_series(0, 36) n) d`,
    )
    const off = rows.map(({ ms, bucket }) => Math.abs(middleOf(bucket) / ms - 1))
    expect(Math.max(...off)).toBeLessThan(0.045)
    expect(await t.one('select state.trend_bucket(0.2) as low, state.trend_bucket(-5) as negative')).toEqual({
      low: 0,
      negative: 0,
    })
  })

  it('count a turn whose transaction commits after that of a later turn', async () => {
    await t.agents('ann', 'bob')
    const early = await t.running('ann')
    const late = await t.running('bob')
    const turns = async () =>
      (
        await t.all<{ turns: number }>(
          "select sum(amount)::int as turns from state.trends where measure = 'turns' and grain = 3600 and agent_id = ''",
        )
      )[0]?.turns ?? 0
    await t.db.transaction(async (tx) => {
      await deliver(tx, [deliveryRow(t.ids, { ...early, status: 'success', content: { text: 'x' } })])
      await deliverTurn(t, late)
      await countTrends(t.db)
      expect(await turns()).toBe(0)
      await t.advance(1)
      const { counted_until: until } = await readTrends(t.db, { projectId: project, range: '1h' })
      const { now } = await t.one<{ now: Date }>('select state.now() as now')
      expect(new Date(until) < now).toBe(true)
    })
    await countTrends(t.db)
    expect(await turns()).toBe(2)
    await countTrends(t.db)
    expect(await turns()).toBe(2)
  })

  it('contain turns that ended before the counts existed, and the log says how far counting is', async () => {
    await t.agents('ann')
    for (let turn = 0; turn < 3; turn += 1) await deliverTurn(t, await t.running('ann'))
    const lines: object[] = []
    const log = { ...quietLog, info: (fields: object) => void lines.push(fields) }
    let ms = 0
    const clock = { monotonicMs: () => (ms += 11_000) }
    // As many rows per page as one call reads, so that it takes several.
    await t.all(
      `insert into state.outbox (project_id, subject, kind, payload, created_at)
        select 'p', 'x', 'step', '{}', state.now() from generate_series(1, 2500)`,
    )
    await openTrendCounter({ db: t.db, clock, log, signal: new AbortController().signal }).step()
    expect(lines).toMatchObject([{ turns: 3, until: expect.any(Date) }, { turns: 3 }])
    const { charts } = await readTrends(t.db, { projectId: project, range: '1h' })
    expect(charts[0]?.series[0]).toMatchObject({ name: 'success', total: 3 })
  })

  it('survive the turns: retention counts a turn before it removes it, and removes old counts by their own age', async () => {
    await t.agents('ann')
    await deliverTurn(t, await t.running('ann'))
    await t.advance(31 * 86_400)
    // No PMO has counted until now.
    while ((await prune(t.db, 30)) > 0);
    expect(await t.all('select from state.agent_inbox')).toEqual([])
    const successes = async () =>
      (await readTrends(t.db, { projectId: project, range: '90d' })).charts[0]?.series[0]?.total
    expect(await successes()).toBe(1)
    while ((await pruneTrends(t.db, 100)) > 0);
    const grains = () => t.all<{ grain: number }>('select distinct grain from state.trends order by 1')
    expect(await grains()).toEqual([{ grain: 86_400 }])
    await t.advance(70 * 86_400)
    while ((await pruneTrends(t.db, 100)) > 0);
    expect(await grains()).toEqual([])
  })

  it('keep turns until they are counted, while another PMO counts', async () => {
    await t.agents('ann')
    await deliverTurn(t, await t.running('ann'))
    await t.advance(31 * 86_400)
    await t.db.transaction(async (tx) => {
      await tx.query({ text: 'select from state.trend_progress for update' })
      expect(await prune(t.db, 30)).toBe(0)
      expect(await t.all('select from state.agent_inbox')).toHaveLength(1)
    })
    expect(await prune(t.db, 30)).toBeGreaterThan(0)
  })
})

describe('samples of queue and workers', () => {
  it('are taken once per minute by one of several PMOs, and their means and maxima equal what was sampled', async () => {
    await t.agents('ann', 'bob')
    await moveTo('2027-03-28T00:00:30Z')
    await t.kernel.putAgents([{ projectId: 'other', agentId: 'eve', workerTarget: 'elsewhere' }])
    for (let turn = 0; turn < 3; turn += 1) await enqueueTurn(t, 'ann')
    await t.kernel.enqueue({ projectId: 'other', agentId: 'eve', instruction: 'x' })
    const waiting = [2, 5, 5]
    for (const [minute, queued] of waiting.entries()) {
      for (;;) {
        const { n } = await t.one<{ n: number }>(
          "select count(*)::int as n from state.queue where project_id = 'p' and status = 'queued'",
        )
        if (n >= queued) break
        await enqueueTurn(t, 'ann')
      }
      await signIn(t.db, 'w1', 'w', 8, 8 - minute)
      await signIn(t.db, 'w2', 'elsewhere', 100, 0)
      const taken = await Promise.all([sampleTrends(t.db), sampleTrends(t.db), sampleTrends(t.db)])
      expect(taken.filter(Boolean)).toHaveLength(1)
      expect(await sampleTrends(t.db)).toBe(false)
      await t.advance(60)
    }
    const { charts } = await readTrends(t.db, { projectId: project, range: '1h' })
    const of = (name: string) => charts.find(({ chart }) => chart === name)!.series
    expect(of('queue_depth')).toMatchObject([
      { name: 'mean', total: 4 },
      { name: 'highest', total: 5 },
    ])
    expect(of('queue_depth')[0]!.values.filter((value) => value !== null)).toEqual([4])
    expect(of('workers')).toMatchObject([
      { name: 'busy', total: 1 },
      { name: 'slots', total: 8 },
    ])
  })

  it('go on after the clock was wrong for a moment', async () => {
    expect(await sampleTrends(t.db)).toBe(true)
    await t.advance(400 * 86_400)
    expect(await sampleTrends(t.db)).toBe(true)
    await t.advance(-400 * 86_400)
    expect(await sampleTrends(t.db)).toBe(true)
    expect(await sampleTrends(t.db)).toBe(false)
  })
})
