/** A dispatcher that died between its intent line and the spawn: respawned if that is safe, otherwise left to a person. */
import { Retryable } from '@bellwether/protocol'
import { describe, expect, it } from 'vitest'
import { autopilotStep } from '../../../src/board/dispatch/autopilot.js'
import { createDispatcher, type Dispatcher } from '../../../src/board/dispatch/dispatcher.js'
import { freeze, abort, pause, resume, unfreeze } from '../../../src/board/tasks/operator-commands.js'
import type { Spawner } from '../../../src/board/ports.js'
import { gated, gatedCaches, makeGate } from '../../support/board/crash.js'
import {
  boardOf,
  created,
  dispatcherOf,
  makeWorld,
  noCaches,
  put,
  type World,
  taskOf,
} from '../../support/board/dispatcher.js'
import { settle } from '../../support/hand-clock.js'

/** A setup whose dispatcher died right after its intent line. */
async function widowed(change: (world: World) => void = () => undefined): Promise<World> {
  const world = makeWorld()
  change(world)
  await put(world, created('T-1'))
  await dieBeforeSpawn(world)
  expect((await taskOf(world)).status).toBe('in_progress')
  expect(world.kernel.turns.size).toBe(0)
  return world
}

async function dieBeforeSpawn(world: World): Promise<void> {
  const gate = makeGate('before spawner.spawn')
  const dispatcher = createDispatcher(gated(gate, dispatcherOf(world)))
  await Promise.race([autopilotStep(dispatcher, gatedCaches(gate, noCaches)), gate.died])
  await settle()
}

const step = (world: World, dispatcher: Dispatcher = dispatcherOf(world)) => autopilotStep(dispatcher, noCaches)
/** Two steps, the second after the time in which an unknown turn may still appear (`spawn_grace_seconds`). */
async function stepPastGrace(world: World, dispatcher: Dispatcher = dispatcherOf(world)): Promise<void> {
  await step(world, dispatcher)
  await world.clock.advance(61_000)
  await step(world, dispatcher)
}
const starts = (world: World) => world.root.events.filter(({ type }) => type === 'task_started')

/** A kernel whose database is away when its identity is read. */
const unreachable = (world: World): Spawner => ({
  ...world.kernel,
  kernel: async () => {
    throw new Retryable('Cannot reach the database', { code: 'database_away' })
  },
})

async function stepWithRetries(world: World, dispatcher: Dispatcher): Promise<void> {
  const stepped = step(world, dispatcher)
  await settle()
  await world.clock.advance(60_000)
  await stepped
}

it('a task waits for an unreachable kernel and starts when it answers', async () => {
  const world = makeWorld()
  await put(world, created('T-1'))
  await stepWithRetries(world, dispatcherOf(world, { spawner: unreachable(world) }))
  expect(starts(world)).toEqual([])
  expect(world.kernel.turns.size).toBe(0)
  await step(world)
  expect(starts(world)).toMatchObject([{ payload: { intent: { kernel: 'fake:1' } } }])
  expect(world.kernel.turns.size).toBe(1)
})

