/** Schedules on a real database with a clock that the test moves: instants, policies, crashes, jumps of the clock, definitions. */
import { expect, it } from 'vitest'
import { scheduleFile, type ScheduleDefinition } from '@bellwether/protocol/http'
import { listFires, readSchedule } from '../../src/kernel/reads/schedules.js'
import { prune } from '../../src/kernel/verbs/watchdog/watchdog.js'
import {
  defineFromFile,
  defineSchedule,
  removeSchedule,
  runNow,
  setPaused,
} from '../../src/pmo/schedules/definitions.js'
import { openScheduler, type Scheduler } from '../../src/pmo/schedules/scheduler.js'
import type { Database } from '../../src/ports/database/database.js'
import { kernelPerTest, project } from '../support/kernel.js'
import { quietLog } from '../support/quiet-log.js'
import { thorough } from '../support/thorough.js'

const t = kernelPerTest()
const pmo = (db: Database = t.db): Scheduler =>
  openScheduler({
    kernel: { db, ids: t.ids, ring: (verdicts) => t.kernel.ring(verdicts), stop: (turn) => t.kernel.stop(turn) },
    log: quietLog,
  })
const named = (schedule: string) => ({ projectId: project, schedule })
const parse = (keys: object): ScheduleDefinition => scheduleFile.parse({ agent: 'ann', instruction: 'Work', ...keys })
const define = (schedule: string, keys: object) =>
  defineSchedule(t.kernel, named(schedule), { definition: parse(keys), by: 'test', must: 'create' })
const fires = async (schedule: string) =>
  (await listFires(t.db, project, { schedule, before: null, limit: 500 })).fires.toReversed()
const brief = async (schedule: string) =>
  (await fires(schedule)).map((fire) => [fire.status, fire.reason, fire.skipped, fire.outcome] as const)
const turns = () =>
  t.all<{ instant: string; schedule: string }>(`select payload ->> 'schedule' as schedule,
  payload ->> 'instant' as instant from state.agent_inbox where payload ? 'schedule'`)
const next = async (schedule: string) => (await readSchedule(t.db, project, schedule))!.next_fire_at
/** Moves the clock to a whole multiple of the interval, plus `afterSeconds`. */
async function alignTo(seconds: number, afterSeconds = 0) {
  const { left } = await t.one<{ left: number }>(
    `select $1::float - mod(extract(epoch from state.now())::numeric, $1::numeric)::float as left`,
    seconds,
  )
  await t.advance(left + afterSeconds)
}
async function finish() {
  for (const turn of await t.claim(500)) await t.kernel.deliver({ ...turn, status: 'success', content: { text: 'ok' } })
}

it('two PMOs start one turn per instant, in the transaction that records it', async () => {
  await t.agents('ann')
  await define('hourly', { every: '1h' })
  await alignTo(3_600, -5)
  await pmo().step()
  expect(await fires('hourly')).toEqual([])
  await t.advance(6)
  const both = [pmo(), pmo()]
  await Promise.all(both.map((one) => one.step()))
  await Promise.all(both.map((one) => one.step()))
  const [fire, ...rest] = await fires('hourly')
  expect(rest).toEqual([])
  expect(fire).toMatchObject({ kind: 'timer', status: 'started', outcome: null, ended_at: null })
  expect(await turns()).toEqual([{ schedule: 'hourly', instant: fire!.instant.toISOString() }])
  expect(t.rings().length).toBeGreaterThan(0)
  const [turn] = await t.claim()
  expect(turn!.agentTurnId).toBe(fire!.agent_turn_id)
  await t.kernel.deliver({ ...turn!, status: 'failed', content: { text: 'no' }, error: 'no' })
  await both[0]!.step()
  expect(await brief('hourly')).toEqual([['started', null, 0, 'failed']])
})

