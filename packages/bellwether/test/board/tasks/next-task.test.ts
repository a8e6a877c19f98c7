/** Which task the autopilot starts next, and why it skips the others. */
import { describe, expect, it } from 'vitest'
import { defaultRecovery } from '../../../src/board/policies/recovery.js'
import { nextTask } from '../../../src/board/tasks/next-task.js'
import { created, makeWorld, put, stateOf } from '../../support/board/dispatcher.js'

const rules = { firstAgent: 'coder', recovery: defaultRecovery }

describe('the choice', () => {
  it('the choice is by priority, impact, age and id, is deterministic, and explains itself', async () => {
    const world = makeWorld()
    await put(world, created('late', { priority: 5, impact: 1 }), created('low', { priority: 1, impact: 9 }))
    await world.clock.advance(1_000)
    await put(world, created('b', { priority: 5, impact: 2 }), created('a', { priority: 5, impact: 2 }))
    await put(world, created('behind', { priority: 9, dependencies: ['low'] }))
    const choice = nextTask(await stateOf(world), world.clock.wallMs(), rules)
    expect(choice).toMatchObject({ taskId: 'a', assignee: 'coder', ready: 4, left: 0 })
    expect(choice.because).toContain('priority 5, impact 2')
    expect(choice.others).toEqual([
      { taskId: 'b', code: 'after', why: 'its id sorts later' },
      { taskId: 'late', code: 'after', why: 'its impact is 1, not 2' },
      { taskId: 'low', code: 'after', why: 'its priority is 1, not 5' },
      { taskId: 'behind', code: 'dependency', why: 'it depends on low, which is pending' },
    ])
  })

  it('the choice lists at most twenty other tasks and counts the rest', async () => {
    const world = makeWorld()
    await put(world, ...Array.from({ length: 60 }, (_, n) => created(`T-${n}`)))
    const choice = nextTask(await stateOf(world), world.clock.wallMs(), rules)
    expect([choice.others.length, choice.left, choice.ready]).toEqual([20, 39, 60])
  })

  it('the choice names a dependency cycle and a missing dependency', async () => {
    const world = makeWorld()
    await put(
      world,
      created('A', { dependencies: ['B'] }),
      created('B', { dependencies: ['A'] }),
      created('C', { dependencies: ['Z'] }),
    )
    const { others, taskId } = nextTask(await stateOf(world), world.clock.wallMs(), rules)
    expect(taskId).toBeNull()
    expect(others.map(({ why }) => why)).toEqual([
      'it depends on B, which is pending (dependency cycle)',
      'it depends on A, which is pending (dependency cycle)',
      'it depends on Z, which does not exist',
    ])
  })
})
