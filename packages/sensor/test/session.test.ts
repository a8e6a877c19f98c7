/** Tests sessions, heartbeats, roles, commands and failures against a server that fails on demand. */
import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { type Clock, systemClock } from '@bellwether/base'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type * as Scanning from '../src/scan/scanner.js'
import type { FakeServerOptions } from './support/fake-server.js'
import { quickClock } from './support/quick-clock.js'
import { barrier, differences, openFixture, same, until, type Fixture } from './support/fixture.js'

/** The modes of all scans of this test, in order. */
const scanModes = vi.hoisted((): string[] => [])
vi.mock('../src/scan/scanner.js', async (importOriginal) => {
  const original = await importOriginal<typeof Scanning>()
  return {
    ...original,
    openScanner: (options: Parameters<typeof original.openScanner>[0]) => {
      const scanner = original.openScanner(options)
      const scan: typeof scanner.scan = (request) => {
        scanModes.push(request.mode)
        return scanner.scan(request)
      }
      return { ...scanner, scan }
    },
  }
})

const heartbeat = 'POST session/:id/heartbeat'
const retryPausesMs = [5_000, 10_000, 20_000, 40_000, 60_000]

/** The system clock, and how long each sleep was to last. */
function recordedPauses() {
  const pauses: number[] = []
  const clock: Clock = {
    ...systemClock,
    sleep: (ms, signal) => {
      pauses.push(ms)
      return systemClock.sleep(ms, signal)
    },
  }
  return { clock, pauses }
}

