/** Opening from a snapshot gives the same state as reading the whole log, for any log and any snapshot position. */
import { defined } from '@bellwether/base'
import { appendFile, mkdir, readFile, readdir, rename, rm, symlink, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Log } from '@bellwether/base'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { TaskLog } from '../../../src/board/log/log.js'
import { rebuildSnapshot } from '../../../src/board/repair/rebuild.js'
import { Reader } from '../../../src/board/log/fold/replay.js'
import { dropOldIds, writeResumeData } from '../../../src/board/log/resume-point.js'
import { findRoot, type TaskRoot } from '../../../src/board/log/root.js'
import { contentHash, taskLines, writeSnapshot } from '../../../src/board/log/snapshot/snapshot.js'
import { eventTypes } from '../../../src/board/log/task.js'
import { systemDisk, type Disk } from '../../../src/ports/disk/disk.js'
import { quietLog } from '../../support/quiet-log.js'
import { boardOf, testRoot, testWorld } from './test-root.js'

const disk = {
  ...systemDisk,
  writeDraft: (path: string, chunks: Iterable<Uint8Array | string>) =>
    writeFile(
      path,
      [...chunks].map((one) => Buffer.from(one)),
    ).then(() => undefined),
}

async function readAll(path: string): Promise<Reader> {
  const file = await systemDisk.openLog(path, 'read')
  if (file === 'missing') throw new Error('no log')
  const reader = new Reader()
  await reader.read(file)
  await file.close()
  return reader
}

/** A snapshot of the current log, as the snapshot writer writes it. */
async function snapshotNow(root: TaskRoot): Promise<boolean> {
  const log = await systemDisk.openLog(root.log, 'read')
  if (log === 'missing') throw new Error('no log')
  const reader = new Reader()
  await reader.read(log)
  const resumeData = await writeResumeData(reader, log, root.state, { disk, draftId: 'd', minBytes: 0 })
  await log.close()
  await writeSnapshot(root.snapshot, reader, { disk, draftId: 'd', resumeData })
  await dropOldIds(root.state, resumeData?.ids.file, systemDisk)
  return resumeData !== undefined
}

const facts = (reader: Pick<Reader, 'fold' | 'report' | 'position'>) => {
  const { fold, report, position } = reader
  return {
    hash: contentHash(taskLines(fold), fold.control),
    tasks: [...fold.tasks()],
    events: fold.eventCount,
    token: fold.token,
    unfenced: fold.unfenced,
    last: fold.lastEventAt,
    lines: report.lines,
    counts: report.counts,
    torn: report.torn,
    position,
  }
}

const scraps = fc.oneof(
  { weight: 12, arbitrary: fc.constant(undefined) },
  {
    weight: 1,
    arbitrary: fc.constantFrom('', '  ', '{"eventId":"x"', 'nonsense', '[1]', '{}', '\u{1F600}', '{"a":1}\r'),
  },
)
const payload = fc.oneof(
  fc.constant({}),
  fc.record({ title: fc.string(), priority: fc.oneof(fc.double(), fc.integer()), note: fc.string({ unit: 'binary' }) }),
  fc.record({ run: fc.constant({ agent: 'coder' }) }),
  fc.record({ paused: fc.jsonValue(), '10': fc.jsonValue(), '2': fc.constant('two') }),
  fc.constantFrom('{"x":1e999}', '{"deep":[-1e400,{"y":1E+999}],"s":"1e999"}', '{"__proto__":{"a":1},"z":-0}'),
)
const line = fc.record({
  scrap: scraps,
  type: fc.constantFrom(...eventTypes, 'task_created' as const, 'task_claimed' as const),
  taskId: fc.constantFrom('a', 'b', '10', '2', 'ä', 'x"y'),
  eventId: fc.constantFrom(...Array.from({ length: 24 }, (_, n) => `e${n}`), '\u{1F600}', 'q"'),
  token: fc.option(fc.nat(6), { nil: undefined }),
  payload,
})

type Line = typeof line extends fc.Arbitrary<infer T> ? T : never

