/** The commands of people and programs: rejected with a reason, or recorded with their actor. */
import { InvalidInput } from '@bellwether/protocol'
import { newTask } from '@bellwether/protocol/task-input'
import { checked } from '../../../src/board/tasks/input.js'
import { describe, expect, it } from 'vitest'
import { autopilotStep } from '../../../src/board/dispatch/autopilot.js'
import {
  addTask,
  blockTask,
  changeTask,
  claimTask,
  finishTask,
  retryTask,
} from '../../../src/board/tasks/task-commands.js'
import { escalate, freeze, pause, requireApproval } from '../../../src/board/tasks/operator-commands.js'
import { defaultRecovery } from '../../../src/board/policies/recovery.js'
import { runAutopilot } from '../../../src/board/dispatch/autopilot.js'
import { dispatch } from '../../../src/board/dispatch/dispatch.js'
import { controlRequest, createRequest, patchRequest } from '../../../src/board/dispatch/requests.js'
import { statusPath } from '../../../src/board/tasks/status-path.js'
import { markdownReport } from '../../../src/board/tasks/markdown-report.js'
import { listTasks, taskView } from '../../../src/board/tasks/task-view.js'
import { taskStatuses, transitions } from '../../../src/board/log/task.js'
import {
  boardOf,
  created,
  dispatcherOf,
  makeWorld,
  never,
  noCaches,
  put,
  operator,
  taskOf,
} from '../../support/board/dispatcher.js'

const rules = { firstAgent: 'coder', recovery: defaultRecovery }
const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => 'done',
    (error: unknown) => (error as { code?: string }).code,
  )
/** Also catches synchronous errors. */
const refusal = (work: () => Promise<unknown>) => codeOf((async () => work())())

it('a paused board lists no task as ready', async () => {
  const world = makeWorld()
  await put(world, created('T-1'))
  const board = boardOf(world)
  await pause({ board, nowMs: () => 0 }, { by: 'ann' })
  expect(listTasks(board.state, 0, rules).tasks).toMatchObject([{ taskId: 'T-1', waitsFor: 'ann paused the board' }])
})

describe('the way from one status to another', () => {
  it('a status path consists of legal transitions, and none leads out of done', () => {
    for (const from of taskStatuses)
      for (const to of taskStatuses) {
        const way = statusPath(from, to)
        const shut = from !== to && (from === 'done' || to === 'pending')
        expect([way === null, way?.length === 0], `${from} → ${to}`).toEqual([shut, from === to])
      }
    expect(statusPath('pending', 'failed')).toEqual(['task_blocked', 'task_reopened', 'task_failed'])
    expect(statusPath('claimed', 'failed')).toEqual(['task_started', 'task_failed'])
    expect(transitions.done).toEqual([])
  })
})

