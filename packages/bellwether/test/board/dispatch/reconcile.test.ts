/**
 * The reconciler after a crash at every call: the dispatcher dies before or after each of its calls, another one opens the
 * same root, and the board must converge. All calls are tested one by one, and in pairs.
 */
import { describe, expect, it } from 'vitest'
import { autopilotStep } from '../../../src/board/dispatch/autopilot.js'
import { createDispatcher } from '../../../src/board/dispatch/dispatcher.js'
import { openRun } from '../../../src/board/tasks/task-fields.js'
import { abort } from '../../../src/board/tasks/operator-commands.js'
import { readiness } from '../../../src/board/tasks/ready.js'
import type { TaskEvent } from '../../../src/board/log/task.js'
import { gated, gatedCaches, makeGate } from '../../support/board/crash.js'
import { boardOf, created, dispatcherOf, makeWorld, noCaches, put, type World } from '../../support/board/dispatcher.js'
import { settle } from '../../support/hand-clock.js'

// Longer than every cool-down (180 s), grace period and lease (60 s); far below a person's deadline of a day.
const stepMs = 200_000
// A task may have three agents, each started in one step and closed in the next, and lose one grace period per crash.
const steps = 14

/** One life of a dispatcher: where it died, or null, and how many calls it made. */
async function live(world: World, dieAt: number, between?: (step: number) => Promise<void>) {
  const gate = makeGate(dieAt)
  const dispatcher = createDispatcher(gated(gate, dispatcherOf(world)))
  for (let step = 0; step < steps; step += 1) {
    const what = await Promise.race([
      autopilotStep(dispatcher, gatedCaches(gate, noCaches)).then(() => 'lived'),
      gate.died,
    ])
    if (what === 'died') {
      await settle()
      return { died: gate.where, passed: gate.passed }
    }
    await between?.(step)
    if (step > 0 && (await atRest(world))) break
    await world.clock.advance(stepMs)
  }
  return { died: null, passed: gate.passed }
}

/** Nothing is open, ready or in a cool-down: further steps would only wait for people. */
async function atRest(world: World): Promise<boolean> {
  const state = await boardOf(world).sync()
  const rules = { firstAgent: 'coder', recovery: world.policies.recovery }
  return [...state.tasks.values()].every((task) => {
    const found = readiness(task, state, world.clock.wallMs(), rules)
    return openRun(task) === null && !found.ready && !['open_run', 'cooldown', 'claimed'].includes(found.code)
  })
}

const runIdOf = (event: TaskEvent) => event.payload['runId']
const closings = (world: World) => world.root.events.filter(({ payload }) => typeof payload['outcome'] === 'string')

/** What must hold when the board is idle again, wherever a dispatcher died. */
async function check(world: World, where: string): Promise<string[]> {
  const state = await boardOf(world).sync()
  const intents = world.root.events.filter(({ type }) => type === 'task_started').map(({ eventId }) => eventId)
  const strangers = [...world.kernel.turns.keys()].filter((key) => !intents.includes(key))
  expect(strangers, `${where}: a turn without an intent line`).toEqual([])
  const closed = closings(world).map((event) => String(runIdOf(event)))
  expect([...closed].sort(), `${where}: every run is closed once`).toEqual([...intents].sort())
  const statuses: string[] = []
  for (const task of state.tasks.values()) {
    expect(openRun(task), `${where}: ${task.taskId} has an open run`).toBeNull()
    expect(['in_progress', 'claimed', 'pending'], `${where}: ${task.taskId} is stuck`).not.toContain(task.status)
    const runs = closings(world).filter(({ taskId }) => taskId === task.taskId)
    const spent = Object.values(
      (task.fields['budget'] ?? {}) as Record<string, { tokenUsage: number; retryCount: number }>,
    )
    const sum = (numbers: number[]) => numbers.reduce((total, one) => total + one, 0)
    expect(sum(spent.map(({ retryCount }) => retryCount)), `${where}: executions`).toBe(runs.length)
    const turns = runs.map((event) => String(runIdOf(event))).flatMap((key) => world.kernel.turns.get(key)?.ended ?? [])
    expect(sum(spent.map(({ tokenUsage }) => tokenUsage)), `${where}: tokens`).toBe(
      sum(turns.map((one) => one.tokenUsage)),
    )
    statuses.push(`${task.taskId} ${task.status} ${task.reason?.split(':')[0] ?? ''}`.trim())
  }
  return statuses
}

