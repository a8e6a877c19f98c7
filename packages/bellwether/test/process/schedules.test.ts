/** Two PMO processes under SIGKILL while the clock of the database moves: each instant of each schedule starts one turn, or adds one task. */
import { readFileSync, statSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { scheduleFile } from '@bellwether/protocol/http'
import { expect, it, onTestFinished } from 'vitest'
import { defineSchedule } from '../../src/pmo/schedules/definitions.js'
import { project, testKernel, type TestKernel } from '../support/kernel.js'
import { testFolder } from '../support/postgres.js'
import { openSlots, type Slot } from '../support/processes/slots.js'
import { thorough } from '../support/thorough.js'
import { until } from '../support/until.js'

const kills = thorough ? 12 : 4
const patient = { every: '1m', overlap: 'queue', queue_max: 100, missed: 'all', missed_max: 100 }

/** The processes of an installation with these schedules, defined between the same two instants, which are whole minutes. */
async function installation(definitions: Readonly<Record<string, object>>, agents: readonly string[]) {
  const t = await testKernel()
  onTestFinished(() => t.drop())
  const folder = await testFolder()
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  await t.agents(...agents)
  const { seconds } = await t.one<{ seconds: number }>('select extract(second from state.now())::float as seconds')
  await t.advance(90 - seconds)
  for (const [schedule, keys] of Object.entries(definitions)) {
    const defining = { definition: scheduleFile.parse({ ...patient, ...keys }), by: 'test', must: 'create' } as const
    await defineSchedule(t.kernel, { projectId: project, schedule }, defining)
  }
  const slots = openSlots(folder, { BELLWETHER__DATABASE__URL: t.url })
  onTestFinished(() => slots.stop())
  const pair = async (name: string, args: readonly string[]) => {
    const slot = [1, 2].map((at) => slots.add(`${name}-${at}`, args))
    for (const one of slot) await one.start()
    return slot
  }
  const none = (what: string, query: string) =>
    until(what, async () => ((await t.all(query)).length === 0 ? true : undefined))
  const decided = () =>
    none(
      'every due instant is decided',
      'select from state.schedules where next_fire_at <= state.now() or decided_at > state.now()',
    )
  return { t, folder, pair, none, decided }
}

/** The clock moves while a process dies: forward by minutes, in every second round back again. `moment`: when it dies. */
async function killInTurn(
  t: TestKernel,
  victims: readonly Slot[],
  decided: () => Promise<unknown>,
  moment: (victim: Slot) => Promise<unknown> = () => Promise.resolve(),
): Promise<void> {
  for (let round = 0; round < kills; round += 1) {
    const victim = victims[round % victims.length]!
    await Promise.all([t.advance(180), moment(victim).then(() => victim.kill())])
    if (round % 2 === 1) await t.advance(-90)
    await victim.start()
    await decided()
  }
  await t.advance(120)
  await decided()
}

it('two PMOs that are killed again and again start one turn per instant, and miss none', async () => {
  const agents = Array.from({ length: 40 }, (_, at) => `agent-${at}`)
  const definitions = Object.fromEntries(agents.map((agent) => [agent, { agent, instruction: 'go' }]))
  const { t, pair, decided } = await installation(definitions, agents)
  await killInTurn(t, await pair('pmo', ['pmo']), decided)
  const found = await t.one<{ minutes: number; turns: number; twice: number; orphans: number }>(`select
      (select extract(epoch from max(instant) - min(instant))::int / 60 + 1 from state.schedule_fires) as minutes,
      (select count(*)::int from state.agent_inbox where payload ? 'schedule') as turns,
      (select count(*)::int from (select from state.agent_inbox where payload ? 'schedule'
        group by payload ->> 'schedule', payload ->> 'instant' having count(*) > 1) x) as twice,
      (select count(*)::int from state.schedule_fires f where not exists (select from state.agent_inbox i
        where i.agent_turn_id = f.agent_turn_id)) as orphans`)
  expect(found).toMatchObject({ twice: 0, orphans: 0, turns: found.minutes * agents.length })
  expect(found.minutes).toBeGreaterThanOrEqual(kills * 2)
})

it('two PMOs and two autopilots that are killed again and again add one task per instant, and miss none', async () => {
  // No one approves the tasks, so that none of them starts a run.
  const names = Array.from({ length: 5 }, (_, at) => `triage-${at}`)
  const definitions = Object.fromEntries(names.map((name) => [name, { task: { title: name, requiresApproval: true } }]))
  const { t, folder, pair, none, decided } = await installation(definitions, [])
  const pmos = await pair('pmo', ['pmo'])
  const autopilots = await pair('autopilot', ['task', 'autopilot', '--root', folder, '--project', project])
  const added = async () => {
    await decided()
    await none('every task is added', `select from state.schedule_fires where status = 'waiting'`)
  }
  const log = join(folder, 'state/tasks.jsonl')
  const size = () => statSync(log, { throwIfNoEntry: false })?.size ?? 0
  /** An autopilot dies while it adds the tasks of several instants. */
  const adding = async (victim: Slot) => {
    const before = size()
    if (autopilots.includes(victim)) await until('a task is added', async () => size() > before || undefined)
  }
  await killInTurn(t, [autopilots[0]!, pmos[0]!, autopilots[1]!, pmos[1]!], added, adding)
  const fires = await t.all<{ task_id: string; minutes: number }>(
    `select task_id, extract(epoch from max(instant) over () - min(instant) over ())::int / 60 + 1 as minutes
      from state.schedule_fires where status = 'started' order by task_id`,
  )
  const created = readFileSync(log, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { type: string; taskId: string })
    .flatMap(({ type, taskId }) => (type === 'task_created' ? [taskId] : []))
  expect(created.toSorted()).toEqual(fires.map((fire) => fire.task_id))
  expect(new Set(created).size).toBe(names.length * fires[0]!.minutes)
  expect(fires[0]!.minutes).toBeGreaterThanOrEqual(kills * 2)
})
