/** Operators pause the board, approve and abort tasks while the autopilot runs. */
import { describe, expect, it } from 'vitest'
import { autopilotStep } from '../../../src/board/dispatch/autopilot.js'
import { explainDecision } from '../../../src/board/tasks/next-task.js'
import { openRun } from '../../../src/board/tasks/task-fields.js'
import { abort, approve, pause, resume } from '../../../src/board/tasks/operator-commands.js'
import { created, dispatcherOf, makeWorld, noCaches, operator, put, taskOf } from '../../support/board/dispatcher.js'

describe('operators', () => {
  it('pause and resume write a line with the actor; while paused nothing starts, and running turns end', async () => {
    const world = makeWorld()
    await put(world, created('T-1'))
    const dispatcher = dispatcherOf(world)
    await autopilotStep(dispatcher, noCaches)
    await pause(operator(world), { by: 'ann', reason: 'deploy' })
    await put(world, created('T-2'))
    world.kernel.end([...world.kernel.turns.keys()][0]!)
    const step = await autopilotStep(dispatcher, noCaches)
    expect([(await taskOf(world)).status, step.started]).toEqual(['done', []])
    expect(explainDecision(step.decision)).toMatchObject({ taskId: null, because: 'ann paused the board: deploy' })
    await expect(pause(operator(world), { by: 'bob' })).rejects.toMatchObject({ code: 'already_paused' })
    await resume(operator(world), { by: 'bob' })
    expect((await autopilotStep(dispatcher, noCaches)).started.length).toBe(1)
    const control = world.root.events.filter(({ type }) => type === 'board_control')
    expect(control.map(({ actor, payload }) => [actor, Object.keys(payload)])).toEqual([
      ['ann', ['paused']],
      ['bob', ['paused', 'resumed']],
    ])
  })

  it('a task that needs approval does not start before it is approved', async () => {
    const world = makeWorld()
    await put(world, created('T-1', { requiresApproval: true }))
    const dispatcher = dispatcherOf(world)
    expect((await autopilotStep(dispatcher, noCaches)).started).toEqual([])
    await approve(operator(world), 'T-1', { by: 'ann' })
    expect((await autopilotStep(dispatcher, noCaches)).started.length).toBe(1)
  })

  it('if an abort races with the end of the turn, the first line decides and the run is closed once', async () => {
    for (const abortFirst of [true, false]) {
      const world = makeWorld()
      await put(world, created('T-1', { verify: ['slow'] }))
      const dispatcher = dispatcherOf(world)
      await autopilotStep(dispatcher, noCaches)
      const key = [...world.kernel.turns.keys()][0]!
      world.kernel.end(key)
      const judged = dispatcherOf(world, {
        verify: async () => {
          // During acceptance, just before the closing line.
          if (abortFirst) await abort(operator(world), 'T-1', { by: 'ann', reason: 'wrong' })
          return { exitCode: 0, signal: null, timedOut: false, durationMs: 1, output: '' }
        },
      })
      await autopilotStep(judged, noCaches)
      const late = await abort(operator(world), 'T-1', { by: 'bob' }).catch((error: { code: string }) => error.code)
      expect(late).toBe(abortFirst ? 'already_failed' : 'already_done')
      const task = await taskOf(world)
      expect(task).toMatchObject(
        abortFirst ? { status: 'failed', reason: 'aborted by ann: wrong' } : { status: 'done', reason: null },
      )
      expect(task.fields['budget']).toMatchObject({ coder: { retryCount: 1, tokenUsage: 100 } })
      expect(task.runs.length).toBe(1)
    }
  })

  it('an abort of a running turn is recorded first, then the turn is stopped, then the run is closed', async () => {
    const world = makeWorld()
    await put(world, created('T-1'))
    const dispatcher = dispatcherOf(world)
    await autopilotStep(dispatcher, noCaches)
    await abort(operator(world), 'T-1', { by: 'ann' })
    expect(openRun(await taskOf(world))).not.toBeNull()
    await autopilotStep(dispatcher, noCaches)
    await autopilotStep(dispatcher, noCaches)
    expect(world.kernel.calls).toContain('stop T-1: aborted by ann')
    expect(await taskOf(world)).toMatchObject({ status: 'failed', reason: 'aborted by ann' })
  })
})
