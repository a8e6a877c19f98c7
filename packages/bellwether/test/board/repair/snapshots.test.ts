import { readFile, readdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { rebuildSnapshot, restoreSnapshot, type RebuildReport } from '../../../src/board/repair/rebuild.js'
import { systemDisk } from '../../../src/ports/disk/disk.js'
import { runCli } from '../../support/process.js'
import { add, boardOf, line, testRoot, testWorld, type TestRoot } from '../log/test-root.js'

const rebuild = (root: TestRoot, apply = false, compactTo?: string) =>
  rebuildSnapshot({ root: root.path, apply, compactTo }, testWorld)

async function archived(root: TestRoot): Promise<string[]> {
  return (await readdir(join(root.path, 'state'))).filter((name) => /^tasks\.snapshot\..+\.json$/.test(name)).sort()
}

const history = () => [
  line('task_created', 'T-1', { title: 'one' }),
  line('task_claimed', 'T-1', { owner: 'coder' }),
  line('task_created', 'T-2', { title: 'zwei ü' }),
]

describe('rebuild-snapshot', () => {
  it('[H3.1] [H3.2] rebuild-snapshot gives the same bytes for the same events, with the time of the last event', async () => {
    const [one, two] = [await testRoot(), await testRoot()]
    const events = history()
    for (const root of [one, two]) {
      await root.writeLog(events)
      await rebuild(root, true)
    }
    const bytes = await readFile(one.snapshot)
    expect(bytes.equals(await readFile(two.snapshot))).toBe(true)
    const { tasks, meta } = JSON.parse(bytes.toString()) as Record<string, Record<string, unknown>>
    expect(tasks).toMatchObject({ 'T-1': { status: 'claimed', assignee: 'coder' }, 'T-2': { title: 'zwei ü' } })
    expect(meta).toMatchObject({
      version: 2,
      updatedAt: (events[2] as { at: string }).at,
      replay: { events: 3, lines: 3, problems: {} },
    })
    await rebuild(one, true)
    expect(bytes.equals(await readFile(one.snapshot))).toBe(true)
  })

  it('[H3.2] rebuild-snapshot compares hashes without the meta, summarizes differences, and writes only with apply', async () => {
    const root = await testRoot()
    await root.writeLog(history())
    expect(await rebuild(root)).toMatchObject({ match: false, live: 'missing', liveHash: null, diff: { added: 2 } })
    await expect(stat(root.snapshot)).rejects.toThrow('ENOENT')
    const written = await rebuild(root, true)
    expect(await rebuild(root)).toMatchObject({ match: true, live: 'ours', liveHash: written.rebuiltHash })
    const text = await readFile(root.snapshot, 'utf8')
    // Only the meta differs: still equal.
    await writeFile(root.snapshot, text.replace('"version":2', '"version":7'))
    expect(await rebuild(root)).toMatchObject({ match: true })
    await writeFile(root.snapshot, text.replace('"status":"claimed"', '"status":"done"').replace('"T-2"', '"T-3"'))
    const differs = await rebuild(root)
    expect(differs).toMatchObject({
      match: false,
      applied: false,
      diff: { added: 1, removed: 1, changed: 1, sampleAdded: ['T-2'], sampleRemoved: ['T-3'], sampleChanged: ['T-1'] },
    })
    expect(await readFile(root.snapshot, 'utf8')).not.toBe(text)
    expect(await rebuild(root, true)).toMatchObject({ match: false, applied: true })
    expect(await readFile(root.snapshot, 'utf8')).toBe(text)
  })

  it('[H3.2] rebuild-snapshot also compares another layout, the reference’s, and a file that is not a snapshot', async () => {
    const root = await testRoot()
    await root.writeLog(history())
    await rebuild(root, true)
    const text = await readFile(root.snapshot, 'utf8')
    await writeFile(root.snapshot, JSON.stringify(JSON.parse(text), undefined, 2))
    expect(await rebuild(root)).toMatchObject({ match: true, live: 'other' })
    const old = (status: string, owner: string | null, title: string) => ({
      title,
      status,
      owner,
      blockedReason: null,
      history: [],
    })
    const reference = { tasks: { 'T-1': old('claimed', 'coder', 'one'), 'T-2': old('done', null, 'zwei ü') }, meta: {} }
    await writeFile(root.snapshot, JSON.stringify(reference, undefined, 2))
    expect(await rebuild(root)).toMatchObject({
      match: false,
      live: 'reference',
      diff: { changed: 1, sampleChanged: ['T-2'] },
    })
    for (const broken of [
      '',
      '{',
      '[]',
      '{"tasks":[]}',
      '{"tasks":{\n}',
      '{"tasks":{\n"meta":{}}\n',
      '\u0000'.repeat(100),
    ]) {
      await writeFile(root.snapshot, broken)
      expect(await rebuild(root), broken).toMatchObject({ match: false, diff: { added: 2 } })
      const board = await boardOf(root)
      expect(board.state.tasks.size).toBe(2)
    }
    expect(await rebuild(root, true)).toMatchObject({ live: 'unreadable', applied: true })
    expect(await readFile(root.snapshot, 'utf8')).toBe(text)
  })

  it('[H3.3] rebuild-snapshot reports and counts each kind of problem by line number, and continues', async () => {
    const root = await testRoot()
    const [first, claim, second] = history()
    const { taskId: _taskId, ...nameless } = line('task_claimed') as { taskId: string }
    await root.writeLog(
      [
        JSON.stringify(first),
        '{"eventId":"broken',
        JSON.stringify(nameless),
        JSON.stringify(first),
        '',
        JSON.stringify(line('task_eaten' as 'task_done')),
        JSON.stringify(line('task_done', 'T-1')),
        JSON.stringify(line('task_claimed', 'T-404')),
        JSON.stringify(claim),
        JSON.stringify(second),
        JSON.stringify(line('task_blocked', 'T-2')).slice(0, 50),
      ].join('\n'),
    )
    const report = await rebuild(root)
    expect(report).toMatchObject({ ok: false, events: 3, tasks: 2, lines: 10, tornLastLine: true })
    expect(report.errors.total).toBe(7)
    expect(report.errors.items.map(({ line, kind }) => `${line} ${kind}`)).toEqual([
      '2 broken_json',
      '3 missing_keys',
      '4 duplicate_event_id',
      '6 unknown_type',
      '7 invalid_transition',
      '8 missing_task',
      '11 broken_json',
    ])
    expect(report.errors.counts).toMatchObject({ broken_json: 2, missing_task: 1 })
  })

  it('[H3.4] rebuild-snapshot writes a compacted log that folds to the same snapshot', async () => {
    const [root, other] = [await testRoot(), await testRoot()]
    const events = history()
    await root.writeLog([
      ...events,
      events[0]!,
      line('task_done', 'T-2'),
      { ...line('task_noted', 'T-1'), token: 5 },
      { ...line('task_noted', 'T-1'), token: 4 },
    ])
    const report = await rebuild(root, false, other.log)
    expect(report.compacted).toEqual({ path: other.log, lines: 5, dropped: 3 })
    expect((await rebuild(other)).rebuiltHash).toBe(report.rebuiltHash)
    expect(await rebuild(other)).toMatchObject({ errors: { total: 0 }, lines: 5, held: report.held })
    await expect(rebuild(root, false, root.log)).rejects.toMatchObject({ code: 'bad_output' })
    await expect(rebuild(root, false, '/nowhere/out.jsonl')).rejects.toMatchObject({ code: 'bad_output' })
    expect((await readdir(join(other.path, 'state'))).sort()).toEqual(['locks', 'tasks.jsonl'])
  })

  it('rebuild-snapshot reports dependency cycles', async () => {
    const root = await testRoot()
    await root.writeLog([
      line('task_created', 'a', { dependencies: ['b'] }),
      line('task_created', 'b', { dependencies: ['a'] }),
    ])
    expect((await rebuild(root)).dependencyCycles).toEqual([['a', 'b']])
  })

  it('rebuild-snapshot leaves the live snapshot intact if it fails', async () => {
    const root = await testRoot()
    await root.writeLog(history())
    await rebuild(root, true)
    const before = await readFile(root.snapshot)
    await root.writeLog([...history(), line('task_created', 'T-9')])
    const disk = { ...systemDisk, replace: () => Promise.reject(Object.assign(new Error('full'), { code: 'ENOSPC' })) }
    const failing = rebuildSnapshot({ root: root.path, apply: true }, { ...testWorld, disk })
    await expect(failing).rejects.toMatchObject({ code: 'disk_full' })
    expect((await readFile(root.snapshot)).equals(before)).toBe(true)
    expect((await readdir(join(root.path, 'state'))).some((name) => name.endsWith('.draft'))).toBe(false)
  })
})

describe('archived snapshots', () => {
  it('[H4.1] the last seven snapshots are archived, and one of them can be restored', async () => {
    const root = await testRoot()
    const events = [line('task_created', 'T-0')]
    const texts: string[] = []
    for (let at = 1; at <= 9; at += 1) {
      await root.writeLog(events)
      await rebuild(root, true)
      texts.push(await readFile(root.snapshot, 'utf8'))
      events.push(line('task_created', `T-${at}`))
    }
    const names = await archived(root)
    expect(names).toHaveLength(7)
    for (const [at, name] of names.entries())
      expect(await readFile(join(root.path, 'state', name), 'utf8')).toBe(texts[at + 2])
    const dry = await restoreSnapshot({ root: root.path, apply: false, snapshot: names[0]! }, testWorld)
    expect(dry).toMatchObject({ applied: false, chosen: names[0] })
    expect(await readFile(root.snapshot, 'utf8')).toBe(texts[8])
    await restoreSnapshot({ root: root.path, apply: true, snapshot: names[0]! }, testWorld)
    expect(await readFile(root.snapshot, 'utf8')).toBe(texts[2])
    // Older than the log, which does no harm: the log has everything.
    expect((await boardOf(root)).state.tasks.size).toBe(9)
    for (const wanted of ['../tasks.jsonl', 'tasks.snapshot.json', '/etc/passwd', 'nothing'])
      await expect(
        restoreSnapshot({ root: root.path, apply: true, snapshot: wanted }, testWorld),
      ).rejects.toMatchObject({ code: 'no_such_snapshot' })
  })

  it('[H4.1] a replaced snapshot is archived, also in another layout or after the clock was set back', async () => {
    const root = await testRoot()
    await root.writeLog(history())
    await writeFile(root.snapshot, 'precious')
    await rebuild(root, true)
    const [older, newer] = await archived(root)
    expect(await readFile(join(root.path, 'state', older!), 'utf8')).toBe('precious')
    await root.writeLog([...history(), line('task_created', 'T-7')])
    const clock = { ...testWorld.clock, wallMs: () => Date.parse('2001-01-01T00:00:00Z') }
    await rebuildSnapshot({ root: root.path, apply: true }, { ...testWorld, clock })
    expect((await archived(root)).slice(0, 2)).toEqual([older, newer])
    expect(await archived(root)).toHaveLength(3)
  })

  it('a board writes snapshots while it grows and on close', async () => {
    const root = await testRoot()
    const board = await boardOf(root, { snapshots: true })
    await board.write(() => [add('T-1')])
    await board.write(() => [add('T-2')])
    await board.close()
    expect(await rebuild(root)).toMatchObject({ match: true, live: 'ours', tasks: 2 })
  })
})

describe('the tools on the command line', () => {
  async function run(words: readonly string[]) {
    const cli = runCli(words, { cwd: '/' })
    cli.child.stdin!.end()
    const code = await cli.ended
    return { code, out: cli.stdout(), err: cli.stderr() }
  }

  it('[H2.3] [H2.4] [H3.2] the repair commands print JSON with --json, else text, and exit with 0, 1 or 2', async () => {
    const root = await testRoot()
    await root.writeLog(history())
    const seconds = Date.now() / 1_000
    for (const name of ['a.lock', 'b.lock'])
      await root.writeLock(name, { owner: 'x', pid: 1, createdAtTs: seconds - 900, expiresAtTs: seconds - 800 })
    const [json, refused, usage, both] = await Promise.all([
      run(['rebuild-snapshot', '--root', root.path, '--json']),
      run(['recover-stale-locks', '--root', root.path, '--apply', '--json']),
      run(['rebuild-snapshot', '--rot', root.path]),
      run(['restore-snapshot', '--root', root.path, '--apply', '--dry-run']),
    ])
    expect(json.code).toBe(0)
    expect(JSON.parse(json.out) as RebuildReport).toMatchObject({ ok: true, mode: 'dry-run', events: 3, tasks: 2 })
    expect(refused.code).toBe(1)
    expect(JSON.parse(refused.out)).toMatchObject({
      ok: false,
      refused: expect.stringContaining('--yes'),
      reclaimed: [],
    })
    expect(usage).toMatchObject({ code: 2, out: '', err: expect.stringContaining('Did you mean --root?') })
    expect(both).toMatchObject({ code: 2, err: expect.stringContaining('cannot be combined') })
    const words = await run(['recover-stale-locks', '--root', root.path, '--apply', '--yes'])
    expect(words).toMatchObject({ code: 0, out: expect.stringMatching(/2 locks, 2 to reclaim\n {2}reclaimed a\.lock/) })
    expect(await root.lockNames()).toEqual(['recovery.audit.jsonl'])
  })
})

it('a draft that cannot be written completely is removed', async () => {
  const root = await testRoot()
  const draft = join(root.path, 'x.draft')
  const chunks = function* () {
    yield 'begin'
    throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
  }
  await expect(testWorld.disk.writeDraft(draft, chunks())).rejects.toMatchObject({ code: 'ENOSPC' })
  expect(await readdir(root.path)).toEqual(['state'])
})