interface Story {
  readonly name: string
  readonly ends: readonly string[]
  readonly make: () => Promise<World>
  readonly between?: (world: World) => (step: number) => Promise<void>
}

async function world(kernel: World['kernel']['script'], ...tasks: Parameters<typeof created>[]): Promise<World> {
  const made = makeWorld()
  made.kernel.script = kernel
  await put(made, ...tasks.map((task) => created(...task)))
  return made
}

const stories: readonly Story[] = [
  {
    name: 'a task that is done, and one that waits for it',
    ends: ['T-1 done', 'T-2 done'],
    make: () => world(() => ({}), ['T-1', { verify: ['true'] }], ['T-2', { dependencies: ['T-1'] }]),
  },
  {
    name: 'a task that fails its way down the chain to a person',
    ends: ['T-1 blocked spawn_failed'],
    make: () => world(() => ({ outcome: 'failed', error: 'broken', deliverable: null }), ['T-1']),
  },
  {
    name: 'output that is incomplete at first and good from the second agent',
    ends: ['T-1 done'],
    make: async () => {
      const made = await world((request) => ({ deliverable: { files: [`${request.agent}.txt`] } }), ['T-1'])
      made.files.set('debugger.txt', 'present')
      return made
    },
  },
  {
    name: 'a budget that is crossed',
    ends: ['T-1 blocked budget_exceeded'],
    make: () => world(() => ({ tokenUsage: 50_000 }), ['T-1']),
  },
  {
    name: 'an operator who aborts while the turn goes on',
    ends: ['T-1 failed aborted by ann'],
    make: () => world(() => null, ['T-1']),
    between: (made) => async (step) => {
      if (step === 0) await abort({ board: boardOf(made), nowMs: () => made.clock.wallMs() }, 'T-1', { by: 'ann' })
    },
  },
  {
    name: 'a person who finishes by hand while the turn goes on',
    ends: ['T-1 done'],
    make: () => world(() => null, ['T-1']),
    between: (made) => async (step) => {
      if (step === 0) await boardOf(made).write(() => [{ taskId: 'T-1', type: 'task_done', actor: 'ann' }])
    },
  },
]

describe('a crash at every call', () => {
  it.each(stories)('$name: the board converges after each single crash', async (story) => {
    const calm = await story.make()
    expect(await live(calm, 0, story.between?.(calm))).toMatchObject({ died: null })
    expect(await check(calm, 'no crash')).toEqual(story.ends)
    let places = 0
    for (let at = 1; ; at += 1) {
      const made = await story.make()
      const { died } = await live(made, at, story.between?.(made))
      if (died === null) break
      places += 1
      await live(made, 0, story.between === undefined ? undefined : once(story, made))
      const found = await check(made, `dies ${died} (${at})`)
      expect(found, `dies ${died} (${at})`).toEqual(story.ends)
    }
    expect(places).toBeGreaterThan(20)
  })

  it.each(stories)('$name: the board converges after pairs of crashes, one in each of two lives', async (story) => {
    const calm = await story.make()
    const { passed } = await live(calm, 0, story.between?.(calm))
    let pairs = 0
    for (let first = 1; first <= passed; first += Math.ceil(passed / 9)) {
      for (let second = 1; ; second += Math.ceil(passed / 7)) {
        const made = await story.make()
        const one = await live(made, first, story.between?.(made))
        const again = story.between === undefined ? undefined : once(story, made)
        const two = await live(made, second, again)
        if (two.died === null) break
        pairs += 1
        await live(made, 0, again)
        const found = await check(made, `dies ${one.died}, then ${two.died}`)
        expect(found, `dies ${one.died}, then ${two.died}`).toEqual(story.ends)
      }
    }
    expect(pairs).toBeGreaterThan(8)
  })
})

/** Repeats the operator's or person's command unless it was recorded before the crash. */
function once(story: Story, made: World): (step: number) => Promise<void> {
  return async () => {
    const isRecorded = made.root.events.some(({ actor, type }) => actor === 'ann' && type !== 'task_created')
    const task = (await boardOf(made).sync()).tasks.get('T-1')
    if (!isRecorded && task?.status === 'in_progress') await story.between!(made)(0)
  }
}
