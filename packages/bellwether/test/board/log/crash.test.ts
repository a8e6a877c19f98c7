import { appendFile, readFile, writeFile } from 'node:fs/promises'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { rebuildSnapshot } from '../../../src/board/repair/rebuild.js'
import type { Board } from '../../../src/board/log/task.js'
import { systemDisk, type Disk, type LogFile } from '../../../src/ports/disk/disk.js'
import { systemMachine } from '../../../src/ports/disk/machine.js'
import { add, boardOf, hastyDisk, testRoot, testWorld, type TestRoot } from './test-root.js'

/** A disk that fails before its n-th step, with `half` in the middle of its write, and does nothing afterwards. */
function mortal(dieAt: number, half: boolean): { disk: Disk; steps(): number } {
  let step = 0
  let dead = false
  const died = () => new Error('the process is dead')
  const guard =
    <A extends unknown[], R>(work: (...words: A) => Promise<R>, part?: (...words: A) => Promise<unknown>) =>
    async (...words: A): Promise<R> => {
      if (dead) throw died()
      step += 1
      if (step !== dieAt) return work(...words)
      if (half) await part?.(...words)
      dead = true
      throw died()
    }
  const file = (log: LogFile): LogFile => ({
    ...log,
    append: guard(log.append, (bytes: Uint8Array) => log.append(bytes.subarray(0, bytes.length / 2))),
    flush: guard(log.flush),
  })
  const disk: Disk = {
    ...systemDisk,
    openLog: async (path, access) => {
      const log = await systemDisk.openLog(path, access)
      return log === 'missing' ? log : file(log)
    },
    createExclusive: guard(systemDisk.createExclusive, systemDisk.createExclusive),
    writeDraft: guard(systemDisk.writeDraft, (draft) => systemDisk.writeDraft(draft, ['{"tasks":{'])),
    replace: guard(systemDisk.replace, systemDisk.replace),
    move: guard(systemDisk.move, systemDisk.move),
    link: guard(systemDisk.link, systemDisk.link),
    remove: guard(systemDisk.remove, systemDisk.remove),
  }
  return { disk, steps: () => step }
}

/** The machine after the writer died and its lease expired. */
const later = {
  ...systemMachine,
  uptimeMs: () => systemMachine.uptimeMs() + 3_600_000,
  process: () => ({ alive: false }),
}

async function work(board: Board): Promise<string[]> {
  const acknowledged: string[] = []
  for (const drafts of [
    [add('T-1'), add('T-2')],
    [{ taskId: 'T-1', type: 'task_claimed', actor: 'x' } as const],
    [
      { taskId: 'T-1', type: 'task_started', actor: 'x', payload: { run: { agent: 'x' } } } as const,
      { taskId: 'T-2', type: 'task_blocked', actor: 'x', payload: { reason: 'r' } } as const,
    ],
  ])
    acknowledged.push(...(await board.write(() => drafts)).map((event) => event.eventId))
  return acknowledged
}

async function opens(root: TestRoot, acknowledged: readonly string[]): Promise<void> {
  const board = await boardOf(root, { machine: later, snapshots: true })
  const counted = board.state.eventCount
  await board.write((state) => [add(`after-${state.tasks.size}`)])
  expect(board.state.tasks.get('T-2') !== undefined || acknowledged.length < 2).toBe(true)
  await board.close()
  const log = await readFile(root.log, 'utf8')
  for (const eventId of acknowledged) expect(log.split(eventId)).toHaveLength(2)
  expect(counted).toBeGreaterThanOrEqual(acknowledged.length)
  const report = await rebuildSnapshot({ root: root.path, apply: false }, testWorld)
  expect(report.match).toBe(true)
}

