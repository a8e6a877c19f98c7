/**
 * Random schedules of dispatchers, crashes, operators, people and clocks: first anything may happen, then faults stop, and the
 * board must become idle with nothing lost, doubled or stuck. fast-check shrinks a failure to the shortest schedule.
 */
import { InvalidInput } from '@bellwether/protocol'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { autopilotStep } from '../../../src/board/dispatch/autopilot.js'
import { createDispatcher, type Dispatcher } from '../../../src/board/dispatch/dispatcher.js'
import { openRun } from '../../../src/board/tasks/task-fields.js'
import { blockTask, claimTask, finishTask, retryTask } from '../../../src/board/tasks/task-commands.js'
import { abort, escalate, freeze, pause, resume, unfreeze } from '../../../src/board/tasks/operator-commands.js'
import { gated, gatedCaches, makeGate } from '../../support/board/crash.js'
import { boardOf, created, dispatcherOf, makeWorld, noCaches, put, type World } from '../../support/board/dispatcher.js'
import { settle } from '../../support/hand-clock.js'

const ids = ['T-1', 'T-2', 'T-3'] as const
const taskId = fc.constantFrom(...ids)

type Move =
  | { do: 'step' | 'die'; who: number; at: number }
  | { do: 'end'; nth: number; how: 'success' | 'failed' | 'blocked' | 'dear' }
  | { do: 'say'; what: number; id: string }
  | { do: 'advance' | 'jump'; seconds: number }
  | { do: 'forget' }

const move: fc.Arbitrary<Move> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant('step' as const), who: fc.nat(1), at: fc.constant(0) }) },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('die' as const), who: fc.nat(1), at: fc.integer({ min: 1, max: 60 }) }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('end' as const),
      nth: fc.nat(8),
      how: fc.constantFrom('success' as const, 'failed' as const, 'blocked' as const, 'dear' as const),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('say' as const), what: fc.nat(8), id: taskId }) },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('advance' as const), seconds: fc.constantFrom(1, 30, 61, 200, 4_000) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant('jump' as const), seconds: fc.constantFrom(-100_000, -100, 100, 100_000) }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('forget' as const) }) },
)

const endings = {
  success: {},
  failed: { outcome: 'failed', error: 'no', deliverable: null },
  blocked: { deliverable: { status: 'blocked' } },
  dear: { tokenUsage: 99_999 },
} as const

async function say(world: World, what: number, id: string): Promise<void> {
  const ports = { board: boardOf(world), nowMs: () => world.clock.wallMs() }
  const word = { by: 'ann' }
  const words = [
    () => abort(ports, id, word),
    () => freeze(ports, id, word),
    () => unfreeze(ports, id, word),
    () => pause(ports, word),
    () => resume(ports, word),
    () => claimTask(ports, id, 'ann'),
    () => finishTask(ports, id, 'ann', { evidence: null }),
    () => retryTask({ ...ports, firstAgent: 'coder' }, id, word),
    () =>
      what % 2 === 0 ? blockTask(ports, id, word) : escalate({ ...ports, recovery: world.policies.recovery }, id, word),
  ]
  try {
    await words[what]!()
  } catch (error) {
    // A rejected command is not a failure.
    if (!(error instanceof InvalidInput)) throw error
  }
}

async function play(world: World, moves: readonly Move[]): Promise<void> {
  const dispatchers: Dispatcher[] = [dispatcherOf(world, { actor: 'one' }), dispatcherOf(world, { actor: 'two' })]
  let forgotten = 0
  for (const one of moves) {
    if (one.do === 'step') await autopilotStep(dispatchers[one.who]!, noCaches)
    else if (one.do === 'die') {
      const gate = makeGate(one.at)
      const dispatcher = createDispatcher(gated(gate, dispatchers[one.who]!))
      await Promise.race([autopilotStep(dispatcher, gatedCaches(gate, noCaches)), gate.died])
      await settle()
      dispatchers[one.who] = dispatcherOf(world, { actor: one.who === 0 ? 'one' : 'two' })
    } else if (one.do === 'end') {
      const key = [...world.kernel.turns.keys()][one.nth]
      if (key !== undefined) world.kernel.end(key, endings[one.how])
    } else if (one.do === 'say') await say(world, one.what, one.id)
    else if (one.do === 'advance') await world.clock.advance(one.seconds * 1_000)
    else if (one.do === 'jump') world.clock.jumpWall(one.seconds * 1_000)
    else if (forgotten === 0) {
      forgotten += 1
      world.kernel.forgetAll()
    }
  }
}

const restStatuses = ['done', 'failed']

it('the board becomes idle after any schedule, with every run closed once and counted once', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(move, { minLength: 5, maxLength: 40 }), async (moves) => {
      const world = makeWorld()
      await put(world, created('T-1'), created('T-2', { dependencies: ['T-1'] }), created('T-3', { priority: 2 }))
      await play(world, moves)
      const spawnedBefore = world.kernel.calls.filter((call) => call.startsWith('spawn')).length
      // Faults stop, operators release everything, turns end, and a week passes.
      const dispatcher = dispatcherOf(world, { actor: 'last' })
      await say(world, 4, 'T-1')
      for (const id of ids) await say(world, 2, id)
      world.kernel.script = () => ({})
      for (let day = 0; day < 30; day += 1) {
        await autopilotStep(dispatcher, noCaches)
        await world.clock.advance(day < 15 ? 400_000 : 90_000_000)
      }
      const state = await boardOf(world).sync()
      const { events } = world.root
      const intents = events
        .filter(({ type }) => type === 'task_started')
        .filter(({ payload }) => payload['run'] !== undefined)
      const closed = events
        .filter(({ payload }) => typeof payload['outcome'] === 'string')
        .map(({ payload }) => String(payload['runId']))
      expect(closed.sort()).toEqual(intents.map(({ eventId }) => eventId).sort())
      expect(spawnedBefore).toBeLessThanOrEqual(intents.length)
      for (const task of state.tasks.values()) {
        expect(openRun(task)).toBeNull()
        const stuck =
          task.taskId === 'T-2' && state.tasks.get('T-1')!.status !== 'done' ? ['pending', 'blocked', 'claimed'] : []
        expect([...restStatuses, ...stuck], `${task.taskId}: ${task.reason}`).toContain(task.status)
      }
    }),
    { numRuns: 60 },
  )
})
