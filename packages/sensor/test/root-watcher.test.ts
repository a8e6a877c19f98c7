/** The source under stress: overflow, a full watch set, no inotify, lost positions, a root that goes away. */
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
import type { FusionOptions } from './support/fake-server.js'
import { quickClock } from './support/quick-clock.js'
import { barrier, differences, makeWorld, same, until, type World } from './support/world.js'

describe('the source', () => {
  let world: World
  afterEach(() => world.end())
  const settled = (audits = 1) =>
    until('settled', () => world.fusion.snapshots > 0 && world.fusion.audits.length >= audits)
  async function make(options: FusionOptions = {}) {
    world = await makeWorld(options)
    return world.fusion
  }

  it('[V3.1] an overflow of the kernel’s queue is noticed: directories are read again, an audit finds what went (hazard 25)', async () => {
    await make()
    mkdirSync(world.at('d'))
    for (let at = 0; at < 50; at += 1) writeFileSync(world.at('d', `doomed${at}`), 'x')
    const sensor = world.sensor()
    await settled()
    sensor.source.pause(true)
    await barrier(world.fusion)
    // Two files in turn, because the kernel merges equal neighbours, until its queue cannot hold more.
    const queued = Number(readFileSync('/proc/sys/fs/inotify/max_queued_events', 'utf8'))
    for (let at = 0; at < queued + 100; at += 1) utimesSync(world.at('d', `doomed${at % 2}`), at, at)
    writeFileSync(world.at('d', 'unseen'), 'x')
    mkdirSync(world.at('late', 'deep'), { recursive: true })
    writeFileSync(world.at('late', 'deep', 'unseen'), 'x')
    for (let at = 0; at < 50; at += 1) unlinkSync(world.at('d', `doomed${at}`))
    sensor.source.pause(false)
    await until('overflow', () => sensor.source.stats().overflows > 0)
    await settled(2)
    await barrier(world.fusion)
    expect(differences(world.fusion, world.root)).toEqual([])
    writeFileSync(world.at('late', 'deep', 'watched-now'), 'x')
    await barrier(world.fusion)
    expect(differences(world.fusion, world.root)).toEqual([])
  })

  it('[V3.1] only the newest directories are watched; a new one takes the place of the quietest; the audit finds the rest', async () => {
    await make()
    for (const [at, name] of ['cold', 'warm', 'hot'].entries()) {
      mkdirSync(world.at(name))
      utimesSync(world.at(name), 1_000_000 + at, 1_000_000 + at)
    }
    const sensor = world.sensor({ watchMax: 3 })
    await settled()
    expect(sensor.source.stats().watches).toBe(3)
    writeFileSync(world.at('cold', 'x'), '1')
    writeFileSync(world.at('hot', 'x'), '1')
    await barrier(world.fusion)
    expect(world.fusion.tree.has('/hot/x')).toBe(true)
    expect(world.fusion.tree.has('/cold/x')).toBe(false)
    mkdirSync(world.at('newest'))
    await barrier(world.fusion)
    writeFileSync(world.at('newest', 'x'), '1')
    writeFileSync(world.at('warm', 'x'), '1')
    await barrier(world.fusion)
    expect(world.fusion.tree.has('/newest/x')).toBe(true)
    expect(world.fusion.tree.has('/warm/x')).toBe(false)
    expect(sensor.source.stats()).toMatchObject({ watches: 3, evictions: 1 })
    world.fusion.command({ type: 'audit' })
    await settled(2)
    expect(differences(world.fusion, world.root)).toEqual([])
  })

  it('[V3.1] without koffi and inotify it polls, and says so', async () => {
    await make()
    mkdirSync(world.at('d', 'e'), { recursive: true })
    writeFileSync(world.at('d', 'gone'), 'x')
    const sensor = world.sensor({ native: false, pollSeconds: 0.2 })
    await settled()
    expect(sensor.source.stats().kind).toBe('polling')
    expect(world.lines.some(({ message }) => message.includes('polling'))).toBe(true)
    unlinkSync(world.at('d', 'gone'))
    writeFileSync(world.at('d', 'e', 'new'), 'y')
    mkdirSync(world.at('n', 'm'), { recursive: true })
    writeFileSync(world.at('n', 'm', 'o'), 'y')
    const bad = Buffer.concat([Buffer.from(`${world.root}/`), Buffer.from([0xe9, 0x2e])])
    writeFileSync(bad, 'x')
    await same(world)
    renameSync(world.at('n'), world.at('moved'))
    rmSync(world.at('d'), { recursive: true })
    await barrier(world.fusion)
    await same(world)
  })

  it('[V5.1] a pipe that falls too far behind tells everything again, and the others never wait for it', async () => {
    const fusion = await make()
    mkdirSync(world.at('d'))
    const lost = () => world.lines.filter(({ message }) => message.startsWith('events were lost'))
    world.sensor({ keys: ['k', 'k2'], busRows: 100, batchRows: 10, clock: quickClock(50), stuckSeconds: 100_000 })
    await until('both settled', () => fusion.snapshots === 2 && fusion.audits.length === 2)
    fusion.fail = { route: /ingest.* s1$/, status: 503, times: 1e9 }
    for (let round = 0; round < 10; round += 1) {
      for (let at = 0; at < 30; at += 1) writeFileSync(world.at('d', `f${round}-${at}`), 'x')
      await until('the other pipe goes on', () => fusion.tree.has(`/d/f${round}-29`))
    }
    expect(lost()).toHaveLength(0)
    fusion.fail = undefined
    await until('told again', () => fusion.snapshots === 3)
    expect(lost()).toHaveLength(1)
    await same(world)
  })

  it('[V6.1] batches are bounded, ordered and numbered, whatever the size of the tree', async () => {
    const fusion = await make()
    for (let at = 0; at < 30; at += 1) {
      mkdirSync(world.at(`d${at}`))
      for (let file = 0; file < 30; file += 1) writeFileSync(world.at(`d${at}`, `f${file}`), 'x')
    }
    world.sensor({ batchRows: 50 })
    await settled()
    for (const name of readdirSync(world.at('d1'))) unlinkSync(world.at('d1', name))
    await barrier(fusion)
    const requests = fusion
      .of('POST ingest/:id/events')
      .map(({ body }) => body as { source_type: string; events: { rows: unknown[] }[]; metadata: { seq?: number } })
    for (const { events } of requests)
      expect(events.reduce((sum, { rows }) => sum + rows.length, 0)).toBeLessThanOrEqual(50)
    const numbers = requests.filter(({ source_type }) => source_type === 'message').map(({ metadata }) => metadata.seq)
    expect(numbers).toEqual(numbers.map((_, at) => at + 1))
    expect(differences(fusion, world.root)).toEqual([])
  })

  it('[V5.1] what may not be read, and what vanishes, is skipped and counted', async () => {
    const fusion = await make()
    mkdirSync(world.at('closed'))
    writeFileSync(world.at('closed', 'secret'), 'x')
    writeFileSync(world.at('open'), 'x')
    chmodSync(world.at('closed'), 0)
    chmodSync(world.root, 0o755)
    const isRoot = process.getuid?.() === 0
    // Nothing is closed to root: become nobody for as long as the threads look.
    if (isRoot) process.seteuid?.(65_534)
    try {
      const sensor = world.sensor()
      await settled()
      expect(fusion.tree.has('/closed')).toBe(true)
      expect(fusion.tree.has('/closed/secret')).toBe(false)
      const { rows, complete } = fusion.audits[0]!
      expect(complete).toBe(true)
      expect(rows.some((row) => row.path === '/closed' && row.scan_complete === true)).toBe(false)
      expect(rows.some((row) => row.path === '/' && row.scan_complete === true)).toBe(true)
      // The sensor writes its line when the server has answered, and the server has told us before that.
      const done = () => world.lines.find(({ message }) => message === 'audit done')
      await until('the line of the audit', () => done() !== undefined)
      expect(done()?.fields).toMatchObject({ denied: 1 })
      expect(sensor.units().every(({ state }) => state === 'ok')).toBe(true)
    } finally {
      if (isRoot) process.seteuid?.(0)
      chmodSync(world.at('closed'), 0o700)
    }
  })
})
