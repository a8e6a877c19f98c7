/** Task roots that the reference wrote open with nothing lost, whatever command writes first. */
import { mkdir, readFile, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it, vi } from 'vitest'
import { rebuildSnapshot, restoreSnapshot } from '../../../src/board/repair/rebuild.js'
import { loadPolicies } from '../../../src/board/policies/load.js'
import { recoveryOf } from '../../../src/board/policies/recovery.js'
import { budgetsOf } from '../../../src/board/policies/budget.js'
import { resume } from '../../../src/board/tasks/operator-commands.js'
import { readiness } from '../../../src/board/tasks/ready.js'
import { pausedBy } from '../../../src/board/tasks/task-fields.js'
import { printError } from '../../../src/cli/shared/output.js'
import { loadTask } from '../../../src/cli/work/task/task.js'
import { openTaskRoot } from '../../../src/runtime/parts/board/task-root.js'
import { loadSettings } from '../../../src/settings/load.js'
import { recordedLog } from '../../support/recorded-log.js'
import { boardOf, testRoot, testWorld, type TestRoot } from '../log/test-root.js'

const at = '2026-02-27T00:00:00Z'
let count = 0
const line = (taskId: string, type: string, payload: object) => {
  count += 1
  return { eventId: `ref-${count}`, taskId, type, messageType: '[TASK]', actor: 'orchestrator', at, payload }
}
const theirs = (taskId: string, status: string, more: object = {}) => ({
  taskId,
  title: `Do ${taskId}`,
  status,
  owner: null,
  assigneeHint: 'orchestrator',
  createdBy: 'orchestrator',
  createdAt: at,
  updatedAt: at,
  blockedReason: null,
  result: null,
  review: null,
  relatedTo: null,
  projectId: null,
  history: [`h-${taskId}`],
  ...more,
})

/** A root as the reference leaves it. */
async function referenceRoot(): Promise<TestRoot> {
  const root = await testRoot()
  const made = (taskId: string) => line(taskId, 'task_created', { title: `Do ${taskId}`, assigneeHint: 'orchestrator' })
  await root.writeLog([
    ...['T-001', 'T-002', 'T-003', 'T-004', 'T-005'].map(made),
    line('T-002', 'task_claimed', { from: 'pending', to: 'claimed', owner: 'coder' }),
    line('T-002', 'task_claimed', { from: 'claimed', to: 'in_progress', owner: 'coder' }),
    line('T-002', 'task_claimed', { from: 'in_progress', to: 'in_progress', owner: 'debugger' }),
    line('T-003', 'task_blocked', { from: 'pending', to: 'blocked', reason: 'recovery_pending:debugger' }),
  ])
  const tasks = {
    'T-001': theirs('T-001', 'pending', { dependsOn: ['T-002'], priority: 7, impact: 2, blockedBy: ['T-003'] }),
    'T-002': theirs('T-002', 'in_progress', { owner: 'debugger' }),
    'T-003': theirs('T-003', 'blocked', { blockedReason: 'recovery_pending:debugger' }),
    'T-004': theirs('T-004', 'done', { owner: 'coder', result: 'finished' }),
    'T-005': theirs('T-005', 'pending', { projectId: 'P-1' }),
    'T-006': theirs('T-006', 'pending', { dependsOn: ['T-001'], instruction: 'only in the snapshot' }),
  }
  const put = (path: string, content: object) => writeFile(join(root.path, path), JSON.stringify(content, undefined, 2))
  await put('state/tasks.snapshot.json', { tasks, meta: { version: 2, updatedAt: at } })
  await put('state/governance.control.json', {
    version: 1,
    paused: true,
    frozen: false,
    aborts: { global: 2, autopilot: 0, tasks: { 'T-005': 1 } },
    approvals: { a1: { id: 'a1', status: 'pending', target: { type: 'dispatch', taskId: 'T-001' } } },
  })
  await put('state/recovery.state.json', {
    entries: { 'T-003|spawn_failed': { attempt: 1, nextAssignee: 'debugger', action: 'retry', cooldownUntilTs: 0 } },
  })
  await put('state/budget.state.json', { entries: { 'T-003|coder': { tokenUsage: 900, elapsedMs: 5, retryCount: 1 } } })
  await mkdir(join(root.path, 'config'))
  await put('config/runtime-policy.json', {
    agents: ['coder'],
    orchestrator: { executorRouting: { coder: 'codex_cli' } },
  })
  await put('config/role-strategies.json', {})
  return root
}

async function task(root: TestRoot, ...words: string[]): Promise<number> {
  const output = [process.stdout, process.stderr].map((to) => vi.spyOn(to, 'write').mockReturnValue(true))
  let code = 0
  try {
    await (
      await loadTask(words[0])
    )((exitCode) => (code = exitCode)).parseAsync([...words, '--root', root.path], { from: 'user' })
  } catch (error) {
    code = printError(error)
  } finally {
    for (const spy of output) spy.mockRestore()
  }
  return code
}

