/** Tasks in git worktrees whose processes die, are slow or compete: every change reaches the base exactly once. */
import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { autopilotStep } from '../../../src/board/dispatch/autopilot.js'
import { dispatch } from '../../../src/board/dispatch/dispatch.js'
import { createDispatcher, type Dispatcher } from '../../../src/board/dispatch/dispatcher.js'
import { mergeQueued } from '../../../src/board/dispatch/merge.js'
import { sweepWorktrees } from '../../../src/board/dispatch/workspace.js'
import { mergeTask } from '../../../src/board/tasks/merge-commands.js'
import type { Worktrees } from '../../../src/ports/git/worktrees.js'
import { gated, makeGate } from '../../support/board/crash.js'
import {
  boardOf,
  created,
  dispatcherOf,
  noCaches,
  operator,
  put,
  spawns,
  taskOf,
} from '../../support/board/dispatcher.js'
import {
  never,
  place,
  writing,
  subjects,
  leftovers,
  nothingLeft,
  type Place,
} from '../../support/board/worktree-place.js'
import { thorough, today } from '../../support/thorough.js'

it('a run whose dispatcher died before the spawn is respawned, however long git takes to open its worktree', async () => {
  const at = await place()
  await put(at.world, created('T-1'))
  at.world.kernel.script = writing({ 'b.txt': 'b' })
  const gate = makeGate('before spawner.spawn')
  const died = createDispatcher(gated(gate, at.dispatcher()))
  await Promise.race([dispatch(died, 'T-1', never), gate.died])
  expect(at.world.kernel.turns.size).toBe(0)
  await at.world.clock.advance(61_000)
  const slow: Worktrees = {
    ...at.worktrees,
    async open(...args) {
      await at.world.clock.advance(45_000)
      return at.worktrees.open(...args)
    },
  }
  await autopilotStep(dispatcherOf(at.world, { worktrees: () => slow }), noCaches)
  expect(at.world.kernel.turns.size).toBe(1)
})

it('merges a change that another process accepted while this one was merging', async () => {
  const at = await place()
  await put(at.world, created('T-1'), created('T-2'))
  at.world.kernel.script = (request) => writing({ [`${request.taskId}.txt`]: 'x' })(request)
  let other: Promise<unknown> | undefined
  const busy: Worktrees = {
    ...at.worktrees,
    async rebase(...args) {
      await (other ??= dispatch(at.dispatcher(), 'T-2', never))
      expect((await taskOf(at.world, 'T-2')).fields['merging']).toMatchObject({ state: 'queued' })
      return at.worktrees.rebase(...args)
    },
  }
  await dispatch(dispatcherOf(at.world, { worktrees: () => busy }), 'T-1', never)
  expect((await taskOf(at.world, 'T-2')).status).toBe('done')
  expect(leftovers(at)).toEqual(nothingLeft)
})

it('starts the next task after the merge that takes the place of a run, from the base that has the change', async () => {
  const at = await place()
  await put(at.world, created('T-1'), created('T-2'))
  at.world.kernel.script = (request) => writing({ [`${request.taskId}.txt`]: 'x' })(request)
  const { settings } = at.dispatcher()
  const dispatcher = dispatcherOf(at.world, {
    worktrees: () => at.worktrees,
    settings: { ...settings, maxConcurrentSpawns: 1 },
  })
  for (let steps = 0; steps < 3; steps += 1) await autopilotStep(dispatcher, noCaches)
  expect(spawns(at.world)).toEqual(['T-1 coder'])
  await mergeQueued(dispatcher, at.world.policies)
  await autopilotStep(dispatcher, noCaches)
  expect(spawns(at.world)).toEqual(['T-1 coder', 'T-2 coder'])
  const worktree = await at.worktrees.find(await taskOf(at.world, 'T-2'))
  expect(existsSync(join(worktree!.root, 'T-1.txt'))).toBe(true)
})