function textOf(one: Line): string {
  if (one.scrap !== undefined) return one.scrap
  const { type, taskId, eventId, token } = one
  const head = { eventId, taskId, type, actor: 'ann', at: '2026-01-01T00:00:00Z', ...defined({ token }) }
  const payload = typeof one.payload === 'string' ? one.payload : JSON.stringify(one.payload)
  return `${JSON.stringify(head).slice(0, -1)},"payload":${payload}}`
}

describe('opening from a snapshot', () => {
  it('[H3.1] resuming gives the state of the whole log for any lines and position, with duplicates and stale tokens across it', async () => {
    const made = await testRoot()
    const root = await findRoot(made.path, testWorld)
    let resumed = 0
    await fc.assert(
      fc.asyncProperty(fc.array(line, { maxLength: 40 }), fc.nat(40), fc.nat(200), async (lines, cut, torn) => {
        const texts = lines.map((one) => `${textOf(one)}\n`)
        const before = texts.slice(0, cut).join('')
        // The snapshot may be taken while another process is writing a line.
        const after = Buffer.from(texts.slice(cut).join(''))
        const piece = after.subarray(0, Math.min(torn % 60, after.length))
        await writeFile(root.log, Buffer.concat([Buffer.from(before), piece]))
        await snapshotNow(root)
        await writeFile(root.log, Buffer.concat([Buffer.from(before), after]))
        const whole = await readAll(root.log)
        const opened = await TaskLog.open(root, { disk: systemDisk, log: quietLog, access: 'write', minBytes: 0 })
        if (opened.resumedEvents > 0) resumed += 1
        expect(facts(opened)).toEqual(facts(whole))
        const known = new Set(lines.map(({ eventId }) => eventId))
        for (const eventId of known)
          expect((await opened.find(eventId)) !== undefined, eventId).toBe(whole.fold.placeOf(eventId) !== undefined)
        await opened.close()
      }),
      { numRuns: 80 },
    )
    expect(resumed).toBeGreaterThan(20)
  })

  const created = (n: number) => ({
    eventId: `e${n}`,
    taskId: `T-${n}`,
    type: 'task_created',
    messageType: '[TASK]',
    actor: 'ann',
    at: '2026-01-01T00:00:00Z',
    payload: { title: `Task ${n}` },
    token: 1,
  })

  async function prepared() {
    const made = await testRoot()
    const events = Array.from({ length: 300 }, (_, n) => created(n))
    await made.writeLog(events)
    const root = await findRoot(made.path, testWorld)
    expect(await snapshotNow(root)).toBe(true)
    await appendFile(root.log, `${JSON.stringify(created(1_000))}\n`)
    const logged: string[] = []
    const record = (fields: object, text: string) =>
      logged.push('reason' in fields ? `${text}: ${String(fields.reason)}` : text)
    const log: Log = { ...quietLog, info: record, warn: record }
    const open = async () => {
      logged.length = 0
      const opened = await TaskLog.open(root, { disk: systemDisk, log, access: 'write', minBytes: 0 })
      const found = {
        resumedAt: opened.resumedEvents,
        events: opened.fold.eventCount,
        tasks: opened.fold.tasks().length,
      }
      await opened.close()
      return { ...found, logged: logged.join('; ') }
    }
    return { made, root, open }
  }

  it('opening resumes from the snapshot and logs that', async () => {
    const { open } = await prepared()
    expect(await open()).toMatchObject({ resumedAt: 300, events: 301, logged: expect.stringContaining('resumed') })
  })

  it('opening reads the whole log and logs why if the snapshot is missing, broken, of another version or of another log', async () => {
    const { root, open } = await prepared()
    const [ids] = (await readdir(root.state)).filter((name) => name.endsWith('.ids'))
    const good = {
      snapshot: await readFile(root.snapshot),
      ids: await readFile(join(root.state, ids!)),
      log: await readFile(root.log),
    }
    const text = good.snapshot.toString()
    const swap = (from: string | RegExp, to: string) => writeFile(root.snapshot, text.replace(from, to))
    const other = Buffer.from(good.log)
    other.write('Tosk', other.indexOf('Task 7'))
    const damages: [string, () => Promise<unknown>][] = [
      ['no snapshot', () => rm(root.snapshot)],
      ['no resume data', () => writeFile(root.snapshot, '{"tasks":{},"meta":{"version":2}}')],
      ['no resume data', () => swap('"version":2', '"version":3')],
      ['no resume data', () => writeFile(root.snapshot, good.snapshot.subarray(0, 5_000))],
      ['the hash of the snapshot does not match', () => swap('Task 17"', 'Task 71"')],
      ['the hash of the snapshot does not match', () => swap('"T-17":', '"T-71":')],
      ['seal', () => swap(/"token":1,"problems"/, '"token":9,"problems"')],
      ['seal', () => swap(/"lineNumber":300/, '"lineNumber":301')],
      ['index is missing', () => rename(join(root.state, ids!), join(root.state, 'x'))],
      ['index does not match', () => truncate(join(root.state, ids!), 160)],
      ['index does not match', () => writeFile(join(root.state, ids!), Buffer.from(good.ids).fill(1, 0, 3))],
      ['belongs to another log', () => writeFile(root.log, other)],
      ['belongs to another log', () => writeFile(root.log, Buffer.concat([good.log.subarray(0, 100), good.log]))],
    ]
    for (const [why, harm] of damages) {
      await harm()
      expect(await open(), why).toMatchObject({ resumedAt: 0, logged: expect.stringContaining(why) })
      await Promise.all([
        writeFile(root.snapshot, good.snapshot),
        writeFile(join(root.state, ids!), good.ids),
        writeFile(root.log, good.log),
      ])
      expect((await open()).resumedAt, why).toBe(300)
    }
    // A truncated log: only the rest counts.
    await writeFile(root.log, good.log.subarray(0, good.log.length / 2))
    const half = await open()
    expect(half).toMatchObject({ resumedAt: 0, logged: expect.stringContaining('shorter') })
    expect(half.events).toBe((await readAll(root.log)).fold.eventCount)
  })

  it('opening works with a folder or a link in the place of the snapshot or the index', async () => {
    const { root, open } = await prepared()
    const [ids] = (await readdir(root.state)).filter((name) => name.endsWith('.ids'))
    for (const path of [root.snapshot, join(root.state, ids!)]) {
      await rename(path, `${path}.aside`)
      await mkdir(path)
      expect(await open()).toMatchObject({
        resumedAt: 0,
        events: 301,
        logged: expect.stringContaining('cannot read the snapshot'),
      })
      await rm(path, { recursive: true })
      await symlink('/dev/zero', path)
      expect(await open()).toMatchObject({
        resumedAt: 0,
        events: 301,
        logged: expect.stringContaining('cannot read the snapshot'),
      })
      await rm(path)
      await rename(`${path}.aside`, path)
      expect((await open()).resumedAt).toBe(300)
    }
  })

  it('an open board reads the whole log if the index is truncated, and continues', async () => {
    const { made, root } = await prepared()
    const board = await boardOf(made, { resumeMinBytes: 0 })
    const [ids] = (await readdir(root.state)).filter((name) => name.endsWith('.ids'))
    await truncate(join(root.state, ids!), 0)
    await appendFile(root.log, `${JSON.stringify(created(7))}\n${JSON.stringify(created(1_001))}\n`)
    expect((await board.sync()).eventCount).toBe(302)
    const [known] = await board.write(() => [{ eventId: 'e5', taskId: 'T-5', type: 'task_created', actor: 'ann' }])
    expect(known?.token).toBe(1)
  })

  it('resuming works with lines of 10 MB before and after the position', async () => {
    const made = await testRoot()
    const root = await findRoot(made.path, testWorld)
    const huge = `${JSON.stringify({ ...created(5), payload: { title: 'x'.repeat(10_000_000) } })}\n`
    await writeFile(root.log, `${JSON.stringify(created(1))}\n${huge}${JSON.stringify(created(2))}\n`)
    expect(await snapshotNow(root)).toBe(true)
    await appendFile(root.log, `${huge}${JSON.stringify(created(2))}\n${JSON.stringify(created(3))}\n`)
    const opened = await TaskLog.open(root, { disk: systemDisk, log: quietLog, access: 'write', minBytes: 0 })
    expect(opened.resumedEvents).toBe(2)
    expect(facts(opened)).toEqual(facts(await readAll(root.log)))
    expect(opened.report.counts).toEqual({ too_long: 2, duplicate_event_id: 1 })
    await opened.close()
  })

  it('a crash at any step of writing a snapshot leaves a root that opens to the same state', async () => {
    for (let dieAt = 1; ; dieAt += 1) {
      const made = await testRoot()
      let [steps, dead] = [0, false]
      const dying = new Proxy(systemDisk, {
        get(target, name: keyof Disk) {
          const work = target[name] as (...all: unknown[]) => Promise<unknown>
          return async (...all: unknown[]) => {
            if (!['writeDraft', 'replace', 'link', 'remove'].includes(name)) return work(...all)
            steps += 1
            if (dead || steps === dieAt) {
              dead = true
              throw Object.assign(new Error('died'), { code: 'EIO' })
            }
            return work(...all)
          }
        },
      })
      let at = 0
      const clock = { ...testWorld.clock, monotonicMs: () => (at += 10_000) }
      const board = await boardOf(made, { snapshots: true, resumeMinBytes: 0, disk: dying, clock, lockTtlMs: 1e9 })
      const write = async (n: number) =>
        board.write(() => [{ taskId: `T-${n}`, type: 'task_created', actor: 'ann' }]).catch(() => undefined)
      for (let n = 0; n < 4; n += 1) await write(n)
      const log = await TaskLog.open(await findRoot(made.path, testWorld), {
        disk: systemDisk,
        log: quietLog,
        access: 'write',
        minBytes: 0,
      })
      expect(facts(log), `at ${dieAt}`).toEqual(facts(await readAll(made.log)))
      await log.close()
      if (!dead) break
      expect(dieAt).toBeLessThan(100)
    }
  })

  it('an open board continues after the log is replaced by its compacted version', async () => {
    const { made, root } = await prepared()
    await appendFile(root.log, `${JSON.stringify(created(3))}\n${JSON.stringify(created(2_000))}\n`)
    const board = await boardOf(made, { resumeMinBytes: 0 })
    expect(board.state.eventCount).toBe(302)
    const compacted = join(made.path, 'compacted.jsonl')
    await rebuildSnapshot({ root: made.path, apply: false, compactTo: compacted }, testWorld)
    await rename(compacted, root.log)
    expect((await board.sync()).eventCount).toBe(302)
    await board.write(() => [{ taskId: 'T-2000', type: 'task_claimed', actor: 'ann' }])
    expect((await readAll(root.log)).fold.eventCount).toBe(board.state.eventCount)
  })

  it('a board writes resumable snapshots itself, frees the ids, and still knows every event', async () => {
    const made = await testRoot()
    const draft = (n: number) => ({ eventId: `e${n}`, taskId: `T-${n}`, type: 'task_created' as const, actor: 'ann' })
    let at = 0
    const clock = { ...testWorld.clock, monotonicMs: () => (at += 10_000) }
    const board = await boardOf(made, { snapshots: true, resumeMinBytes: 0, clock, lockTtlMs: 1e9 })
    for (let n = 0; n < 6; n += 1) await board.write(() => [draft(n)])
    // Known from the index file, known from the table, unknown.
    const again = await board.write(() => [draft(0), draft(5), draft(6)])
    expect(again.map(({ token }) => token)).toEqual([2, 7, 8].map((token) => again[0]!.token! + token - 2))
    expect((await made.lines()).filter((text) => text.includes('task_created'))).toHaveLength(7)
    await appendFile(made.log, `${JSON.stringify({ ...created(0), payload: {} })}\n`)
    expect((await board.sync()).eventCount).toBe(board.state.eventCount)
    await board.close()
    const names = (await readdir(join(made.path, 'state'))).filter((name) => name.endsWith('.ids'))
    expect(names).toHaveLength(1)
    const third = await boardOf(made, { resumeMinBytes: 0 })
    expect(third.state).toEqual(board.state)
    await expect(third.write(() => [{ ...draft(3), type: 'task_claimed' }])).rejects.toMatchObject({
      code: 'event_id_taken',
    })
  })
})
