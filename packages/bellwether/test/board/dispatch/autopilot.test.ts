/** The autopilot beside other autopilots, with turns that hang, claims that expire and a kernel that forgets. */
import { describe, expect, it } from 'vitest'
import { autopilotStep, runAutopilot, startAutopilot } from '../../../src/board/dispatch/autopilot.js'
import { openRun } from '../../../src/board/tasks/task-fields.js'
import { claimTask } from '../../../src/board/tasks/task-commands.js'
import { freeze, unfreeze } from '../../../src/board/tasks/operator-commands.js'
import { defaultBudget } from '../../../src/board/policies/budget.js'
import { defaultRecovery } from '../../../src/board/policies/recovery.js'
import { listTasks, taskView } from '../../../src/board/tasks/task-view.js'
import {
  boardOf,
  created,
  dispatcherOf,
  makeWorld,
  noCaches,
  operator,
  put,
  spawns,
  stateOf,
  taskOf,
  never,
} from '../../support/board/dispatcher.js'
import { settle } from '../../support/hand-clock.js'
import type { Draft } from '../../../src/board/log/task.js'

const rules = { firstAgent: 'coder', recovery: defaultRecovery }

it('[W2.5] a task whose turn cannot run says why in lists and details, until the turn runs', async () => {
  const world = makeWorld()
  await put(world, created('T-1'))
  const dispatcher = dispatcherOf(world)
  const step = () => autopilotStep(dispatcher, noCaches)
  const waitsFor = async () => {
    const state = await stateOf(world)
    const [line] = listTasks(state, world.clock.wallMs(), rules).tasks
    expect(taskView(state, 'T-1', world.clock.wallMs(), rules).waitsFor).toBe(line!.waitsFor)
    return line!.waitsFor
  }
  await step()
  expect(await waitsFor()).toContain('coder has been working on it since')
  const [turn] = world.kernel.turns.values()
  turn!.waitsFor = 'no worker for target "gpu"'
  for (let steps = 0; steps < 3; steps += 1) await step()
  expect(await waitsFor()).toBe('the turn of coder cannot run: no worker for target "gpu"')
  expect(await taskOf(world)).toMatchObject({ status: 'in_progress' })
  const notes = () => world.root.events.filter(({ payload }) => 'turnWait' in payload)
  expect(notes()).toHaveLength(1)

  delete turn!.waitsFor
  for (let steps = 0; steps < 3; steps += 1) await step()
  expect(await waitsFor()).toContain('coder has been working on it since')
  expect(notes()).toHaveLength(2)
  // The note of an ended run says nothing about the next one.
  turn!.waitsFor = 'no worker for target "gpu"'
  await step()
  world.kernel.end([...world.kernel.turns.keys()][0]!, { outcome: 'failed', error: 'dispatch_timeout' })
  await step()
  await world.clock.advance(200_000)
  await step()
  expect(world.kernel.turns.size).toBe(2)
  expect(await waitsFor()).toContain('debugger has been working on it since')
})