it('replaces the open turn with "replace", also if the PMO dies before it stops that turn', async () => {
  await t.agents('ann')
  await define('hourly', { every: '1h', overlap: 'replace' })
  await alignTo(3_600, 1)
  await pmo().step()
  const [running] = await t.claim()
  await t.advance(3_600)
  const dying = openScheduler({
    kernel: { ...t.kernel, db: t.db, stop: () => Promise.reject(new Error('killed')) },
    log: quietLog,
  })
  await expect(dying.step()).rejects.toThrow('killed')
  expect(await brief('hourly')).toEqual([
    ['started', 'replaced', 0, null],
    ['started', null, 0, null],
  ])
  await pmo().step()
  expect(await brief('hourly')).toEqual([
    ['started', 'replaced', 0, 'canceled'],
    ['started', null, 0, null],
  ])
  expect(await t.kernel.deliver({ ...running!, status: 'success', content: { text: 'late' } })).toMatchObject({
    what: 'stale',
  })
  await finish()
  await pmo().step()
  expect((await brief('hourly')).map(([, , , outcome]) => outcome)).toEqual(['canceled', 'success'])
  expect(await turns()).toHaveLength(2)
  const task = { title: 'x', instruction: 'y', agent: 'ann' }
  const problem = scheduleFile.safeParse({ every: '1h', overlap: 'replace', task }).error?.issues[0]
  expect(problem).toMatchObject({ path: ['overlap'], message: expect.stringContaining('only turns are replaced') })
})

const fireCount = thorough ? 10_000 : 2_500
it(`starts one turn per instant over ${fireCount} fires of two PMOs that die at any statement, with jumps of the clock`, async () => {
  const agents = Array.from({ length: fireCount / 100 }, (_, at) => `agent-${at}`)
  await t.agents(...agents)
  for (const [at, agent] of agents.entries())
    await define(`s${at}`, { agent, every: '1m', overlap: 'queue', queue_max: 100, missed: 'all', missed_max: 100 })
  await alignTo(60, -1)
  let statement = 0
  // Every 23rd statement kills its PMO: the transaction is rolled back, or its commit was not seen.
  const dying: Database = {
    ...t.db,
    query: (one) => t.db.query(one),
    transaction: async (run) => {
      const result = await t.db.transaction((tx) =>
        run({
          query: (one) => {
            statement += 1
            if (statement % 23 === 0) throw new Error('killed')
            return tx.query(one)
          },
        }),
      )
      if (statement % 7 === 0) throw new Error('killed after the commit')
      return result
    },
  }
  const step = async (one: Scheduler) => {
    try {
      await one.step()
    } catch (error) {
      if (!(error instanceof Error && error.message.startsWith('killed'))) throw error
    }
  }
  const both = [pmo(dying), pmo(dying)]
  for (let round = 1; round <= 110; round += 1) {
    // Forward by one minute, sometimes by five, and back by more than one.
    await t.advance(round % 10 === 0 ? 300 : round % 4 === 0 ? -70 : 60)
    await Promise.all(both.map(step))
    await t.db.query({ text: 'update state.schedule_fires set ended_at = created_at where ended_at is null' })
  }
  await t.advance(600)
  await pmo().step()
  const count = await t.one<{ minutes: number; turns: number; twice: number }>(`select
      (select extract(epoch from max(instant) - min(instant))::int / 60 + 1 from state.schedule_fires) as minutes,
      (select count(*)::int from state.agent_inbox where payload ? 'schedule') as turns,
      (select count(*)::int from (select from state.agent_inbox where payload ? 'schedule'
        group by payload ->> 'schedule', payload ->> 'instant' having count(*) > 1) x) as twice`)
  expect(count.twice).toBe(0)
  expect(count.turns).toBe(count.minutes * agents.length)
  expect(count.turns).toBeGreaterThanOrEqual(fireCount)
})