describe('a run whose dispatcher died before the spawn', () => {
  it('a run whose dispatcher died before the spawn is respawned after the grace period with the same key', async () => {
    const world = await widowed()
    world.kernel.script = () => ({})
    const dispatcher = dispatcherOf(world)
    await step(world, dispatcher)
    expect(world.kernel.turns.size).toBe(0)
    await world.clock.advance(61_000)
    await step(world, dispatcher)
    expect([...world.kernel.turns.keys()]).toEqual(starts(world).map(({ eventId }) => eventId))
    await step(world, dispatcher)
    expect(await taskOf(world)).toMatchObject({ status: 'done', runs: [{ agent: 'coder', outcome: 'success' }] })
    expect(starts(world)).toHaveLength(1)
    expect(world.alerts).toEqual([])
  })

  it('a process that starts after the grace period respawns at once, by the kernel’s clock', async () => {
    const world = await widowed()
    await world.clock.advance(61_000)
    world.clock.jumpWall(-3_600_000)
    await step(world)
    expect(world.kernel.turns.size).toBe(1)
  })

  it('two autopilots spawn one turn, wherever they race', async () => {
    for (let first = 0; first < 40; first += 1) {
      const world = await widowed()
      await world.clock.advance(61_000)
      // One is paused at each of its calls while the other does a whole step.
      const gate = makeGate(first)
      const one = createDispatcher(gated(gate, dispatcherOf(world, { actor: 'one' })))
      const held = autopilotStep(one, gatedCaches(gate, noCaches))
      await Promise.race([held, gate.died, settle()])
      await step(world, dispatcherOf(world, { actor: 'two' }))
      await Promise.race([held, gate.died])
      await settle()
      await world.clock.advance(61_000)
      await step(world, dispatcherOf(world, { actor: 'three' }))
      expect([...world.kernel.turns.keys()]).toEqual(starts(world).map(({ eventId }) => eventId))
      expect(world.kernel.turns.size).toBe(1)
    }
  })

  it('two autopilots that alternate call by call spawn one turn', async () => {
    const world = await widowed()
    await world.clock.advance(61_000)
    const dispatchers = ['one', 'two', 'three'].map((actor) => dispatcherOf(world, { actor }))
    await Promise.all(dispatchers.map((dispatcher) => step(world, dispatcher)))
    expect(world.kernel.turns.size).toBe(1)
    expect(world.kernel.calls.filter((call) => call.startsWith('stop'))).toEqual([])
  })

  it('hazard 20: a run intended for another kernel is never respawned, and a person is asked', async () => {
    const world = await widowed()
    world.kernel.forgetAll()
    await stepPastGrace(world)
    expect(world.kernel.turns.size).toBe(0)
    expect(await taskOf(world)).toMatchObject({ status: 'blocked', fields: { reasonCode: 'turn_unknown' } })
    expect(world.alerts.map(({ kind }) => kind)).toContain('turn_unknown')
  })

  it.each([
    ['past the kernel’s retention', (world: World) => void (world.kernel.retentionMs = 30_000), 61_000],
    ['more than a day old', () => undefined, 90_000_000],
  ])('one that is %s is never started again', async (_name, change, afterMs) => {
    const world = await widowed(change)
    await world.clock.advance(afterMs)
    await stepPastGrace(world)
    expect(world.kernel.turns.size).toBe(0)
    expect((await taskOf(world)).fields['reasonCode']).toBe('turn_unknown')
  })

  it('a run whose turn is in the log is never respawned', async () => {
    const world = makeWorld()
    await put(world, created('T-1'))
    await step(world)
    const [key] = [...world.kernel.turns.keys()]
    world.kernel.forgetOne(key!)
    await stepPastGrace(world)
    expect(world.kernel.turns.size).toBe(0)
    expect((await taskOf(world)).fields['reasonCode']).toBe('turn_unknown')
  })

  it('a kernel without an instance id never gets a respawn', async () => {
    const world = await widowed()
    const nameless: Spawner = { ...world.kernel, kernel: async () => null }
    const dispatcher = dispatcherOf(world, { spawner: nameless })
    await stepPastGrace(world, dispatcher)
    expect(world.kernel.turns.size).toBe(0)
    expect((await taskOf(world)).status).toBe('blocked')
  })

  it('an unreachable kernel closes no run that it may start later', async () => {
    const world = await widowed()
    const dispatcher = dispatcherOf(world, { spawner: unreachable(world) })
    await stepWithRetries(world, dispatcher)
    await world.clock.advance(61_000)
    await stepWithRetries(world, dispatcher)
    expect((await taskOf(world)).status).toBe('in_progress')
    await step(world)
    expect(world.kernel.turns.size).toBe(1)
  })

  it('nothing is respawned while the board is paused or the task frozen; afterwards it is', async () => {
    const world = await widowed()
    await world.clock.advance(61_000)
    const ports = { board: boardOf(world), nowMs: () => world.clock.wallMs() }
    await pause(ports, { by: 'ann' })
    await step(world)
    await resume(ports, { by: 'ann' })
    await freeze(ports, 'T-1', { by: 'ann' })
    await step(world)
    expect(world.kernel.turns.size).toBe(0)
    await unfreeze(ports, 'T-1', { by: 'ann' })
    await step(world)
    expect(world.kernel.turns.size).toBe(1)
  })

  it('a run that was aborted before the respawn is not started and ends as aborted', async () => {
    const world = await widowed()
    await abort({ board: boardOf(world), nowMs: () => world.clock.wallMs() }, 'T-1', { by: 'ann' })
    await stepPastGrace(world)
    expect(world.kernel.turns.size).toBe(0)
    expect((await taskOf(world)).status).toBe('failed')
  })

  it('a board whose lock is taken for longer than the grace period delays the spawn and uses up no try', async () => {
    const world = await widowed()
    await world.clock.advance(61_000)
    const board = boardOf(world)
    const busy = Object.assign(Object.create(board) as typeof board, {
      async write(...args: Parameters<typeof board.write>) {
        await world.clock.advance(300_000)
        return board.write(...args)
      },
    })
    await step(world, dispatcherOf(world, { board: busy }))
    expect(world.kernel.turns.size).toBe(1)
    expect((await taskOf(world)).fields).toMatchObject({ intent: { again: 1 } })
  })

  it('processes that find the same run respawn it once per grace period, and give it up only after the last one', async () => {
    const world = await widowed()
    const dispatcher = dispatcherOf(world)
    await step(world, dispatcher)
    await world.clock.advance(61_000)
    // Each of them dies, or is slow, between its line and the spawn.
    for (let process = 0; process < 4; process += 1) await dieBeforeSpawn(world)
    await step(world, dispatcher)
    expect(await taskOf(world)).toMatchObject({ status: 'in_progress', fields: { intent: { again: 1 } } })
    await world.clock.advance(61_000)
    await step(world, dispatcher)
    expect(world.kernel.turns.size).toBe(1)
  })

  it('after three respawns whose dispatchers died, a person is asked', async () => {
    const world = await widowed()
    for (let death = 0; death < 5; death += 1) {
      await world.clock.advance(61_000)
      await dieBeforeSpawn(world)
    }
    await stepPastGrace(world)
    expect(world.kernel.turns.size).toBe(0)
    expect((await taskOf(world)).fields).toMatchObject({ reasonCode: 'turn_unknown', intent: { again: 3 } })
  })
})