describe('a crash', () => {
  it('a crash at any step of appends, locks and snapshots leaves a root that opens with everything acknowledged', async () => {
    const clean = mortal(0, false)
    const board = await boardOf(await testRoot(), { disk: clean.disk, snapshots: true })
    await work(board)
    await board.close()
    expect(clean.steps()).toBeGreaterThan(15)
    for (let dieAt = 1; dieAt <= clean.steps(); dieAt += 1)
      for (const half of [false, true]) {
        const root = await testRoot()
        const acknowledged: string[] = []
        const board = await boardOf(root, { disk: mortal(dieAt, half).disk, snapshots: true })
        // A dead process runs no code; here it can only throw.
        const tracked = {
          ...board,
          write: async (decide: Parameters<Board['write']>[0]) => track(await board.write(decide)),
        }
        const end = await work(tracked as Board).then(
          () => 'it lived',
          (error: Error) => error.message,
        )
        expect(end).toMatch(/dead|Cannot confirm|it lived/)
        function track<T extends readonly { eventId: string }[]>(events: T): T {
          acknowledged.push(...events.map((event) => event.eventId))
          return events
        }
        await opens(root, acknowledged)
        await board.close()
      }
  })

  it('a crash that cuts the log at any byte of the last group leaves a root that opens, and the next write closes the line', async () => {
    const root = await testRoot()
    const board = await boardOf(root)
    await board.write(() => [add('T-1')])
    const before = (await readFile(root.log)).length
    await board.write(() => [add('T-2', { text: 'ü "quoted"' }), add('T-3')])
    const bytes = await readFile(root.log)
    const firstEnd = bytes.indexOf('\n', before)
    for (let cut = before; cut <= bytes.length; cut += 1) {
      await writeFile(root.log, bytes.subarray(0, cut))
      const again = await boardOf(root, { disk: hastyDisk })
      const wholes = cut >= bytes.length - 1 ? 2 : cut >= firstEnd ? 1 : 0
      expect(again.state.eventCount, `cut at ${cut}`).toBe(1 + wholes)
      // Opens at every byte; writes at line ends and at every seventh byte.
      if (cut % 7 > 0 && Math.abs(cut - firstEnd) > 2 && cut < bytes.length - 2) {
        await again.close()
        continue
      }
      await again.write((state) => {
        expect(state.eventCount).toBe(1 + wholes)
        return [add('T-9')]
      })
      expect(again.state.eventCount).toBe(2 + wholes)
      const after = await readFile(root.log)
      expect(after.subarray(0, cut).equals(bytes.subarray(0, cut))).toBe(true)
      await again.close()
      const third = await boardOf(root)
      expect(third.state).toEqual(again.state)
      await third.close()
    }
    await board.close()
  })

  it('a reader ignores the incomplete line of another writer', async () => {
    const root = await testRoot()
    const [writer, reader] = [await boardOf(root), await boardOf(root)]
    await writer.write(() => [add('T-1')])
    const text = JSON.stringify({ ...JSON.parse((await root.lines())[0]!), eventId: 'x', taskId: 'T-2' })
    for (const part of [text.slice(0, 30), text.slice(30, 31), text.slice(31)]) {
      expect((await reader.sync()).tasks.has('T-2')).toBe(false)
      await appendFile(root.log, part)
    }
    expect((await reader.sync()).tasks.has('T-2')).toBe(true)
    await appendFile(root.log, '\n')
    expect((await reader.sync()).eventCount).toBe(2)
    await writer.write(() => [add('T-3')])
    expect((await reader.sync()).eventCount).toBe(3)
    await Promise.all([writer.close(), reader.close()])
  })
})

describe('compaction', () => {
  it('[H3.4] compaction gives the same tasks for any sequence of valid and invalid lines', async () => {
    const types = [
      'task_created',
      'task_claimed',
      'task_started',
      'task_done',
      'task_blocked',
      'task_noted',
      'nonsense',
    ]
    const one = fc.oneof(
      {
        weight: 9,
        arbitrary: fc.record({
          eventId: fc.integer({ min: 0, max: 40 }).map((at) => `e${at}`),
          taskId: fc.constantFrom('a', 'b', 'c'),
          type: fc.constantFrom(...types),
          messageType: fc.constant('[TASK]'),
          actor: fc.constantFrom('ann', 'bob'),
          at: fc.nat(1_000).map((at) => new Date(at * 1_000).toISOString()),
          payload: fc.dictionary(fc.constantFrom('title', 'x', 'owner'), fc.string(), { maxKeys: 2 }),
          token: fc.option(fc.nat(4), { nil: undefined }),
        }),
      },
      { weight: 1, arbitrary: fc.constantFrom('{"eventId":', '', '   ', '[]') },
    )
    const [source, target] = [await testRoot(), await testRoot()]
    await fc.assert(
      fc.asyncProperty(fc.array(one, { maxLength: 50 }), fc.boolean(), async (lines, newline) => {
        const text = lines.map((it) => (typeof it === 'string' ? it : JSON.stringify(it))).join('\n')
        await source.writeLog(newline ? `${text}\n` : text)
        const options = { root: source.path, apply: true, compactTo: target.log }
        const first = await rebuildSnapshot(options, testWorld)
        const second = await rebuildSnapshot({ root: target.path, apply: true }, testWorld)
        expect(second.errors.total).toBe(0)
        expect(second.rebuiltHash).toBe(first.rebuiltHash)
        expect(second.lines).toBe(first.events + first.held.length)
        expect(second.meta.updatedAt).toBe(first.meta.updatedAt)
        const third = await rebuildSnapshot({ root: target.path, apply: false }, testWorld)
        expect(third).toMatchObject({ match: true, diff: { added: 0, removed: 0, changed: 0 } })
      }),
      { numRuns: 30 },
    )
  })
})