it('follows missed = skip, latest and all after a downtime, and reports what it skipped', async () => {
  await t.agents('ann', 'bob', 'cid')
  const policies = { skip: 'ann', latest: 'bob', all: 'cid' }
  for (const [missed, agent] of Object.entries(policies))
    await define(missed, { agent, every: '1h', missed, missed_max: 3, overlap: 'queue' })
  await alignTo(3_600, 5 * 3_600 + 120)
  await pmo().step()
  expect(await brief('skip')).toEqual([['skipped', 'missed', 6, null]])
  expect(await brief('latest')).toEqual([
    ['skipped', 'missed', 5, null],
    ['started', null, 0, null],
  ])
  expect((await brief('all')).map(([status]) => status)).toEqual(['skipped', 'started', 'started', 'started'])
})

it('skips an instant while the last turn of the schedule is open, and queues up to queue_max', async () => {
  await t.agents('ann', 'bob')
  await define('skip', { agent: 'ann', every: '1m' })
  await define('queue', { agent: 'bob', every: '1m', overlap: 'queue', queue_max: 2 })
  await alignTo(60, 1)
  for (let minute = 0; minute < 3; minute += 1) {
    await pmo().step()
    await t.advance(60)
  }
  expect(await brief('skip')).toEqual([
    ['started', null, 0, null],
    ['skipped', 'overlap', 1, null],
    ['skipped', 'overlap', 1, null],
  ])
  expect((await brief('queue')).map(([status]) => status)).toEqual(['started', 'started', 'skipped'])
  await finish()
  await pmo().step()
  expect((await brief('skip')).map(([status, , , outcome]) => [status, outcome])).toEqual([
    ['started', 'success'],
    ['skipped', null],
    ['skipped', null],
    ['started', null],
  ])
})

it('fires again after a clock that was a year ahead is set back, and repeats no instant', async () => {
  await t.agents('ann')
  await define('hourly', { every: '1h', overlap: 'queue', queue_max: 100 })
  await alignTo(3_600, 1)
  await pmo().step()
  await t.advance(365 * 86_400)
  await pmo().step()
  await t.advance(-365 * 86_400)
  await pmo().step()
  await t.advance(3_600)
  await pmo().step()
  const started = (await fires('hourly')).filter(({ status }) => status === 'started')
  expect(started).toHaveLength(3)
  // The same hour again, because the clock is set back by two hours.
  await t.advance(-7_200)
  await pmo().step()
  await t.advance(3_600)
  await pmo().step()
  expect(await turns()).toHaveLength(3)
})

it('keeps a due instant if only the target of the schedule changes, and starts nothing that was due during a pause', async () => {
  await t.agents('ann', 'bob')
  await define('hourly', { every: '1h' })
  await alignTo(3_600, 1)
  const changed = parse({ agent: 'bob', every: '1h' })
  await defineSchedule(t.kernel, named('hourly'), { definition: changed, by: 'test', must: 'replace' })
  await pmo().step()
  expect(await t.all('select agent_id from state.agent_inbox')).toEqual([{ agent_id: 'bob' }])
  await finish()
  await setPaused(t.kernel, named('hourly'), { paused: true, by: 'alice' })
  expect(await next('hourly')).toBeNull()
  await t.advance(3 * 3_600)
  await pmo().step()
  await setPaused(t.kernel, named('hourly'), { paused: false, by: 'alice' })
  await pmo().step()
  expect(await turns()).toHaveLength(1)
  await t.advance(3_600)
  await pmo().step()
  expect(await turns()).toHaveLength(2)
})

it('runs a schedule now, once per request, also while it is paused or its turn is open', async () => {
  await t.agents('ann')
  await define('daily', { cron: '@daily' })
  await setPaused(t.kernel, named('daily'), { paused: true, by: 'alice' })
  const run = (requestId?: string) => runNow(t.kernel, named('daily'), { by: 'alice', requestId }, quietLog)
  const first = await run('r1')
  expect(await run('r1')).toEqual(first)
  await Promise.all([run(), run(), run('r2')])
  expect(await fires('daily')).toHaveLength(4)
  expect(await turns()).toHaveLength(4)
  expect((await fires('daily'))[0]).toMatchObject({ kind: 'manual', requested_by: 'alice', status: 'started' })
})

