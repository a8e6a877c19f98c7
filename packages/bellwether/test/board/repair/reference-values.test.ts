/** Which values of a reference's task root the import takes: governance, owners, and attempts that the log does not have. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { recoveryOf } from '../../../src/board/policies/recovery.js'
import { takeGovernance, takeTask } from '../../../src/board/repair/reference-root.js'
import { openTaskRoot } from '../../../src/runtime/parts/board/task-root.js'
import { loadSettings } from '../../../src/settings/load.js'
import { recordedLog } from '../../support/recorded-log.js'
import { boardOf, testRoot, type TestRoot } from '../log/test-root.js'

const at = '2026-02-27T00:00:00Z'
const settings = loadSettings({ folder: '/', env: {} }).board
let count = 0
const line = (taskId: string, type: string, payload: object = {}) => {
  count += 1
  return { eventId: `value-${count}`, taskId, type, messageType: '[TASK]', actor: 'orchestrator', at, payload }
}
const put = (root: TestRoot, file: string, content: object) =>
  writeFile(join(root.path, 'state', file), JSON.stringify(content))
const open = async (root: TestRoot) => {
  const { log, lines } = recordedLog()
  const { board } = await openTaskRoot({ root: root.path, owner: 'test', settings, log })
  return { board, reports: () => lines.filter(({ message }) => message === 'imported a task root of the reference') }
}

async function governed(control: object) {
  const root = await testRoot()
  await root.writeLog(['T-1', 'T-2', 'T-3', 'T-4'].map((taskId) => line(taskId, 'task_created', { title: taskId })))
  const board = await boardOf(root)
  const { drafts, pause, notTaken } = takeGovernance(board.state, { ...control }, at)
  await board.close()
  return { pause, notTaken, notes: Object.fromEntries(drafts.map(({ taskId, payload }) => [taskId, payload])) }
}

it('[H5.1] a frozen board and an undecided approval of every dispatch pause the board; an approved one does not', async () => {
  expect((await governed({ frozen: true })).pause).toContain('"frozen"')
  const approval = (status?: string) => ({ approvals: { a: { status, target: { type: 'dispatch' } } } })
  expect((await governed(approval())).pause).toBe('approval "a" for every dispatch is pending')
  expect((await governed(approval('rejected'))).pause).toBe('approval "a" for every dispatch is rejected')
  expect((await governed(approval('approved'))).pause).toBeNull()
})

it('[H5.1] approvals of tasks are taken with their decision, and a rejected task is frozen', async () => {
  const approval = (taskId: string, more: object) => ({ target: { type: 'dispatch', taskId }, ...more })
  const { notes, notTaken, pause } = await governed({
    approvals: {
      yes: approval('t-1', { status: 'approved', decidedBy: 'ann', decidedAt: '2026-02-26T00:00:00Z' }),
      no: approval('T-2', { status: 'rejected' }),
      open: approval('T-3', {}),
      other: { status: 'pending', target: { type: 'deploy', taskId: 'T-4' } },
      gone: approval('T-9', { status: 'approved' }),
    },
  })
  expect(notes).toEqual({
    'T-1': { requiresApproval: true, approval: { by: 'ann', at: '2026-02-26T00:00:00Z' } },
    'T-2': { frozen: { by: 'import', at, reason: 'approval "no" was rejected' } },
    'T-3': { requiresApproval: true },
  })
  expect(notTaken.map((one) => /approvals\.\w+/.exec(one)?.[0])).toEqual(['approvals.other', 'approvals.gone'])
  expect(pause).toBeNull()
})

it('[H5.1] the owner of the snapshot is taken for open work and not for finished work', async () => {
  const root = await testRoot()
  await root.writeLog([
    ...['T-1', 'T-2'].map((taskId) => line(taskId, 'task_created', { title: taskId })),
    ...['T-1', 'T-2'].map((taskId) => line(taskId, 'task_claimed', { from: 'pending', to: 'claimed', owner: 'coder' })),
    line('T-2', 'task_done', { from: 'claimed', to: 'done' }),
  ])
  const board = await boardOf(root)
  const taken = (taskId: string) => takeTask(board.state, taskId, { owner: 'debugger', history: [] })
  expect(taken('T-1').drafts).toMatchObject([{ type: 'task_noted', payload: { owner: 'debugger' } }])
  expect(taken('T-2').drafts).toEqual([])
  await board.close()
})

it('[H5.1] a task of the snapshot that the board cannot write is named, and the others are imported', async () => {
  const root = await testRoot()
  await root.writeLog([line('T-1', 'task_created', { title: 'T-1' })])
  const tasks = {
    'T-1': { history: [], priority: 3 },
    'T-2': { history: [], title: 'Only in the snapshot', huge: 'x'.repeat(9 * 2 ** 20) },
    'T-3': { history: [], title: 'Another one' },
  }
  await put(root, 'tasks.snapshot.json', { tasks })
  const { board, reports } = await open(root)
  expect([...board.state.tasks.keys()]).toEqual(['T-1', 'T-3'])
  expect(board.state.tasks.get('T-1')?.priority).toBe(3)
  expect(reports()[0]?.fields['notTaken']).toEqual([expect.stringMatching(/^T-2: /)])
  await board.close()
})

it('[H5.1] two processes that open a root at once import it once, and a pause of a person stays', async () => {
  const root = await testRoot()
  const created = line('T-1', 'task_created', { title: 'T-1' })
  const paused = line('board', 'board_control', { paused: { by: 'ann', at, reason: 'mine' } })
  await root.writeLog([created, paused])
  await put(root, 'governance.control.json', { paused: true })
  const [one, other] = await Promise.all([open(root), open(root)])
  await other.board.sync()
  expect(other.board.state.control['paused']).toMatchObject({ by: 'ann', reason: 'mine' })
  expect((await root.lines()).filter((text) => text.includes('"imported"'))).toHaveLength(1)
  await Promise.all([one.board.close(), other.board.close()])
})

it('[H5.1] attempts of the state file never replace those of the log, and each task is imported once', async () => {
  const root = await testRoot()
  const decided = { taskId: 'T-1', reasonCode: 'spawn_failed', attempt: 3, nextAssignee: 'human', action: 'human' }
  const more = { recoveryState: 'human_handoff', cooldownUntilTs: 0, deadlineTs: 0, reminders: 0 }
  await root.writeLog([
    ...['T-1', 'T-2'].map((taskId) => line(taskId, 'task_created', { title: taskId })),
    line('T-1', 'task_noted', { recovery: { spawn_failed: { ...decided, ...more } } }),
  ])
  const entry = { attempt: 1, nextAssignee: 'debugger', action: 'retry', cooldownUntilTs: 0 }
  const stateFile = (...keys: string[]) =>
    put(root, 'recovery.state.json', { entries: Object.fromEntries(keys.map((key) => [key, entry])) })
  await stateFile('T-1|spawn_failed', 'T-1|timeout', 'T-2|timeout')
  const attempts = async () => {
    const { board } = await open(root)
    const of = (taskId: string, reason: string) => recoveryOf(board.state.tasks.get(taskId)!, reason)?.attempt
    const found = [of('T-1', 'spawn_failed'), of('T-1', 'timeout'), of('T-2', 'timeout'), of('T-2', 'later')]
    await board.close()
    return found
  }
  expect(await attempts()).toEqual([3, 1, 1, undefined])
  await stateFile('T-2|later')
  expect(await attempts()).toEqual([3, 1, 1, undefined])
})
