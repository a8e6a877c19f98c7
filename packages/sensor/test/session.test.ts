/** The shell around the tasks: sessions, heartbeats, roles, commands, failures. Against a server that fails on demand. */
import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { afterEach, describe, expect, it } from 'vitest'
import type { FusionOptions } from './support/fake-server.js'
import { quickClock } from './support/quick-clock.js'
import { barrier, differences, makeWorld, same, until, type World } from './support/world.js'

const heartbeat = 'POST session/:id/heartbeat'

describe('the shell', () => {
  let world: World
  afterEach(() => world.end())
  async function make(options: FusionOptions = {}) {
    world = await makeWorld(options)
    mkdirSync(world.at('d'))
    writeFileSync(world.at('d', 'f'), 'one')
    return world.fusion
  }
  const settled = () => until('snapshot and audit', () => world.fusion.snapshots > 0 && world.fusion.audits.length > 0)
  const beats = () => world.fusion.of(heartbeat)

  it('[V1.5] asks for its own timeout, takes the longer one of the server, and beats at least three times within it', async () => {
    const fusion = await make({ sessionTimeoutSeconds: 1.5 })
    world.sensor({ sessionTimeoutSeconds: 0.5 })
    await until('six beats', () => beats().length >= 6)
    expect(fusion.of('POST session/')[0]!.body).toMatchObject({ session_timeout_seconds: 0.5 })
    const times = beats().map(({ atMs }) => atMs)
    const gaps = times.slice(1).map((time, at) => time - times[at]!)
    // A third of the timeout, and what a busy machine adds.
    expect(gaps.sort((a, b) => a - b)[Math.floor(gaps.length / 2)]!).toBeLessThan(500 + 250)
    for (const beat of beats()) expect(Number(beat.body['wait_seconds'])).toBeLessThanOrEqual(0.5)
  })

  it('[V1.3] [V1.7] a follower only watches; promoted it tells everything once; demoted and promoted again it audits in full', async () => {
    const fusion = await make({ role: 'follower' })
    const sensor = world.sensor()
    await until('realtime', () => beats().some(({ body }) => body['can_realtime'] === true))
    writeFileSync(world.at('d', 'seen-by-follower'), 'x')
    await barrier(fusion)
    expect(fusion.tree.has('/d/seen-by-follower')).toBe(true)
    expect(fusion.tree.has('/d/f')).toBe(false)
    expect(fusion.snapshots + fusion.audits.length + fusion.of('GET consistency/sentinel/tasks').length).toBe(0)

    fusion.turn('leader')
    await until(
      'everything',
      () => fusion.audits.length === 1 && fusion.of('GET consistency/sentinel/tasks').length === 1,
    )
    expect(differences(fusion, world.root)).toEqual([])
    expect(fusion.snapshots).toBe(1)
    // One scan for the watches at the start, one snapshot, one audit: no pre-scan on promotion.
    expect(sensor.source.stats().overflows).toBe(0)

    fusion.turn('follower')
    await until('demoted', () => sensor.status()[0]!.session?.role === 'follower')
    const before = beats().length
    writeFileSync(world.at('d', 'still-watching'), 'x')
    await barrier(fusion)
    expect(fusion.tree.has('/d/still-watching')).toBe(true)
    expect(beats().length).toBeGreaterThan(before)
    fusion.turn('leader')
    await until('a second audit', () => fusion.audits.length === 2)
    expect(fusion.snapshots).toBe(1)
    expect(fusion.audits[1]!.rows.some((row) => row.audit_skipped === true)).toBe(false)
    expect(fusion.sessions).toBe(1)
  })

  it('[V1.7] demotion cancels a snapshot that is under way, and its audit never starts', async () => {
    const fusion = await make()
    fusion.fail = { route: /ingest/, status: 503, times: 1e9 }
    const sensor = world.sensor({ clock: quickClock(20), stuckSeconds: 100_000 })
    await until('snapshot under way', () => fusion.of('POST ingest/:id/events').length > 0)
    fusion.turn('follower')
    await until(
      'cancelled',
      () => !sensor.status()[0]!.active.includes('snapshot') && sensor.status()[0]!.session?.role === 'follower',
    )
    fusion.fail = undefined
    writeFileSync(world.at('d', 'after'), 'x')
    await barrier(fusion)
    expect(fusion.tree.has('/d/after')).toBe(true)
    expect(fusion.snapshots + fusion.of('POST consistency/audit/start').length).toBe(0)
  })

  it('[V1.4] can_realtime is false until the source watches, and then stays true whatever fails', async () => {
    const fusion = await make()
    const away = `${world.root}-away`
    renameSync(world.root, away)
    const sensor = world.sensor({ clock: quickClock(20), stuckSeconds: 100_000 })
    await until('a beat', () => beats().length > 1)
    expect(beats().every(({ body }) => body['can_realtime'] === false)).toBe(true)
    renameSync(away, world.root)
    await settled()
    await until('ready', () => beats().at(-1)!.body['can_realtime'] === true)
    fusion.fail = { route: /ingest/, status: 500, times: 1e9 }
    renameSync(world.root, away)
    await until('source down', () => !sensor.source.isWatching())
    const from = beats().length
    await until('more beats', () => beats().length > from + 2)
    expect(
      beats()
        .slice(from)
        .every(({ body }) => body['can_realtime'] === true),
    ).toBe(true)
    renameSync(away, world.root)
  })

  it('[V1.6] [V2.1] a session that the server ended is replaced at once, and the new one starts from nothing', async () => {
    const fusion = await make()
    world.sensor()
    await settled()
    const endedMs = performance.now()
    fusion.endSession()
    await until('a second session', () => fusion.sessions === 2)
    expect(fusion.of('POST session/')[1]!.atMs - endedMs).toBeLessThan(2_000)
    await until('told again', () => fusion.snapshots === 2 && fusion.audits.length === 2)
    expect(fusion.audits[1]!.rows.some((row) => row.audit_skipped === true)).toBe(false)
  })

  it('[V1.6] [V5.1] an ingest answered 419 ends the session before the heartbeat would notice', async () => {
    const fusion = await make({ sessionTimeoutSeconds: 60 })
    world.sensor()
    await settled()
    // Until it watches, which takes its time on a busy machine, it beats every second.
    const beats = () => fusion.of(heartbeat).filter(({ session }) => session === 's1').length
    const before = beats()
    fusion.fail = { route: /ingest/, status: 419, times: 1 }
    writeFileSync(world.at('d', 'g'), 'x')
    await until('a second session', () => fusion.sessions === 2)
    await same(world)
    expect(beats() - before).toBeLessThan(3)
  })

  it('[V5.2] [V1.6] a server that is away for long is called critical and tried for ever', async () => {
    const fusion = await make()
    fusion.fail = { route: /POST session\/ $/, status: 503, times: 8 }
    world.sensor({ clock: quickClock(200), stuckSeconds: 100_000 })
    await settled()
    const tries = fusion.of('POST session/')
    expect(tries).toHaveLength(9)
    const loud = world.lines.filter(({ level }) => level === 'fatal')
    expect(loud).toHaveLength(4)
    expect(loud[0]!.fields).toMatchObject({ failures: 5, pauseMs: 60_000, critical: true })
  })

  it('[V1.7] [V5.1] [V5.4] tasks that crash are restarted and counted in the heartbeat, which goes on', async () => {
    const fusion = await make()
    fusion.fail = { route: /ingest/, status: 400, times: 3 }
    const sensor = world.sensor({ clock: quickClock(100), stuckSeconds: 100_000 })
    await until('recovered', () => fusion.snapshots > 0 && fusion.audits.length > 0, 25_000)
    await until('told', () => {
      const status = beats().at(-1)!.body['agent_status'] as { tasks: { name: string; restarts: number }[] }
      return status.tasks.some(({ name, restarts }) => name.endsWith('snapshot') && restarts > 0)
    })
    expect(fusion.sessions).toBe(1)
    const { units } = beats().at(-1)!.body['agent_status'] as { units: { kind: string; state: string }[] }
    expect(units.map(({ kind }) => kind).sort()).toEqual(['sender', 'sensor_pipe', 'source'])
    expect(sensor.units().every(({ state }) => state === 'ok')).toBe(true)
    await same(world)
  })

  it('[V1.7] a heartbeat that is refused in any way goes on', async () => {
    const fusion = await make()
    world.sensor({ clock: quickClock(50), stuckSeconds: 100_000 })
    await settled()
    for (const status of [400, 401, 500]) {
      fusion.fail = { route: /heartbeat/, status, times: 1 }
      await until(`a beat refused with ${status}`, () => fusion.fail?.times === 0)
    }
    await barrier(fusion)
    expect(fusion.sessions).toBe(1)
  })

  it('[V1.6] after a server was away for longer than a session lasts, the pauses begin with the shortest', async () => {
    const fusion = await make({ sessionTimeoutSeconds: 3 })
    const quick = quickClock(20)
    const pauses: number[] = []
    const steps = [5_000, 10_000, 20_000, 40_000, 60_000]
    const sleep = (ms: number, signal?: AbortSignal) => {
      if (fusion.fail !== undefined && steps.includes(ms)) pauses.push(ms)
      return quick.sleep(ms, signal)
    }
    world.sensor({ clock: { ...quick, sleep }, stuckSeconds: 100_000 })
    await settled()
    fusion.fail = { route: /heartbeat/, status: 503, times: 7 }
    await until('seven beats refused', () => fusion.fail?.times === 0)
    await barrier(fusion)
    expect(pauses.slice(0, 2)).toEqual([5_000, 10_000])
  })

  it('[V6.10] one sensor feeds two views through one source and one sender, and one view’s trouble is not the other’s', async () => {
    const fusion = await make()
    const other = await makeWorld()
    try {
      const sensor = world.sensor({ keys: ['k', 'k2'] })
      await until('both told', () => fusion.snapshots === 2 && fusion.audits.length === 2)
      expect(fusion.sessions).toBe(2)
      fusion.endSession('s1')
      await until('one new session', () => fusion.sessions === 3)
      expect(sensor.status().map(({ sessions }) => sessions)).toEqual(expect.arrayContaining([1, 2]))
    } finally {
      await other.end()
    }
  })

  it('[V5.3] [V5.4] a source that fails makes its pipe fail, is logged, and recovers by itself', async () => {
    await make()
    const sensor = world.sensor({ clock: quickClock(20), stuckSeconds: 100_000 })
    await settled()
    renameSync(world.root, `${world.root}-away`)
    await until('failed', () => sensor.units().every(({ kind, state }) => kind === 'sender' || state === 'failed'))
    await until('its line', () =>
      world.lines.some(({ fields }) => fields['unit'] === 'source:host-1' && fields['to'] === 'failed'),
    )
    expect(world.fusion.tree.has('/d/f')).toBe(true)
    renameSync(`${world.root}-away`, world.root)
    await until('ok', () => sensor.units().every(({ state }) => state === 'ok'))
    expect(sensor.units().find(({ kind }) => kind === 'source')!.restarts).toBeGreaterThan(0)
    expect(world.fusion.realtime.filter(({ type }) => type === 'delete')).toEqual([])
    writeFileSync(world.at('d', 'back'), 'x')
    await same(world)
  })
})