it('records why a turn could not be started, and goes on with the next instant', async () => {
  await t.agents('ann')
  await define('hourly', { every: '1h' })
  await t.db.query({ text: `update resource.project_agents set status = 'retired'` })
  await alignTo(3_600, 1)
  await pmo().step()
  expect(await brief('hourly')).toEqual([['failed', 'Agent "ann" is retired and takes no new turns', 0, null]])
  await expect(runNow(t.kernel, named('hourly'), { by: 'a' }, quietLog)).rejects.toThrow('has no agent "ann"')
  await t.db.query({ text: `update resource.project_agents set status = 'active'` })
  await t.advance(3_600)
  await pmo().step()
  expect((await brief('hourly')).map(([status]) => status)).toEqual(['failed', 'started'])
})

it('a file wins over the API, and its last valid version stays in force while it is invalid', async () => {
  await t.agents('ann')
  const file = (read: Parameters<typeof defineFromFile>[2]['read']) =>
    defineFromFile(t.kernel, named('nightly'), { origin: 'host:/p', by: 'file', read })
  await file({ problem: 'schedules/nightly.toml:1: bad' })
  expect(await readSchedule(t.db, project, 'nightly')).toMatchObject({ definition: null, next_fire_at: null })
  await removeSchedule(t.kernel, named('nightly'), 'host:/p')
  await define('nightly', { every: '2h' })
  await file({ definition: parse({ every: '1h' }) })
  await file({ problem: 'schedules/nightly.toml:1: worse' })
  const row = await readSchedule(t.db, project, 'nightly')
  expect(row).toMatchObject({ source: 'file', definition: { every: '1h' }, problem: 'schedules/nightly.toml:1: worse' })
  expect(row!.next_fire_at).not.toBeNull()
  await alignTo(3_600, 1)
  await pmo().step()
  expect(await turns()).toHaveLength(1)
  const put = { definition: parse({ every: '3h' }), by: 'test', must: 'replace' } as const
  await expect(defineSchedule(t.kernel, named('nightly'), put)).rejects.toMatchObject({ code: 'schedule_in_file' })
  await expect(removeSchedule(t.kernel, named('nightly'))).rejects.toMatchObject({ code: 'schedule_in_file' })
  await removeSchedule(t.kernel, named('nightly'), 'host:/other')
  expect(await readSchedule(t.db, project, 'nightly')).toBeDefined()
  await removeSchedule(t.kernel, named('nightly'), 'host:/p')
  expect(await readSchedule(t.db, project, 'nightly')).toBeUndefined()
  expect(await fires('nightly')).toHaveLength(1)
})

it('rejects an unknown agent, a name that exists and a schedule that does not', async () => {
  await t.agents('ann')
  await expect(define('one', { agent: 'anne', every: '1h' })).rejects.toMatchObject({ code: 'unknown_agent' })
  await expect(define('one', { every: '1s' })).rejects.toThrow('"every": "1s" must be from 10s to 366d')
  await define('one', { every: '1h' })
  await expect(define('one', { every: '1h' })).rejects.toMatchObject({ code: 'schedule_exists' })
  await expect(setPaused(t.kernel, named('two'), { by: 'a', paused: true })).rejects.toMatchObject({
    code: 'not_found',
  })
})

it('retention removes old fires', async () => {
  await t.agents('ann')
  await define('hourly', { every: '1h' })
  await alignTo(3_600, 1)
  await pmo().step()
  await t.advance(40 * 86_400)
  while ((await prune(t.db, 30)) > 0);
  expect(await fires('hourly')).toEqual([])
})
