/** People are reminded and dependencies become ready, whatever the clocks do. */
import { describe, expect, it } from 'vitest'
import { autopilotStep } from '../../../src/board/dispatch/autopilot.js'
import { explainDecision } from '../../../src/board/tasks/next-task.js'
import { retryTask } from '../../../src/board/tasks/task-commands.js'
import { abort } from '../../../src/board/tasks/operator-commands.js'
import { recoveryEntries } from '../../../src/board/policies/recovery.js'
import {
  created,
  dispatcherOf,
  makeWorld,
  noCaches,
  operator,
  put,
  spawns,
  stateOf,
  taskOf,
} from '../../support/board/dispatcher.js'

describe('people and clocks', () => {
  it('[H6.4] a person gets a deadline, is reminded after it, and after the last reminder the task fails', async () => {
    const world = makeWorld()
    await put(
      world,
      created('T-1'),
      created('T-2', { requiresApproval: true }),
      created('T-3', { dependencies: ['T-1'] }),
    )
    await put(world, { taskId: 'T-1', type: 'task_blocked', actor: 'ann', payload: { reason: 'what colour?' } })
    const dispatcher = dispatcherOf(world)
    const days: string[] = []
    for (let day = 0; day < 6; day += 1) {
      await autopilotStep(dispatcher, noCaches)
      const { tasks } = await stateOf(world)
      days.push(`${tasks.get('T-1')!.status} ${tasks.get('T-2')!.status} ${world.alerts.length}`)
      await world.clock.advance(86_401_000)
    }
    expect(days).toEqual([
      'blocked pending 2',
      'blocked pending 4',
      'blocked pending 6',
      'blocked pending 8',
      'failed failed 10',
      'failed failed 10',
    ])
    const kindsOf = (taskId: string) => world.alerts.filter((one) => one.taskId === taskId).map(({ kind }) => kind)
    const reminders = ['person_reminder', 'person_reminder', 'person_reminder', 'person_gave_up']
    expect([kindsOf('T-1'), kindsOf('T-2')]).toEqual([
      ['handoff', ...reminders],
      ['approval', ...reminders],
    ])
    expect(world.alerts[0]).toMatchObject({
      text: 'T-1 "Do T-1" needs a person: what colour?',
      details: { deadline: expect.any(String) },
    })
    expect(await taskOf(world)).toMatchObject({ status: 'failed', reason: 'no_answer: what colour?' })
    expect(recoveryEntries((await taskOf(world))!).map(([key]) => key)).toContain('T-1|blocked')
  })

  it('a wall clock that jumps a year ahead causes one reminder, and one that is set back delays nothing', async () => {
    const world = makeWorld()
    await put(world, created('T-1'))
    await put(world, { taskId: 'T-1', type: 'task_blocked', actor: 'ann', payload: { reason: 'what colour?' } })
    const dispatcher = dispatcherOf(world)
    await autopilotStep(dispatcher, noCaches)
    world.clock.jumpWall(365 * 86_400_000)
    for (let step = 0; step < 5; step += 1) await autopilotStep(dispatcher, noCaches)
    expect([(await taskOf(world)).status, world.alerts.length]).toEqual(['blocked', 2])

    await put(world, created('T-2'))
    world.kernel.script = () => ({ outcome: 'failed', error: 'no', deliverable: null })
    await autopilotStep(dispatcher, noCaches)
    await autopilotStep(dispatcher, noCaches)
    expect(spawns(world)).toEqual(['T-2 coder'])
    world.clock.jumpWall(-30 * 86_400_000)
    await autopilotStep(dispatcher, noCaches)
    expect(spawns(world)).toEqual(['T-2 coder', 'T-2 debugger'])
  })

  it('a task becomes ready when its dependency failed, was retried and is done', async () => {
    const world = makeWorld()
    await put(world, created('T-1'), created('T-2', { dependencies: ['T-1'] }))
    const dispatcher = dispatcherOf(world)
    await autopilotStep(dispatcher, noCaches)
    await abort(operator(world), 'T-1', { by: 'ann' })
    await autopilotStep(dispatcher, noCaches)
    const step = await autopilotStep(dispatcher, noCaches)
    expect(explainDecision(step.decision).others).toContainEqual({
      taskId: 'T-2',
      code: 'dependency',
      why: 'it depends on T-1, which is failed',
    })
    await retryTask({ ...operator(world), firstAgent: 'coder' }, 'T-1', { by: 'ann', agent: 'debugger' })
    world.kernel.script = () => ({})
    for (let round = 0; round < 4; round += 1) await autopilotStep(dispatcher, noCaches)
    expect(spawns(world)).toEqual(['T-1 coder', 'T-1 debugger', 'T-2 coder'])
    expect((await taskOf(world, 'T-2')).status).toBe('done')
  })
})