it('tries a merge again while a git command of a person runs, then asks a person, and loses nothing', async () => {
  const at = await place()
  await put(at.world, created('T-1'))
  const lock = join(at.repository.path, '.git/index.lock')
  const dispatcher = at.dispatcher()
  at.world.kernel.script = (request) => {
    writeFileSync(lock, '')
    return writing({ 'b.txt': 'b' })(request)
  }
  await dispatch(dispatcher, 'T-1', never)
  expect((await taskOf(at.world)).status).toBe('review')
  await at.world.clock.advance(601_000)
  await mergeQueued(dispatcher, at.world.policies)
  const { status, fields, reason } = await taskOf(at.world)
  expect({ status, code: fields['reasonCode'] }).toEqual({ status: 'blocked', code: 'merge_failed' })
  expect(reason).toContain(`remove ${lock}`)
  rmSync(lock)
  await mergeTask(operator(at.world), 'T-1', { by: 'ann' })
  await mergeQueued(dispatcher, at.world.policies)
  expect(subjects(at)).toEqual(['T-1: Do T-1', 'start'])
  expect(leftovers(at)).toEqual(nothingLeft)
})

class Killed extends Error {}

/** A dispatcher whose process dies at its step number `at`: before the step takes effect, or after. */
function mortal(place: Place, point: number, when: 'before' | 'after'): Dispatcher {
  let step = 0
  const dying =
    <A extends unknown[], R>(work: (...args: A) => Promise<R>) =>
    async (...args: A): Promise<R> => {
      step += 1
      const isLast = step === point
      if (step > point || (isLast && when === 'before')) throw new Killed('killed')
      const result = await work(...args)
      if (isLast) throw new Killed('killed')
      return result
    }
  const { worktrees } = place
  const mortalWorktrees: Worktrees = {
    ...worktrees,
    open: dying((...args: Parameters<Worktrees['open']>) => worktrees.open(...args)),
    snapshot: dying((...args: Parameters<Worktrees['snapshot']>) => worktrees.snapshot(...args)),
    rebase: dying((...args: Parameters<Worktrees['rebase']>) => worktrees.rebase(...args)),
    publish: dying((...args: Parameters<Worktrees['publish']>) => worktrees.publish(...args)),
    close: dying((...args: Parameters<Worktrees['close']>) => worktrees.close(...args)),
  }
  const board = boardOf(place.world)
  return dispatcherOf(place.world, {
    worktrees: () => mortalWorktrees,
    board: Object.assign(Object.create(board) as typeof board, { write: dying(board.write.bind(board)) }),
  })
}

// One more than the steps of a dispatch with a merge: the last point is not reached.
const points = Array.from({ length: 14 }, (_, at) => at + 1)
const chosen = points.filter((point) => thorough || point % 14 === today % 14)

describe('a process that is killed', () => {
  it.each(chosen.flatMap((point) => (['before', 'after'] as const).map((when) => ({ point, when }))))(
    'at step $point, $when its effect, leaves a task whose change reaches the base exactly once',
    async ({ point, when }) => {
      const at = await place()
      await put(at.world, created('T-1'))
      at.world.kernel.script = (request) => {
        // The base moves, so that the change must be rebased.
        if (!existsSync(join(at.repository.path, 'c.txt'))) at.repository.commit('person', { 'c.txt': 'c' })
        return writing({ 'b.txt': 'agent' })(request)
      }
      await dispatch(mortal(at, point, when), 'T-1', never).catch((error: unknown) => {
        if (!(error instanceof Killed)) throw error
      })
      // The next process: an expired claim and a spawn that never happened are taken over after their time.
      for (let tries = 0; tries < 6 && (await taskOf(at.world)).status !== 'done'; tries += 1) {
        await at.world.clock.advance(120_000)
        const next = at.dispatcher()
        await autopilotStep(next, noCaches)
        await mergeQueued(next, at.world.policies)
      }
      await sweepWorktrees(at.dispatcher())
      expect((await taskOf(at.world)).status).toBe('done')
      expect(subjects(at)).toEqual(['T-1: Do T-1', 'person', 'start'])
      expect(at.repository.git('status', '--porcelain')).toBe('')
      expect(leftovers(at)).toEqual(nothingLeft)
      expect([...at.world.kernel.turns.values()]).toHaveLength(1)
    },
  )
})