describe('a sensor session', () => {
  let fixture: Fixture
  beforeEach(() => void scanModes.splice(0))
  afterEach(() => fixture.end())
  async function make(options: FakeServerOptions = {}) {
    fixture = await openFixture(options)
    mkdirSync(fixture.at('d'))
    writeFileSync(fixture.at('d', 'f'), 'one')
    return fixture.server
  }
  const settled = () =>
    until('snapshot and audit', () => fixture.server.snapshots > 0 && fixture.server.audits.length > 0)
  const beats = () => fixture.server.of(heartbeat)

  it('[V1.5] requests its own timeout, accepts the longer one of the server, and sends at least three heartbeats within it', async () => {
    const server = await make({ sessionTimeoutSeconds: 1.5 })
    fixture.sensor({ sessionTimeoutSeconds: 0.5 })
    await until('six heartbeats', () => beats().length >= 6)
    expect(server.of('POST session/')[0]!.body).toMatchObject({ session_timeout_seconds: 0.5 })
    // The server answers after one third of the timeout at the latest, and the sensor subtracts its wait from the interval.
    for (const beat of beats()) expect(Number(beat.body['wait_seconds'])).toBeLessThanOrEqual(0.5)
  })

  it('[V1.3] [V1.7] a follower only watches; a promoted one sends one snapshot without a pre-scan; promoted again it audits in full', async () => {
    const server = await make({ role: 'follower' })
    const sensor = fixture.sensor()
    await until('realtime', () => beats().some(({ body }) => body['can_realtime'] === true))
    writeFileSync(fixture.at('d', 'seen-by-follower'), 'x')
    await barrier(server)
    expect(server.tree.has('/d/seen-by-follower')).toBe(true)
    expect(server.tree.has('/d/f')).toBe(false)
    expect(server.snapshots + server.audits.length + server.of('GET consistency/sentinel/tasks').length).toBe(0)

    server.setRole('leader')
    await until(
      'everything',
      () => server.audits.length === 1 && server.of('GET consistency/sentinel/tasks').length === 1,
    )
    expect(differences(server, fixture.root)).toEqual([])
    expect(server.snapshots).toBe(1)
    // One scan for the watches at the start, one snapshot, one audit: no pre-scan on promotion.
    expect(scanModes).toEqual(['directories', 'snapshot', 'audit'])

    server.setRole('follower')
    await until('demoted', () => sensor.status()[0]!.session?.role === 'follower')
    const before = beats().length
    writeFileSync(fixture.at('d', 'still-watching'), 'x')
    await barrier(server)
    expect(server.tree.has('/d/still-watching')).toBe(true)
    await until('a beat of the follower', () => beats().length > before)
    server.setRole('leader')
    await until('a second audit', () => server.audits.length === 2)
    expect(server.snapshots).toBe(1)
    expect(server.audits[1]!.rows.some((row) => row.audit_skipped === true)).toBe(false)
    expect(scanModes).toEqual(['directories', 'snapshot', 'audit', 'audit'])
    expect(server.sessions).toBe(1)
  })

  it('[V1.7] a demotion cancels a running snapshot, and its audit never starts', async () => {
    const server = await make()
    server.fail = { route: /ingest/, status: 503, times: 1e9 }
    const sensor = fixture.sensor({ clock: quickClock(20), stuckSeconds: 100_000 })
    await until('a running snapshot', () => server.of('POST ingest/:id/events').length > 0)
    server.setRole('follower')
    await until(
      'cancelled',
      () => !sensor.status()[0]!.active.includes('snapshot') && sensor.status()[0]!.session?.role === 'follower',
    )
    server.fail = undefined
    writeFileSync(fixture.at('d', 'after'), 'x')
    await barrier(server)
    expect(server.tree.has('/d/after')).toBe(true)
    expect(server.snapshots + server.of('POST consistency/audit/start').length).toBe(0)
  })

  it('[V1.4] can_realtime is false until the watcher runs, and then stays true even if the watcher fails', async () => {
    const server = await make()
    const away = `${fixture.root}-away`
    renameSync(fixture.root, away)
    const sensor = fixture.sensor({ clock: quickClock(20), stuckSeconds: 100_000 })
    await until('a heartbeat', () => beats().length > 1)
    expect(beats().every(({ body }) => body['can_realtime'] === false)).toBe(true)
    renameSync(away, fixture.root)
    await settled()
    await until('ready', () => beats().at(-1)!.body['can_realtime'] === true)
    server.fail = { route: /ingest/, status: 500, times: 1e9 }
    renameSync(fixture.root, away)
    await until('the watcher failed', () => !sensor.watcher.isWatching())
    const from = beats().length
    await until('more heartbeats', () => beats().length > from + 2)
    expect(
      beats()
        .slice(from)
        .every(({ body }) => body['can_realtime'] === true),
    ).toBe(true)
    renameSync(away, fixture.root)
  })

  it('[V1.6] [V2.1] replaces a session that the server ended at once; the new one sends everything again', async () => {
    const server = await make()
    const { clock, pauses } = recordedPauses()
    fixture.sensor({ clock })
    await settled()
    pauses.length = 0
    server.endSession()
    await until('a second session', () => server.sessions === 2)
    // The pause after a first failure. Audits have timers of the later ones' lengths.
    expect(pauses).not.toContain(retryPausesMs[0])
    await until('a second snapshot and audit', () => server.snapshots === 2 && server.audits.length === 2)
    expect(server.audits[1]!.rows.some((row) => row.audit_skipped === true)).toBe(false)
  })

  it('[V1.6] [V5.1] a 419 response to ingest ends the session before the next heartbeat', async () => {
    const server = await make({ sessionTimeoutSeconds: 60 })
    fixture.sensor()
    await settled()
    // It sends a heartbeat every second until it watches, which may take time on a busy machine, and then one in 20 s.
    await until('it watches', () => beats().at(-1)!.body['can_realtime'] === true)
    const ofFirst = () => beats().filter(({ session }) => session === 's1').length
    const before = ofFirst()
    server.fail = { route: /ingest/, status: 419, times: 1 }
    writeFileSync(fixture.at('d', 'g'), 'x')
    await until('a second session', () => server.sessions === 2)
    await same(fixture)
    expect(ofFirst() - before).toBeLessThan(3)
  })

  it('[V5.2] [V1.6] logs a long outage of the server as critical and keeps retrying', async () => {
    const server = await make()
    server.fail = { route: /POST session\/ $/, status: 503, times: 8 }
    fixture.sensor({ clock: quickClock(200), stuckSeconds: 100_000 })
    await settled()
    const tries = server.of('POST session/')
    expect(tries).toHaveLength(9)
    const critical = fixture.lines.filter(({ level }) => level === 'fatal')
    expect(critical).toHaveLength(4)
    expect(critical[0]!.fields).toMatchObject({ failures: 5, pauseMs: 60_000, critical: true })
  })

  it('[V1.7] [V5.1] [V5.4] restarts crashed tasks and reports the restarts in heartbeats, which continue', async () => {
    const server = await make()
    server.fail = { route: /ingest/, status: 400, times: 3 }
    const sensor = fixture.sensor({ clock: quickClock(100), stuckSeconds: 100_000 })
    await until('recovered', () => server.snapshots > 0 && server.audits.length > 0, 25_000)
    await until('the restarts', () => {
      const status = beats().at(-1)!.body['agent_status'] as { tasks: { name: string; restarts: number }[] }
      return status.tasks.some(({ name, restarts }) => name.endsWith('snapshot') && restarts > 0)
    })
    expect(server.sessions).toBe(1)
    const { units } = beats().at(-1)!.body['agent_status'] as { units: { kind: string; state: string }[] }
    expect(units.map(({ kind }) => kind).sort()).toEqual(['sender', 'sensor_pipe', 'source'])
    expect(sensor.units().every(({ state }) => state === 'ok')).toBe(true)
    await same(fixture)
  })

  it('[V1.7] heartbeats continue after any rejection', async () => {
    const server = await make()
    fixture.sensor({ clock: quickClock(50), stuckSeconds: 100_000 })
    await settled()
    for (const status of [400, 401, 500]) {
      server.fail = { route: /heartbeat/, status, times: 1 }
      await until(`a beat refused with ${status}`, () => server.fail?.times === 0)
    }
    await barrier(server)
    expect(server.sessions).toBe(1)
  })

  it('[V1.6] pauses start at their minimum again after the server was down for longer than the session timeout', async () => {
    const server = await make({ sessionTimeoutSeconds: 3 })
    const quick = quickClock(20)
    const pauses: number[] = []
    const sleep = (ms: number, signal?: AbortSignal) => {
      if (server.fail !== undefined && retryPausesMs.includes(ms)) pauses.push(ms)
      return quick.sleep(ms, signal)
    }
    fixture.sensor({ clock: { ...quick, sleep }, stuckSeconds: 100_000 })
    await settled()
    server.fail = { route: /heartbeat/, status: 503, times: 7 }
    await until('seven rejected heartbeats', () => server.fail?.times === 0)
    await barrier(server)
    expect(pauses.slice(0, 2)).toEqual([5_000, 10_000])
  })

  it('[V6.10] one sensor feeds two views, and a failure of one does not affect the other', async () => {
    const server = await make()
    const other = await openFixture()
    try {
      const sensor = fixture.sensor({ keys: ['k', 'k2'] })
      await until('both snapshots and audits', () => server.snapshots === 2 && server.audits.length === 2)
      expect(server.sessions).toBe(2)
      server.endSession('s1')
      await until('one new session', () => server.sessions === 3)
      expect(sensor.status().map(({ sessions }) => sessions)).toEqual(expect.arrayContaining([1, 2]))
    } finally {
      await other.end()
    }
  })

  it('[V5.3] [V5.4] a failed source fails its pipe, is logged, and recovers by itself', async () => {
    await make()
    const sensor = fixture.sensor({ clock: quickClock(20), stuckSeconds: 100_000 })
    await settled()
    renameSync(fixture.root, `${fixture.root}-away`)
    await until('failed', () => sensor.units().every(({ kind, state }) => kind === 'sender' || state === 'failed'))
    await until('the log line', () =>
      fixture.lines.some(({ fields }) => fields['unit'] === 'source:host-1' && fields['to'] === 'failed'),
    )
    expect(fixture.server.tree.has('/d/f')).toBe(true)
    renameSync(`${fixture.root}-away`, fixture.root)
    await until('ok', () => sensor.units().every(({ state }) => state === 'ok'))
    expect(sensor.units().find(({ kind }) => kind === 'source')!.restarts).toBeGreaterThan(0)
    expect(fixture.server.realtime.filter(({ type }) => type === 'delete')).toEqual([])
    writeFileSync(fixture.at('d', 'back'), 'x')
    await same(fixture)
  })
})
