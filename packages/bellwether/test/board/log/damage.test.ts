/** Damaged lines of the log: the tasks that they may belong to wait for a person, and finished work never runs again. */
import { describe, expect, it, vi } from 'vitest'
import { damageOf } from '../../../src/board/log/fold/damage.js'
import { defaultRecovery } from '../../../src/board/policies/recovery.js'
import { rebuildSnapshot } from '../../../src/board/repair/rebuild.js'
import { claimTask, retryTask } from '../../../src/board/tasks/task-commands.js'
import { release } from '../../../src/board/tasks/operator-commands.js'
import { readiness } from '../../../src/board/tasks/ready.js'
import { rebuildSnapshotCommand } from '../../../src/cli/repair/rebuild-snapshot.js'
import { recordedLog } from '../../support/recorded-log.js'
import { boardOf, line, testRoot, testWorld, type TestRoot } from './test-root.js'

const rules = { firstAgent: 'coder', recovery: defaultRecovery }
const nowMs = () => Date.parse('2026-03-01T00:00:00Z')
const text = (event: object) => `${JSON.stringify(event)}\n`
const zeros = (event: object) => `${'\0'.repeat(text(event).length - 1)}\n`
const created = line('task_created', 'T-1', { title: 'Once' })
const other = line('task_created', 'T-2', { title: 'Another' })
const claimed = line('task_claimed', 'T-1', { from: 'pending', to: 'claimed', owner: 'coder' })
const done = line('task_done', 'T-1', { from: 'claimed', to: 'done' })

async function readOf(root: TestRoot, log: string) {
  await root.writeLog(log)
  const board = await boardOf(root)
  const of = (taskId: string) => readiness(board.state.tasks.get(taskId)!, board.state, nowMs(), rules)
  return { board, of, damage: (taskId: string) => board.state.tasks.get(taskId)?.damage }
}

describe('damaged lines', () => {
  it('[H5.2] a claim that became zeros does not reopen the finished task: it is held with the line number', async () => {
    const { of, damage } = await readOf(await testRoot(), text(created) + zeros(claimed) + text(done))
    expect(damage('T-1')).toEqual({ line: 3, kind: 'invalid_transition' })
    expect(of('T-1')).toMatchObject({ ready: false, code: 'damaged', why: expect.stringContaining('line 3') })
  })

  it('[H5.2] a block of zeros over a whole run holds every task that was open then, and tasks that moved since are free', async () => {
    const lines = [text(created), text(other), zeros(claimed) + zeros(done), text(line('task_claimed', 'T-2'))]
    const { of, damage } = await readOf(await testRoot(), lines.join('') + text(line('task_created', 'T-3')))
    expect(damage('T-1')).toEqual({ line: 4, kind: 'broken_json' })
    expect(of('T-1')).toMatchObject({ ready: false, code: 'damaged' })
    expect([damage('T-2'), damage('T-3'), of('T-3').ready]).toEqual([undefined, undefined, true])
  })

  it('[H5.2] a damaged line that still names its task holds that task only', async () => {
    const cut = text(claimed).replace('"type":', '"ty\u0001\u0002')
    const { damage } = await readOf(await testRoot(), text(created) + text(other) + cut)
    expect([damage('T-1'), damage('T-2')]).toEqual([{ line: 3, kind: 'broken_json' }, undefined])
  })

  it('an unfinished line of a writer that died holds no task, and neither does a line of plain words', async () => {
    for (const harmless of [text(claimed).slice(0, 60), '<<<<<<< HEAD', '{"note":"a line of another program"}']) {
      const { of } = await readOf(await testRoot(), `${text(created)}${harmless}\n${text(other)}`)
      expect([harmless, of('T-1').ready, of('T-2').ready]).toEqual([harmless, true, true])
    }
    expect(damageOf(Buffer.from(`{"eventId":"a${text(claimed)}`), false)).toEqual({ ids: ['T-1'] })
  })

  it('[H5.2] a person releases a held task with release, claim or retry, and so does a later line of the task', async () => {
    const damaged = text(created) + zeros(claimed)
    const ports = (board: Awaited<ReturnType<typeof boardOf>>) => ({ board, nowMs })
    const first = await readOf(await testRoot(), damaged)
    await release(ports(first.board), 'T-1', { by: 'ann', reason: 'checked' })
    expect([first.damage('T-1'), first.of('T-1').ready]).toEqual([undefined, true])
    await expect(release(ports(first.board), 'T-1', { by: 'ann' })).rejects.toMatchObject({ code: 'not_damaged' })
    const second = await readOf(await testRoot(), damaged)
    await claimTask(ports(second.board), 'T-1', 'ann')
    expect(second.damage('T-1')).toBeUndefined()
    const third = await readOf(await testRoot(), damaged + text(line('task_blocked', 'T-1')) + zeros(claimed))
    await retryTask({ ...ports(third.board), firstAgent: 'coder' }, 'T-1', { by: 'ann' })
    expect([third.damage('T-1'), third.of('T-1').ready]).toEqual([undefined, true])
  })

  it('[H5.2] rebuild-snapshot names the held tasks and exits with 1 until the lines are gone', async () => {
    const root = await testRoot()
    await root.writeLog(text(created) + zeros(claimed) + text(done))
    const report = await rebuildSnapshot({ root: root.path, apply: false }, testWorld)
    expect(report).toMatchObject({ ok: false, held: [{ taskId: 'T-1', line: 3, kind: 'invalid_transition' }] })
    let code = -1
    const output = vi.spyOn(process.stdout, 'write').mockReturnValue(true)
    await rebuildSnapshotCommand((exit) => (code = exit)).parseAsync(['--root', root.path], { from: 'user' })
    output.mockRestore()
    expect(code).toBe(1)
    await root.writeLog([created, created])
    expect(await rebuildSnapshot({ root: root.path, apply: false }, testWorld)).toMatchObject({ ok: true, held: [] })
  })

  it('[H5.2] a late copy of a damaged reopening holds the finished task; without damaged lines it runs again', async () => {
    const reopened = text(line('task_reopened', 'T-1', { from: 'done', to: 'pending' }))
    const finished = text(created) + text(claimed) + text(done)
    const { of, damage } = await readOf(await testRoot(), finished + zeros(claimed) + reopened)
    expect(damage('T-1')).toEqual({ line: 5, kind: 'reopened' })
    expect(of('T-1')).toMatchObject({ ready: false, why: expect.stringContaining('line 5 of the log reopens it') })
    expect((await readOf(await testRoot(), finished + reopened)).of('T-1').ready).toBe(true)
  })

  it('[H5.2] the marks are the same however the log is read, and opening it names the lines', async () => {
    const root = await testRoot()
    const parts = [text(created), text(other), zeros(claimed), text(line('task_noted', 'T-1', { x: 1 })), zeros(done)]
    await root.writeLog('')
    const step = await boardOf(root)
    let log = ''
    for (const part of [...parts, text(line('task_blocked', 'T-2'))]) {
      log += part
      await root.writeLog(log)
      await step.sync()
    }
    const { log: records, lines } = recordedLog()
    const once = await boardOf(root, { log: records })
    expect([...once.state.tasks.values()]).toEqual([...step.state.tasks.values()])
    expect(once.state.tasks.get('T-1')?.damage).toEqual({ line: 5, kind: 'broken_json' })
    expect(lines.map(({ fields }) => fields)).toContainEqual(
      expect.objectContaining({ lines: ['3 (broken_json)', '5 (broken_json)'] }),
    )
  })
})
