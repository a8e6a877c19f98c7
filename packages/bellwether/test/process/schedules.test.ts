/** Two PMO processes under SIGKILL while the clock of the database moves: each instant of each schedule starts one turn. */
import { rm } from 'node:fs/promises'
import { scheduleFile } from '@bellwether/protocol/http'
import { expect, it, onTestFinished } from 'vitest'
import { defineSchedule } from '../../src/pmo/schedules/definitions.js'
import { project, testKernel } from '../support/kernel.js'
import { testFolder } from '../support/postgres.js'
import { openSlots } from '../support/processes/slots.js'
import { thorough } from '../support/thorough.js'
import { until } from '../support/until.js'

const schedules = 40
const kills = thorough ? 12 : 4

it('two PMOs that are killed again and again start one turn per instant, and miss none', async () => {
  const t = await testKernel()
  onTestFinished(() => t.drop())
  const cwd = await testFolder()
  onTestFinished(() => rm(cwd, { recursive: true, force: true }))
  const agents = Array.from({ length: schedules }, (_, at) => `agent-${at}`)
  await t.agents(...agents)
  // Instants are whole minutes: all schedules are defined between the same two.
  const { seconds } = await t.one<{ seconds: number }>('select extract(second from state.now())::float as seconds')
  await t.advance(90 - seconds)
  for (const agent of agents) {
    const keys = {
      agent,
      instruction: 'go',
      every: '1m',
      overlap: 'queue',
      queue_max: 100,
      missed: 'all',
      missed_max: 100,
    }
    const defining = { definition: scheduleFile.parse(keys), by: 'test', must: 'create' } as const
    await defineSchedule(t.kernel, { projectId: project, schedule: agent }, defining)
  }
  const slots = openSlots(cwd, { BELLWETHER__DATABASE__URL: t.url })
  onTestFinished(() => slots.stop())
  const pmos = ['one', 'two'].map((name) => slots.add(name, ['pmo']))
  for (const pmo of pmos) await pmo.start()
  const decided = () =>
    until('every due instant is decided', async () => {
      const rows = await t.all(
        `select from state.schedules where next_fire_at <= state.now() or decided_at > state.now()`,
      )
      return rows.length === 0 ? true : undefined
    })
  for (let round = 0; round < kills; round += 1) {
    const victim = pmos[round % 2]!
    // The clock moves while the PMO dies: forward by minutes, in every second round back again.
    await Promise.all([t.advance(180), victim.kill()])
    if (round % 2 === 1) await t.advance(-90)
    await victim.start()
    await decided()
  }
  await t.advance(120)
  await decided()
  const found = await t.one<{ minutes: number; turns: number; twice: number; orphans: number }>(`select
      (select extract(epoch from max(instant) - min(instant))::int / 60 + 1 from state.schedule_fires) as minutes,
      (select count(*)::int from state.agent_inbox where payload ? 'schedule') as turns,
      (select count(*)::int from (select from state.agent_inbox where payload ? 'schedule'
        group by payload ->> 'schedule', payload ->> 'instant' having count(*) > 1) x) as twice,
      (select count(*)::int from state.schedule_fires f where not exists (select from state.agent_inbox i
        where i.agent_turn_id = f.agent_turn_id)) as orphans`)
  expect(found).toMatchObject({ twice: 0, orphans: 0, turns: found.minutes * schedules })
  expect(found.minutes).toBeGreaterThanOrEqual(kills * 2)
})