describe('by hand', () => {
  it('a task gets the next id, and a dependency cycle is rejected', async () => {
    const world = makeWorld()
    expect(await addTask(operator(world), { title: 'one' }, 'ann')).toBe('T-1')
    expect(await addTask(operator(world), { title: 'two', dependencies: ['T-1'] }, 'ann')).toBe('T-2')
    expect(await addTask(operator(world), { title: 'x', taskId: 'odd' }, 'ann')).toBe('odd')
    expect(await addTask(operator(world), { title: 'three', dependencies: ['T-2'] }, 'ann')).toBe('T-3')
    const codes = await Promise.all([
      refusal(() => changeTask(operator(world), 'T-1', { dependencies: ['T-3'] }, 'ann')),
      refusal(() => changeTask(operator(world), 'T-1', { dependencies: ['T-1'] }, 'ann')),
      refusal(() => changeTask(operator(world), 'T-1', { dependencies: ['T-99'] }, 'ann')),
      refusal(() => changeTask(operator(world), 'nope', { priority: 1 }, 'ann')),
      refusal(() => changeTask(operator(world), 'T-1', {}, 'ann')),
      refusal(() => addTask(operator(world), { title: 'again', taskId: 'odd' }, 'ann')),
    ])
    expect(codes).toEqual([
      'dependency_cycle',
      'dependency_cycle',
      'unknown_dependency',
      'unknown_task',
      'empty_change',
      'task_exists',
    ])
  })

  it('an invalid task is rejected with its key', async () => {
    const world = makeWorld()
    const wrong = [
      {},
      { title: '' },
      { title: 'x', priority: Number.NaN },
      { title: 'x', priority: Number.POSITIVE_INFINITY },
      { title: 'x', taskId: '../up' },
      { title: 'x', taskId: '__proto__' },
      { title: 'x', colour: 'red' },
      { title: 'x', instruction: 'x'.repeat(100_001) },
      { title: 'x', dependencies: 'T-1' },
    ]
    for (const input of wrong)
      expect(await refusal(async () => checked(newTask, input, 'task')), JSON.stringify(input)).toBe('invalid_task')
    expect(await refusal(() => addTask(operator(world), { title: 'x' }, 'a\u001b[31m'))).toBe('invalid_task')
    expect(world.root.events).toEqual([])
  })

  it('a claim is rejected while an agent works on the task or another person or a dispatcher has claimed it', async () => {
    const world = makeWorld()
    await put(world, created('T-1'), created('T-2'))
    await claimTask(operator(world), 'T-2', 'ann')
    expect(await refusal(() => claimTask(operator(world), 'T-2', 'bob'))).toBe('claimed')
    expect(await refusal(() => claimTask(operator(world), 'T-2', 'ann'))).toBe('done')
    await autopilotStep(dispatcherOf(world), noCaches)
    expect(await refusal(() => claimTask(operator(world), 'T-1', 'ann'))).toBe('open_run')
  })

  it('a task can be finished from every status but done', async () => {
    const world = makeWorld()
    await put(world, created('T-1'), created('T-2'), created('T-3'))
    await blockTask(operator(world), 'T-2', { by: 'ann', reason: 'why' })
    await escalate({ ...operator(world), recovery: defaultRecovery }, 'T-3', { by: 'ann' })
    for (const id of ['T-1', 'T-2', 'T-3']) await finishTask(operator(world), id, 'ann', { evidence: null })
    expect([...(await boardOf(world).sync()).tasks.values()].map(({ status }) => status)).toEqual([
      'done',
      'done',
      'done',
    ])
    expect(await refusal(() => finishTask(operator(world), 'T-1', 'ann', { evidence: null }))).toBe('already_done')
  })

  it('a retry starts from the first attempt, on request with a fresh budget', async () => {
    const world = makeWorld()
    const spent = { taskId: 'T-1', agent: 'coder', tokenUsage: 99_999, elapsedMs: 1, retryCount: 9, updatedAt: '' }
    await put(world, created('T-1', { budget: { coder: spent } }))
    const dispatcher = dispatcherOf(world)
    expect((await autopilotStep(dispatcher, noCaches)).overBudget).toEqual(['T-1'])
    await retryTask({ ...operator(world), firstAgent: 'coder' }, 'T-1', { by: 'ann', freshBudget: true })
    expect((await autopilotStep(dispatcher, noCaches)).started.length).toBe(1)
  })

  it('lists the tasks in which a person has to act, wherever they are among the others', async () => {
    const world = makeWorld()
    await put(world, ...Array.from({ length: 30 }, (_, n) => created(`T-${n}`, { title: 'x', priority: 9 })))
    await put(
      world,
      created('T-late', { title: 'x', requiresApproval: true }),
      created('T-behind', { title: 'x', dependencies: ['T-late'] }),
      { taskId: 'T-7', type: 'task_blocked', actor: 'x', payload: { reason: 'r' } },
    )
    const state = await boardOf(world).sync()
    const page = listTasks(state, world.clock.wallMs(), rules, { done: false, needsPerson: true, limit: 1 })
    expect([page.tasks.map(({ taskId }) => taskId), page.total, page.cursor]).toEqual([['T-7'], 2, 1])
    const rest = listTasks(state, world.clock.wallMs(), rules, { needsPerson: true, limit: 10, cursor: 1 })
    expect(rest.tasks).toMatchObject([{ taskId: 'T-late' }])
  })

  it('lists and reports are bounded, name what each task waits for, and escape text from agents', async () => {
    const world = makeWorld()
    await put(world, ...Array.from({ length: 30 }, (_, n) => created(`T-${n}`, { title: `a | b\n# c <script> ${n}` })))
    await put(
      world,
      ...Array.from({ length: 30 }, (_, n) => ({
        taskId: `T-${n}`,
        type: 'task_blocked' as const,
        actor: 'x',
        payload: { reason: 'r' },
      })),
    )
    const state = await boardOf(world).sync()
    const page = listTasks(state, world.clock.wallMs(), rules, { limit: 10, cursor: 20 })
    expect([page.tasks.length, page.total, page.cursor, page.tasks[0]!.waitsFor]).toEqual([
      10,
      30,
      null,
      'it needs a person: r',
    ])
    expect(listTasks(state, 0, rules, { limit: 10 }).cursor).toBe(10)
    expect(() => taskView(state, 'nope', 0, rules)).toThrow('Task "nope" does not exist.')
    const { markdown } = markdownReport(state, world.clock.wallMs(), rules)
    expect(markdown).toContain('… and 10 more')
    expect(markdown).toContain('a \\| b # c &lt;script>')
    expect(markdown.split('\n').filter((line) => line.startsWith('# ')).length).toBe(1)
  })
})