async function nothingLost(root: TestRoot, first: string): Promise<void> {
  const { state } = await boardOf(root, { access: 'read' })
  const of = (taskId: string) => state.tasks.get(taskId)!
  expect([first, of('T-001').dependencies]).toEqual([first, ['T-002', 'T-003']])
  expect(of('T-001')).toMatchObject({ priority: 7, impact: 2, fields: { requiresApproval: true } })
  expect(of('T-002')).toMatchObject({ assignee: 'debugger' })
  expect(of('T-004')).toMatchObject({ status: 'done', fields: { result: 'finished' } })
  expect(of('T-005').fields).toMatchObject({ projectId: 'P-1', frozen: { by: 'import' } })
  expect(of('T-006')).toMatchObject({ dependencies: ['T-001'], fields: { instruction: 'only in the snapshot' } })
  expect([first, recoveryOf(of('T-003'), 'spawn_failed')?.attempt]).toEqual([first, 1])
  expect([first, budgetsOf(of('T-003')).get('coder')?.tokenUsage]).toEqual([first, 900])
  const pause = { by: 'import', at: expect.any(String), reason: expect.stringContaining('"paused"') }
  expect(pausedBy(state)).toEqual(first === 'resume' ? null : pause)
  const snapshot = await readFile(join(root.path, 'state/tasks.snapshot.before-import.json'), 'utf8')
  expect(JSON.parse(snapshot)).toHaveProperty('tasks.T-001.history', ['h-T-001'])
  expect(await readdir(join(root.path, 'state'))).toContain('recovery.state.before-import.json')
}

/** How each command that writes is called first. An action that the state of its task refuses has opened the root, too. */
const writing: Readonly<Record<string, readonly (readonly string[])[]>> = {
  add: [['One more']],
  edit: [['T-005', '--title', 'Another title']],
  claim: [['T-005']],
  block: [['T-002']],
  escalate: [['T-002']],
  freeze: [['T-002']],
  unfreeze: [['T-002']],
  release: [['T-002']],
  approve: [['T-002']],
  reject: [['T-002']],
  'require-approval': [['T-002']],
  abort: [['T-002']],
  'send-back': [['T-002']],
  done: [['T-002', '--unchecked']],
  merge: [['T-002']],
  keep: [['T-002']],
  retry: [['T-002']],
  pause: [[]],
  resume: [[]],
  dispatch: [
    ['T-005', '--command', 'true'],
    ['--command', 'true'],
  ],
}
const reading = ['list', 'show', 'checks', 'watch', 'synthesize']
/** Opens the root with `openTaskRoot`, as `server` and `up` do. */
const longRunning = ['autopilot']
/** Asks a server, and opens no root. */
const remote = ['bulk']

it('[H5.1] a root of the reference opens with nothing lost, whatever command writes first', async () => {
  const verbs = (await loadTask(undefined))(() => undefined).commands.map((command) => command.name())
  expect(verbs.toSorted()).toEqual([...Object.keys(writing), ...reading, ...longRunning, ...remote].toSorted())
  for (const [verb, calls] of Object.entries(writing)) {
    for (const rest of calls) {
      const root = await referenceRoot()
      await task(root, verb, ...rest)
      await expect(nothingLost(root, verb)).resolves.toBeUndefined()
    }
  }
})

const settings = loadSettings({ folder: '/', env: {} }).board

it('[H5.1] the import reports what was taken and what was not, once, and a resumed board stays resumed', async () => {
  const root = await referenceRoot()
  const { log, lines } = recordedLog()
  const open = () => openTaskRoot({ root: root.path, owner: 'test', settings, log })
  const { board } = await open()
  const report = lines.find(({ message }) => message === 'imported a task root of the reference')
  expect(report?.fields).toMatchObject({
    taken: { tasks: 1, statuses: 1, dependencies: 2, priority: 1, frozen: 1, approvals: 1, paused: 1 },
  })
  expect(report?.fields['notTaken']).toEqual([
    'config/role-strategies.json: the board does not use it',
    'config/runtime-policy.json: orchestrator.executorRouting: unsupported key',
    expect.stringContaining('aborts.global'),
  ])
  expect(board.state.control['imported']).toMatchObject({ taken: { tasks: 1 } })
  expect(readiness(board.state.tasks.get('T-001')!, board.state, 0, rulesOf)).toMatchObject({ code: 'dependency' })
  await resume({ board, nowMs: () => 0 }, { by: 'ann' })
  await board.close()
  const before = await root.lines()
  for (let time = 0; time < 2; time += 1) await (await open()).board.close()
  expect(await root.lines()).toEqual(before)
  expect(lines.filter(({ message }) => message === 'imported a task root of the reference')).toHaveLength(1)
})
const rulesOf = { firstAgent: 'coder', recovery: (await loadPolicies('/nonexistent')).recovery }

