/** Schedules that add tasks to the board, and schedules of files, on a real database. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { scheduleFile } from '@bellwether/protocol/http'
import { expect, it, onTestFinished } from 'vitest'
import { listFires, readSchedule } from '../../src/kernel/reads/schedules.js'
import { finishTask } from '../../src/board/tasks/task-commands.js'
import { defineSchedule, runNow } from '../../src/pmo/schedules/definitions.js'
import { openScheduler } from '../../src/pmo/schedules/scheduler.js'
import { openScheduleFiles } from '../../src/runtime/control/schedules.js'
import { openScheduledTasks } from '../../src/runtime/parts/board/scheduled-tasks.js'
import { dispatcherOf, makeWorld, type World } from '../support/board/dispatcher.js'
import { kernelPerTest, project } from '../support/kernel.js'
import { testFolder } from '../support/postgres.js'
import { quietLog } from '../support/quiet-log.js'

const t = kernelPerTest()
const named = { projectId: project, schedule: 'triage' }
const fires = async () => (await listFires(t.db, project, { schedule: 'triage', before: null, limit: 9 })).fires
const tasksOf = (world: World, db = t.db) =>
  openScheduledTasks({ db, projectId: project, dispatcher: dispatcherOf(world), log: quietLog })

async function triage(task: object = {}) {
  const keys = { every: '1h', task: { title: 'Triage', ...task } }
  await defineSchedule(t.kernel, named, { definition: scheduleFile.parse(keys), by: 'test', must: 'create' })
  await t.advance(3_600)
  await openScheduler({ kernel: t.kernel, log: quietLog }).step()
}

it('adds one task per instant, also if a process dies after it added the task, and records how the task ended', async () => {
  await triage()
  expect(await fires()).toMatchObject([{ status: 'waiting', task_id: null }])
  const world = makeWorld()
  const dying = {
    ...t.db,
    query: async (statement: Parameters<typeof t.db.query>[0]) => {
      if (statement.name === 'bw_mark_task_fire') throw new Error('killed')
      return t.db.query(statement)
    },
  } as typeof t.db
  await expect(tasksOf(world, dying).step()).rejects.toThrow('killed')
  const again = tasksOf(world)
  await again.step()
  await again.step()
  const dispatcher = dispatcherOf(world)
  const { tasks } = await dispatcher.board.sync()
  const [fire] = await fires()
  const id = `triage-${fire!.instant.toISOString().replaceAll(/[-:]|\.000/g, '')}`
  expect([...tasks.keys()]).toEqual([id])
  expect(fire).toMatchObject({ status: 'started', task_id: id, outcome: null, ended_at: null })
  const ports = { board: dispatcher.board, nowMs: () => world.clock.wallMs() }
  await finishTask(ports, id, 'ann', { evidence: null })
  await again.step()
  expect(await fires()).toMatchObject([{ outcome: 'done', ended_at: expect.any(Date) }])
})

it('skips an instant while the task of the last one is open, and adds the task of a manual run beside it', async () => {
  await triage()
  const world = makeWorld()
  await tasksOf(world).step()
  await t.advance(3_600)
  await openScheduler({ kernel: t.kernel, log: quietLog }).step()
  expect(await fires()).toMatchObject([{ status: 'skipped', reason: 'overlap' }, { status: 'started' }])
  await runNow(t.kernel, named, { by: 'ann' }, quietLog)
  await tasksOf(world).step()
  expect((await dispatcherOf(world).board.sync()).tasks.size).toBe(2)
})

it('records why the board rejected a task', async () => {
  await triage({ dependencies: ['T-404'] })
  await tasksOf(makeWorld()).step()
  expect(await fires()).toMatchObject([{ status: 'failed', reason: 'The dependency "T-404" does not exist.' }])
})

it('loads files, keeps the last valid version of an invalid one, and deletes the schedule of a file that is gone', async () => {
  const folder = await testFolder()
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  mkdirSync(join(folder, 'schedules'))
  const write = (text: string) => writeFileSync(join(folder, 'schedules', 'triage.toml'), text)
  await t.agents('ann')
  const open = () => openScheduleFiles({ kernel: t.kernel, projectId: project, folder, origin: 'h:/p', log: quietLog })
  const files = open()
  const now = async () => (await readSchedule(t.db, project, 'triage'))!
  for (const [text, problem] of [
    [
      'cron = "61 * * * *"\nagent = "ann"\ninstruction = "x"\n',
      /^schedules\/triage\.toml:1: "cron": "61 .* for example cron = "30 2/,
    ],
    ['every = "1h"\nagent = "anne"\ninstruction = "x"\n', /has no agent "anne".*for example agent = "coder"/],
    [
      'every = "1h"\n\ntime_zon = "UTC"\nagent = "ann"\ninstruction = "x"\n',
      /triage\.toml:3: unknown key "time_zon"; did you mean "time_zone"\?/,
    ],
    ['every = "1h"\n[task]\ntitel = "x"\n', /triage\.toml:3: unknown key "task\.titel"; did you mean "task\.title"\?/],
    ['every = 5\n', /triage\.toml:1: "every": .*\(got 5\)/],
    ['every = "1h\n', /triage\.toml:1: invalid TOML/],
  ] as const) {
    write(text)
    await files.step()
    expect((await now()).problem).toMatch(problem)
    expect((await now()).definition).toBeNull()
  }
  write('start = 2026-01-01T00:00:00Z\nevery = "1h"\nagent = "ann"\ninstruction = "x"\n')
  await files.step()
  expect(await now()).toMatchObject({ source: 'file', problem: null, definition: { every: '1h' } })
  const before = await now()
  // A restart changes nothing, so that an instant that is due stays due.
  await open().step()
  expect((await now()).updated_at).toEqual(before.updated_at)
  write('every = "1"\nagent = "ann"\ninstruction = "x"\n')
  await files.step()
  expect(await now()).toMatchObject({ problem: expect.stringContaining('"1"'), definition: { every: '1h' } })
  expect((await now()).next_fire_at).toEqual(before.next_fire_at)
  rmSync(join(folder, 'schedules', 'triage.toml'))
  await files.step()
  expect(await readSchedule(t.db, project, 'triage')).toBeUndefined()
})