describe('the functions behind the routes', () => {
  it('the HTTP requests create, change, move and dispatch tasks, and reject ambiguous changes', async () => {
    const world = makeWorld()
    world.kernel.script = () => ({})
    const dispatcher = dispatcherOf(world)
    expect(await createRequest(dispatcher, { title: 'one', review: true }, 'api')).toMatchObject({
      taskId: 'T-1',
      status: 'pending',
      waitsFor: null,
    })
    expect(await patchRequest(dispatcher, 'T-1', { priority: 7 }, 'api')).toMatchObject({ priority: 7 })
    expect(await refusal(() => patchRequest(dispatcher, 'T-1', { priority: 7, action: 'freeze' }, 'api'))).toBe(
      'ambiguous_change',
    )
    expect((await patchRequest(dispatcher, 'T-1', { action: 'freeze', reason: 'wait' }, 'api')).waitsFor).toBe(
      'api froze it',
    )
    await patchRequest(dispatcher, 'T-1', { action: 'unfreeze' }, 'api')
    expect(await dispatch(dispatcher, 'T-1', never)).toMatchObject({ status: 'review' })
    expect(await patchRequest(dispatcher, 'T-1', { status: 'done' }, 'api')).toMatchObject({ status: 'done' })
    expect(await controlRequest(dispatcher, { paused: true }, 'api')).toEqual({ paused: true })
    const result = await runAutopilot(dispatcher, noCaches, { maxSteps: 3, signal: never })
    expect(result).toEqual({ reports: [], stoppedBecause: 'api paused the board' })
  })

  it('a task that a person finishes is checked like an agent’s, unless unchecked', async () => {
    const world = makeWorld()
    world.verify = () => ({ exitCode: 1 })
    await put(world, created('T-1', { verify: ['npm test'] }))
    const dispatcher = dispatcherOf(world)
    expect(await refusal(() => patchRequest(dispatcher, 'T-1', { status: 'done', files: ['none.txt'] }, 'ann'))).toBe(
      'incomplete_output',
    )
    expect(await refusal(() => patchRequest(dispatcher, 'T-1', { status: 'done' }, 'ann'))).toBe('incomplete_output')
    expect((await taskOf(world)).status).toBe('pending')
    expect(await patchRequest(dispatcher, 'T-1', { status: 'done', unchecked: true }, 'ann')).toMatchObject({
      status: 'done',
    })
  })

  it('every operator command is a line with its actor', async () => {
    const world = makeWorld()
    const dispatcher = dispatcherOf(world)
    await createRequest(dispatcher, { title: 'one' }, 'ann')
    await requireApproval(operator(world), 'T-1', { by: 'bob' })
    await patchRequest(dispatcher, 'T-1', { action: 'approve' }, 'cid')
    await freeze(operator(world), 'T-1', { by: 'dan' })
    await patchRequest(dispatcher, 'T-1', { action: 'escalate', reason: 'hard' }, 'eve')
    await patchRequest(dispatcher, 'T-1', { action: 'abort' }, 'fay')
    expect(world.root.events.map(({ actor }) => actor)).toEqual(['ann', 'bob', 'cid', 'dan', 'eve', 'fay', 'fay'])
    expect(await taskOf(world)).toMatchObject({ status: 'failed', reason: 'aborted by fay' })
  })
})

it('an abort over HTTP stops the turn at once, also while a policy file is invalid, and the next step closes the run', async () => {
  const world = makeWorld()
  const dispatcher = dispatcherOf(world)
  await createRequest(dispatcher, { title: 'one' }, 'ann')
  await autopilotStep(dispatcher, noCaches)
  const invalid = { ...dispatcher, policies: () => Promise.reject(new InvalidInput('bad', { code: 'invalid_policy' })) }
  await patchRequest(invalid, 'T-1', { action: 'abort', reason: 'wrong' }, 'ann')
  expect(world.kernel.calls).toContain('stop T-1: aborted by ann')
  await autopilotStep(dispatcher, noCaches)
  expect(await taskOf(world)).toMatchObject({ status: 'failed', reason: 'aborted by ann: wrong' })
})
