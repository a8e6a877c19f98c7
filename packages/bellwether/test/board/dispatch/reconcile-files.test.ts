/** The same crashes on a real task root: the log is a file, and the next process opens it. Caches are rebuilt. */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { autopilotStep } from '../../../src/board/dispatch/autopilot.js'
import { openBoard } from '../../../src/board/log/board.js'
import { writeCaches } from '../../../src/board/dispatch/caches.js'
import { createDispatcher } from '../../../src/board/dispatch/dispatcher.js'
import { openRun } from '../../../src/board/tasks/task-fields.js'
import type { Board, TaskEvent } from '../../../src/board/log/task.js'
import { systemDisk } from '../../../src/ports/disk/disk.js'
import { gated, gatedCaches, makeGate } from '../../support/board/crash.js'
import { created, dispatcherOf, makeWorld, type World } from '../../support/board/dispatcher.js'
import { settle } from '../../support/hand-clock.js'
import { quietLog } from '../../support/quiet-log.js'

interface Place {
  readonly root: string
  readonly world: World
  readonly boards: Board[]
  readonly open: () => Promise<Board>
}

async function place(script: World['kernel']['script']): Promise<Place> {
  const root = await mkdtemp(join(tmpdir(), 'bellwether-crash-'))
  const world = makeWorld()
  world.kernel.script = script
  const boards: Board[] = []
  const made: Place = {
    root,
    world,
    boards,
    async open() {
      const { clock, ids } = world
      const board = await openBoard({ root, owner: 'test', clock, ids, log: quietLog, snapshots: false })
      boards.push(board)
      return board
    },
  }
  const board = await made.open()
  await board.write(() => [created('T-1')])
  return made
}

async function leave({ root, boards }: Place): Promise<void> {
  for (const board of boards) await board.close()
  await rm(root, { recursive: true, force: true })
}

async function live({ world, open }: Place, dieAt: number): Promise<string | null> {
  const gate = makeGate(dieAt)
  const dispatcher = createDispatcher(gated(gate, dispatcherOf(world, { board: await open() })))
  const caches = { disk: systemDisk, ids: world.ids, log: quietLog }
  for (let step = 0; step < 8; step += 1) {
    const what = await Promise.race([
      autopilotStep(dispatcher, gatedCaches(gate, caches)).then(() => 'lived'),
      gate.died,
    ])
    if (what === 'died') {
      await settle()
      return gate.where
    }
    await world.clock.advance(200_000)
  }
  return null
}

const linesOf = async (root: string) =>
  (await readFile(join(root, 'state', 'tasks.jsonl'), 'utf8'))
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as TaskEvent)

describe('a crash at every call, on files', () => {
  it.each([
    ['a task that is done', 3, () => ({}), ['done', 'blocked turn_unknown']],
    [
      'a task that fails to a person',
      11,
      () => ({ outcome: 'failed' as const, error: 'no', deliverable: null }),
      ['blocked spawn_failed', 'blocked turn_unknown'],
    ],
  ])('%s: converges, each run is closed once, each turn has its intent line', async (_name, stride, script, ends) => {
    let places = 0
    for (let at = 1; ; at += stride) {
      const made = await place(script)
      try {
        const died = await live(made, at)
        if (died === null) break
        places += 1
        await live(made, 0)
        const board = await made.open()
        const task = board.state.tasks.get('T-1')!
        expect(ends, died).toContain([task.status, task.reason?.split(':')[0]].filter(Boolean).join(' '))
        expect(openRun(task), died).toBeNull()
        const lines = await linesOf(made.root)
        const intents = lines.filter(({ type }) => type === 'task_started').map(({ eventId }) => eventId)
        const closed = lines
          .filter(({ payload }) => typeof payload['outcome'] === 'string')
          .map(({ payload }) => String(payload['runId']))
        expect(closed.sort(), died).toEqual(intents.sort())
        expect(
          [...made.world.kernel.turns.keys()].filter((key) => !intents.includes(key)),
          died,
        ).toEqual([])
      } finally {
        await leave(made)
      }
    }
    expect(places).toBeGreaterThan(8)
  })

  it('[H6.4] [H7.4] deleted state files are rebuilt from the log with the same contents', async () => {
    const made = await place(() => ({ outcome: 'failed', error: 'no', deliverable: null, tokenUsage: 7 }))
    onTestFinished(() => leave(made))
    await live(made, 0)
    const files = ['recovery.state.json', 'budget.state.json'].map((name) => join(made.root, 'state', name))
    const before = await Promise.all(files.map((file) => readFile(file, 'utf8')))
    expect(JSON.parse(before[0]!)).toMatchObject({
      entries: {
        'T-1|spawn_failed': {
          attempt: 3,
          nextAssignee: 'human',
          action: 'escalate',
          recoveryState: 'escalated_to_human',
        },
      },
    })
    expect(JSON.parse(before[1]!)).toMatchObject({ entries: { 'T-1|debugger': { tokenUsage: 7, retryCount: 1 } } })
    for (const file of files) await rm(file)
    const caches = { disk: systemDisk, ids: made.world.ids, log: quietLog }
    expect(await writeCaches(await made.open(), caches)).toEqual([
      'state/recovery.state.json',
      'state/budget.state.json',
    ])
    expect(await Promise.all(files.map((file) => readFile(file, 'utf8')))).toEqual(before)
    expect(await writeCaches(await made.open(), caches)).toEqual([])
  })
})