describe('the autopilot', () => {
  it('the autopilot starts tasks up to the concurrency limit, and more when a turn ends', async () => {
    const world = makeWorld()
    await put(world, ...Array.from({ length: 6 }, (_, n) => created(`T-${n}`)))
    const dispatcher = dispatcherOf(world)
    expect((await autopilotStep(dispatcher, noCaches)).started.length).toBe(4)
    expect((await autopilotStep(dispatcher, noCaches)).started.length).toBe(0)
    world.kernel.end([...world.kernel.turns.keys()][0]!)
    const step = await autopilotStep(dispatcher, noCaches)
    expect([step.reconciled.filter(({ what }) => what.result === 'closed').length, step.started.length]).toEqual([1, 1])
  })

  it('several autopilots on one root spawn each task once, share the limit and record nothing twice', async () => {
    const world = makeWorld()
    await put(world, ...Array.from({ length: 12 }, (_, n) => created(`T-${n}`)))
    const dispatchers = [
      dispatcherOf(world, { actor: 'one' }),
      dispatcherOf(world, { actor: 'two' }),
      dispatcherOf(world, { actor: 'three' }),
    ]
    for (let round = 0; round < 8; round += 1) {
      await Promise.all(dispatchers.map((dispatcher) => autopilotStep(dispatcher, noCaches)))
      const open = [...(await stateOf(world)).tasks.values()].filter((task) => openRun(task) !== null).length
      expect(open).toBeLessThanOrEqual(4)
      for (const key of world.kernel.turns.keys()) world.kernel.end(key)
    }
    expect(spawns(world).sort()).toEqual(Array.from({ length: 12 }, (_, n) => `T-${n} coder`).sort())
    for (const task of (await stateOf(world)).tasks.values()) {
      expect(task).toMatchObject({ status: 'done', fields: { budget: { coder: { retryCount: 1, tokenUsage: 100 } } } })
    }
  })

  it('[H6.3] [H7.4] runAutopilot reports every dispatch with its choice, and why it ended', async () => {
    const world = makeWorld()
    await put(world, created('T-1'), created('T-2', { priority: 2 }), created('T-3', { dependencies: ['T-1', 'T-2'] }))
    world.kernel.script = ({ taskId }) =>
      taskId === 'T-1' ? { outcome: 'failed', error: 'no', deliverable: null } : {}
    const { reports, stoppedBecause } = await runAutopilot(dispatcherOf(world), noCaches, {
      maxSteps: 10,
      signal: never,
    })
    expect(reports.map(({ taskId, status }) => `${taskId} ${status}`).sort()).toEqual(['T-1 blocked', 'T-2 done'])
    const failed = reports.find(({ taskId }) => taskId === 'T-1')
    expect(failed?.spawn).toMatchObject({
      reasonCode: 'spawn_failed',
      nextAssignee: 'debugger',
      metrics: { tokenUsage: 100 },
    })
    expect(failed?.choice?.taskId).toBe('T-1')
    expect(stoppedBecause).toBe('none of 2 open tasks is ready')
  })

  it('the autopilot wakes when a turn ends, and stops when its signal fires', async () => {
    const world = makeWorld()
    await put(world, created('T-1'), created('T-2', { dependencies: ['T-1'] }))
    const stop = new AbortController()
    const autopilot = startAutopilot(dispatcherOf(world), noCaches, stop.signal)
    await settle()
    world.kernel.end([...world.kernel.turns.keys()][0]!)
    await settle()
    expect(spawns(world)).toEqual(['T-1 coder', 'T-2 coder'])
    stop.abort()
    await autopilot.ended
  })

  it('[H6.7] a process that starts again raises what the last one may have died before it raised', async () => {
    const world = makeWorld()
    await put(world, created('T-1', { requiresApproval: true }), created('T-2'))
    const claimed = { taskId: 'T-2', actor: 'ann' }
    await put(world, { ...claimed, type: 'task_claimed' }, { ...claimed, type: 'task_started' })
    await put(world, {
      ...claimed,
      type: 'task_failed',
      payload: { reason: 'no_answer: why?', reasonCode: 'no_answer' },
    })
    for (let start = 0; start < 2; start += 1) {
      world.alerts.length = 0
      const stop = new AbortController()
      const autopilot = startAutopilot(dispatcherOf(world), noCaches, stop.signal)
      await settle()
      stop.abort()
      await autopilot.ended
      expect(world.alerts.map(({ taskId, kind }) => `${taskId} ${kind}`)).toEqual([
        'T-1 approval',
        'T-2 person_gave_up',
      ])
    }
  })

  it('a task that is added or changed in the same process wakes the autopilot, and its own writes do not', async () => {
    const world = makeWorld()
    const stop = new AbortController()
    const dispatcher = dispatcherOf(world)
    let steps = 0
    const policies = async () => ((steps += 1), world.policies)
    const autopilot = startAutopilot({ ...dispatcher, policies }, noCaches, stop.signal)
    await settle()
    expect(steps).toBe(1)
    await dispatcher.board.write(() => [created('T-1'), created('T-2', { dependencies: ['T-0'] })])
    await settle()
    expect([spawns(world), steps]).toEqual([['T-1 coder'], 2])
    await dispatcher.board.write(() => [
      { taskId: 'T-2', type: 'task_noted', actor: 'ann', payload: { dependencies: [] } },
    ])
    await settle()
    expect([spawns(world), steps]).toEqual([['T-1 coder', 'T-2 coder'], 3])
    // The board reads the line of another process.
    await put(world, created('T-3'))
    await dispatcher.board.sync()
    await settle()
    expect(spawns(world)).toContain('T-3 coder')
    stop.abort()
    await autopilot.ended
  })

  it('a task that is added while the autopilot decides is started by the next step, without a wait', async () => {
    const world = makeWorld()
    const stop = new AbortController()
    const dispatcher = dispatcherOf(world)
    let late: readonly Draft[] = [created('T-2')]
    const disk = {
      ...noCaches.disk,
      // The caches are the last thing that a step writes.
      async read() {
        const drafts = late
        late = []
        if (drafts.length > 0) await dispatcher.board.write(() => drafts)
        return { found: 'missing' as const }
      },
    }
    await put(world, created('T-1'))
    const autopilot = startAutopilot(dispatcher, { ...noCaches, disk }, stop.signal)
    await settle()
    expect(spawns(world)).toEqual(['T-1 coder', 'T-2 coder'])
    stop.abort()
    await autopilot.ended
  })

  it('the autopilot blocks a task whose turn the kernel does not know after observing it for the grace period, and never spawns a second turn', async () => {
    const world = makeWorld()
    await put(world, created('T-1'))
    await autopilotStep(dispatcherOf(world), noCaches)
    world.kernel.forgetAll()
    const dispatcher = dispatcherOf(world)
    await autopilotStep(dispatcher, noCaches)
    world.clock.jumpWall(86_400_000)
    await autopilotStep(dispatcher, noCaches)
    expect((await taskOf(world)).status).toBe('in_progress')
    await world.clock.advance(60_000)
    await autopilotStep(dispatcher, noCaches)
    expect(await taskOf(world)).toMatchObject({ status: 'blocked', fields: { reasonCode: 'turn_unknown' } })
    for (let step = 0; step < 3; step += 1) {
      await world.clock.advance(200_000)
      await autopilotStep(dispatcher, noCaches)
    }
    expect(world.kernel.turns.size).toBe(0)
    expect(world.kernel.calls.filter((call) => call.startsWith('spawn')).length).toBe(1)
    expect(world.alerts.map(({ kind }) => kind)).toContain('turn_unknown')
  })

  it('the autopilot stops a turn past its deadline, and closes the run of a turn that does not stop', async () => {
    const world = makeWorld({
      budget: { ...defaultBudget, global: { ...defaultBudget.global, maxTaskWallTimeSec: null } },
    })
    await put(world, created('T-1'), created('T-2'))
    const deaf = { ...world.kernel, stop: async () => undefined }
    const dispatcher = dispatcherOf(world, { spawner: deaf })
    await autopilotStep(dispatcher, noCaches)
    world.clock.jumpWall(10 * 86_400_000)
    await autopilotStep(dispatcher, noCaches)
    expect((await taskOf(world)).status).toBe('in_progress')
    await world.clock.advance(3_601_000)
    await autopilotStep(dispatcher, noCaches)
    expect((await taskOf(world)).status).toBe('in_progress')
    await world.clock.advance(60_000)
    await autopilotStep(dispatcher, noCaches)
    const task = await taskOf(world)
    expect(task.fields['spawn']).toMatchObject({
      reasonCode: 'spawn_failed',
      nextAssignee: 'debugger',
      outcome: 'timeout',
    })
  })

  it('a dispatcher that was stopped between intent and spawn does not spawn', async () => {
    const world = makeWorld()
    await put(world, created('T-1'))
    const board = boardOf(world)
    const sleepy = {
      ...board,
      get state() {
        return board.state
      },
      write: async (decide: Parameters<typeof board.write>[0]) => {
        const lines = await board.write(decide)
        if (lines.some(({ type }) => type === 'task_started')) await world.clock.advance(31_000)
        return lines
      },
    }
    await autopilotStep(dispatcherOf(world, { board: sleepy }), noCaches)
    expect(world.kernel.calls).toEqual([])
    expect(openRun(await taskOf(world))).not.toBeNull()
  })

  it('the autopilot releases a task that was frozen between claim and intent, and starts it after unfreeze', async () => {
    const world = makeWorld()
    await put(world, created('T-1'))
    const dispatcher = dispatcherOf(world)
    const late = {
      ...dispatcher.evidence,
      changeToken: async () => (await freeze(operator(world), 'T-1', { by: 'ann' }), 'token'),
    }
    expect((await autopilotStep(dispatcherOf(world, { evidence: late }), noCaches)).started).toEqual([])
    expect(await taskOf(world)).toMatchObject({ status: 'claimed', fields: { frozen: { by: 'ann' } } })
    await unfreeze(operator(world), 'T-1', { by: 'ann' })
    await world.clock.advance(1)
    expect((await autopilotStep(dispatcher, noCaches)).started.length).toBe(1)
  })

  it('a dispatcher that lost its expired claim to another starts nothing', async () => {
    const world = makeWorld()
    await put(world, created('T-1'))
    const dispatcher = dispatcherOf(world)
    const slow = {
      ...dispatcher.evidence,
      changeToken: async () => {
        await world.clock.advance(61_000)
        expect((await autopilotStep(dispatcherOf(world, { actor: 'quick' }), noCaches)).started.length).toBe(1)
        return 'token'
      },
    }
    // Only the slow dispatcher waits this long; the retries of the policy are not tested here.
    const patient = {
      ...world.policies,
      calls: { ...world.policies.calls, timeoutMs: { ...world.policies.calls.timeoutMs, local_state: 1e9 } },
    }
    const step = await autopilotStep(dispatcherOf(world, { evidence: slow, policies: async () => patient }), noCaches)
    expect(step.started).toEqual([])
    expect(world.kernel.turns.size).toBe(1)
    expect(world.root.events.filter(({ type }) => type === 'task_started').length).toBe(1)
  })
})

describe('a claim', () => {
  it('a claim that a person took over starts nothing', async () => {
    const world = makeWorld()
    await put(world, created('T-1'))
    const dispatcher = dispatcherOf(world)
    const taken = async () => {
      world.clock.jumpWall(61_000)
      await claimTask(operator(world), 'T-1', 'ann')
      return 'token'
    }
    const step = await autopilotStep(
      dispatcherOf(world, { evidence: { ...dispatcher.evidence, changeToken: taken } }),
      noCaches,
    )
    expect(step.started).toEqual([])
    expect(await taskOf(world)).toMatchObject({ status: 'claimed', assignee: 'ann', runs: [] })
  })

  it('the limit in config/runtime-policy.json overrides the setting', async () => {
    const world = makeWorld({ runtime: { explicit: { maxConcurrentSpawns: 1 } } })
    await put(world, created('T-1'), created('T-2'))
    expect((await autopilotStep(dispatcherOf(world), noCaches)).started.length).toBe(1)
  })
})