it('[H5.1] after the first write the snapshot still has every key that the reference reads', async () => {
  const root = await referenceRoot()
  await task(root, 'block', 'T-005', '--reason', 'waits')
  const { tasks, meta } = JSON.parse(await readFile(root.snapshot, 'utf8')) as Record<string, Record<string, object>>
  expect(meta).toMatchObject({ version: 2 })
  for (const [taskId, one] of Object.entries(tasks!)) {
    expect(Object.keys(one)).toEqual(expect.arrayContaining(Object.keys(theirs(taskId, 'pending'))))
    expect(one).toMatchObject({ history: [] })
  }
  expect(tasks!['T-005']).toMatchObject({ status: 'blocked', blockedReason: 'waits', projectId: 'P-1' })
  expect(tasks!['T-002']).toMatchObject({ owner: 'debugger' })
  expect(await rebuildSnapshot({ root: root.path, apply: false }, testWorld)).toMatchObject({ match: true })
})

it('[H5.1] a repair command that writes first keeps the snapshot of the reference for the import', async () => {
  const rebuilt = await referenceRoot()
  await rebuildSnapshot({ root: rebuilt.path, apply: true }, testWorld)
  await task(rebuilt, 'add', 'One more')
  await expect(nothingLost(rebuilt, 'rebuild-snapshot')).resolves.toBeUndefined()

  const restored = await referenceRoot()
  const empty = '{"tasks":{\n\n},\n"control":{},\n"meta":{"version":2}}\n'
  await writeFile(join(restored.path, 'state/tasks.snapshot.20260227T000000.000Z.json'), empty)
  await restoreSnapshot({ root: restored.path, apply: true }, testWorld)
  await task(restored, 'add', 'One more')
  await expect(nothingLost(restored, 'restore-snapshot')).resolves.toBeUndefined()
})

it('[H5.1] the snapshot never moves a task back: a newer line of the log wins, and done stays done', async () => {
  const root = await testRoot()
  await root.writeLog([
    line('T-001', 'task_created', { title: 'Do T-001' }),
    line('T-001', 'task_claimed', { from: 'pending', to: 'claimed', owner: 'coder' }),
    line('T-001', 'task_done', { from: 'claimed', to: 'done' }),
    line('T-002', 'task_created', { title: 'Do T-002' }),
    { ...line('T-002', 'task_blocked', { from: 'pending', to: 'blocked', reason: 'x' }), at: '2026-02-28T00:00:00Z' },
  ])
  const tasks = { 'T-001': theirs('T-001', 'claimed'), 'T-002': theirs('T-002', 'in_progress') }
  await writeFile(root.snapshot, JSON.stringify({ tasks, meta: { version: 2 } }))
  const { log, lines } = recordedLog()
  const { board } = await openTaskRoot({ root: root.path, owner: 'test', settings, log })
  expect([...board.state.tasks.values()].map(({ status }) => status)).toEqual(['done', 'blocked'])
  expect(lines.at(-1)?.fields['notTaken']).toHaveLength(2)
  await board.close()
})

it('[H5.1] the report of an import is bounded, however much was not taken', async () => {
  const root = await testRoot()
  await root.writeLog([line('T-001', 'task_created', { title: 'Do T-001' })])
  const control = Object.fromEntries(Array.from({ length: 150 }, (_, at) => [`${at}-${'x'.repeat(1_000)}`, true]))
  await writeFile(join(root.path, 'state/governance.control.json'), JSON.stringify(control))
  const { log, lines } = recordedLog()
  const { board } = await openTaskRoot({ root: root.path, owner: 'test', settings, log })
  const report = lines.find(({ message }) => message === 'imported a task root of the reference')!.fields
  for (const { notTaken, moreNotTaken } of [report, board.state.control['imported'] as typeof report]) {
    expect(notTaken).toHaveLength(100)
    expect(moreNotTaken).toBe(50)
    expect(JSON.stringify(notTaken).length).toBeLessThan(40_000)
  }
  await board.close()
})

it('[H5.1] the acceptance policy of the reference is accepted, and an unsupported key is named', async () => {
  const root = await testRoot()
  await mkdir(join(root.path, 'config'))
  const put = (policy: object) => writeFile(join(root.path, 'config/acceptance-policy.json'), JSON.stringify(policy))
  const verifyCommands = ['npm test', { cmd: 'grep -q TODO src', expectExitCode: 1, timeoutSec: 20 }]
  const global = { requireEvidence: true, evidenceMode: 'hard', verifyTimeoutSec: 60, verifyCommands }
  await put({ global, roles: { Coder: { requireAny: ['test', '验证'], verifyCommands: ['make lint'] }, human: {} } })
  const { acceptance } = await loadPolicies(root.path)
  expect(acceptance.default).toMatchObject({ minEvidence: 1, commands: [{ command: 'npm test' }, { timeoutSec: 20 }] })
  expect(acceptance.commandTimeoutSec).toBe(60)
  expect(acceptance.roles['coder']?.requireAny).toEqual(['test', '验证'])
  expect(acceptance.roles['coder']?.commands?.map(({ command }) => command)).toEqual([
    'npm test',
    '{ grep -q TODO src\n}; test $? -eq 1',
    'make lint',
  ])
  await put({ global: { ...global, stageGate: true } })
  await expect(loadPolicies(root.path)).rejects.toThrow('config/acceptance-policy.json: unknown key global.stageGate')
})
