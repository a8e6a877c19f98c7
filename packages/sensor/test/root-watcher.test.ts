/** Tests the root watcher under stress: overflow, a full watch set, no inotify, lost positions, unreadable directories. */
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { afterEach, describe, expect, it } from 'vitest'
import { canBeOrdinary } from '../../../scripts/ordinary-user.js'
import type { FakeServerOptions } from './support/fake-server.js'
import { quickClock } from './support/quick-clock.js'
import { barrier, differences, openFixture, same, until, type Fixture } from './support/fixture.js'

describe('the root watcher', () => {
  let fixture: Fixture
  afterEach(() => fixture.end())
  const settled = (audits = 1) =>
    until('settled', () => fixture.server.snapshots > 0 && fixture.server.audits.length >= audits)
  async function make(options: FakeServerOptions = {}) {
    fixture = await openFixture(options)
    return fixture.server
  }

  it('[V3.1] after an overflow of the kernel’s queue it lists directories again, and an audit finds deletions (hazard 25)', async () => {
    await make()
    mkdirSync(fixture.at('d'))
    for (let at = 0; at < 50; at += 1) writeFileSync(fixture.at('d', `doomed${at}`), 'x')
    const sensor = fixture.sensor()
    await settled()
    sensor.watcher.pause(true)
    await barrier(fixture.server)
    // Alternate between two files, because the kernel merges equal neighbours, until its queue overflows.
    const queued = Number(readFileSync('/proc/sys/fs/inotify/max_queued_events', 'utf8'))
    for (let at = 0; at < queued + 100; at += 1) utimesSync(fixture.at('d', `doomed${at % 2}`), at, at)
    writeFileSync(fixture.at('d', 'unseen'), 'x')
    mkdirSync(fixture.at('late', 'deep'), { recursive: true })
    writeFileSync(fixture.at('late', 'deep', 'unseen'), 'x')
    for (let at = 0; at < 50; at += 1) unlinkSync(fixture.at('d', `doomed${at}`))
    sensor.watcher.pause(false)
    await until('overflow', () => sensor.watcher.stats().overflows > 0)
    await settled(2)
    await barrier(fixture.server)
    expect(differences(fixture.server, fixture.root)).toEqual([])
    writeFileSync(fixture.at('late', 'deep', 'watched-now'), 'x')
    await barrier(fixture.server)
    expect(differences(fixture.server, fixture.root)).toEqual([])
  })

  it('[V3.1] watches the newest directories, replaces the least active by a new one, and audits find the rest', async () => {
    await make()
    for (const [at, name] of ['cold', 'warm', 'hot'].entries()) {
      mkdirSync(fixture.at(name))
      utimesSync(fixture.at(name), 1_000_000 + at, 1_000_000 + at)
    }
    const sensor = fixture.sensor({ watchMax: 3 })
    await settled()
    expect(sensor.watcher.stats().watches).toBe(3)
    writeFileSync(fixture.at('cold', 'x'), '1')
    writeFileSync(fixture.at('hot', 'x'), '1')
    await barrier(fixture.server)
    expect(fixture.server.tree.has('/hot/x')).toBe(true)
    expect(fixture.server.tree.has('/cold/x')).toBe(false)
    mkdirSync(fixture.at('newest'))
    await barrier(fixture.server)
    writeFileSync(fixture.at('newest', 'x'), '1')
    writeFileSync(fixture.at('warm', 'x'), '1')
    await barrier(fixture.server)
    expect(fixture.server.tree.has('/newest/x')).toBe(true)
    expect(fixture.server.tree.has('/warm/x')).toBe(false)
    expect(sensor.watcher.stats()).toMatchObject({ watches: 3, evictions: 1 })
    fixture.server.command({ type: 'audit' })
    await settled(2)
    expect(differences(fixture.server, fixture.root)).toEqual([])
  })

  it('[V3.1] polls without koffi and inotify, and logs that', async () => {
    await make()
    mkdirSync(fixture.at('d', 'e'), { recursive: true })
    writeFileSync(fixture.at('d', 'gone'), 'x')
    const sensor = fixture.sensor({ native: false, pollSeconds: 0.2 })
    await settled()
    expect(sensor.watcher.stats().kind).toBe('polling')
    expect(fixture.lines.some(({ message }) => message.includes('polling'))).toBe(true)
    unlinkSync(fixture.at('d', 'gone'))
    writeFileSync(fixture.at('d', 'e', 'new'), 'y')
    mkdirSync(fixture.at('n', 'm'), { recursive: true })
    writeFileSync(fixture.at('n', 'm', 'o'), 'y')
    const bad = Buffer.concat([Buffer.from(`${fixture.root}/`), Buffer.from([0xe9, 0x2e])])
    writeFileSync(bad, 'x')
    await same(fixture)
    renameSync(fixture.at('n'), fixture.at('moved'))
    rmSync(fixture.at('d'), { recursive: true })
    await barrier(fixture.server)
    await same(fixture)
  })

  it('[V5.1] a pipe that falls too far behind sends everything again, and other pipes do not wait for it', async () => {
    const server = await make()
    mkdirSync(fixture.at('d'))
    const lost = () => fixture.lines.filter(({ message }) => message.startsWith('events lost'))
    fixture.sensor({ keys: ['k', 'k2'], busRows: 100, batchRows: 10, clock: quickClock(50), stuckSeconds: 100_000 })
    await until('both settled', () => server.snapshots === 2 && server.audits.length === 2)
    server.fail = { route: /ingest.* s1$/, status: 503, times: 1e9 }
    for (let round = 0; round < 10; round += 1) {
      for (let at = 0; at < 30; at += 1) writeFileSync(fixture.at('d', `f${round}-${at}`), 'x')
      await until('the other pipe continues', () => server.tree.has(`/d/f${round}-29`))
    }
    expect(lost()).toHaveLength(0)
    server.fail = undefined
    await until('a second snapshot', () => server.snapshots === 3)
    expect(lost()).toHaveLength(1)
    await same(fixture)
  })

  it('[V6.1] batches are bounded, ordered and numbered for a tree of any size', async () => {
    const server = await make()
    for (let at = 0; at < 30; at += 1) {
      mkdirSync(fixture.at(`d${at}`))
      for (let file = 0; file < 30; file += 1) writeFileSync(fixture.at(`d${at}`, `f${file}`), 'x')
    }
    fixture.sensor({ batchRows: 50 })
    await settled()
    for (const name of readdirSync(fixture.at('d1'))) unlinkSync(fixture.at('d1', name))
    await barrier(server)
    const requests = server
      .of('POST ingest/:id/events')
      .map(({ body }) => body as { source_type: string; events: { rows: unknown[] }[]; metadata: { seq?: number } })
    for (const { events } of requests)
      expect(events.reduce((sum, { rows }) => sum + rows.length, 0)).toBeLessThanOrEqual(50)
    const numbers = requests.filter(({ source_type }) => source_type === 'message').map(({ metadata }) => metadata.seq)
    expect(numbers).toEqual(numbers.map((_, at) => at + 1))
    expect(differences(server, fixture.root)).toEqual([])
  })

  it.runIf(canBeOrdinary)('[V5.1] skips and counts unreadable and vanished entries', async () => {
    const server = await make()
    mkdirSync(fixture.at('closed'))
    writeFileSync(fixture.at('closed', 'secret'), 'x')
    writeFileSync(fixture.at('open'), 'x')
    chmodSync(fixture.at('closed'), 0)
    chmodSync(fixture.root, 0o755)
    const isRoot = process.getuid?.() === 0
    // Root can read everything, so run the threads as an unprivileged user.
    if (isRoot) process.seteuid?.(65_534)
    try {
      const sensor = fixture.sensor()
      await settled()
      expect(server.tree.has('/closed')).toBe(true)
      expect(server.tree.has('/closed/secret')).toBe(false)
      const { rows, complete } = server.audits[0]!
      expect(complete).toBe(true)
      expect(rows.some((row) => row.path === '/closed' && row.scan_complete === true)).toBe(false)
      expect(rows.some((row) => row.path === '/' && row.scan_complete === true)).toBe(true)
      // The sensor logs the audit after the server's response, which this test sees first.
      const done = () => fixture.lines.find(({ message }) => message === 'audit sent')
      await until('the log line of the audit', () => done() !== undefined)
      expect(done()?.fields).toMatchObject({ denied: 1 })
      expect(sensor.units().every(({ state }) => state === 'ok')).toBe(true)
    } finally {
      if (isRoot) process.seteuid?.(0)
      chmodSync(fixture.at('closed'), 0o700)
    }
  })
})
