/** Tests that rows with very long paths, and requests that are rejected as too large, stop neither a scan nor realtime. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { barrier, differences, openFixture, same, until, type Fixture } from './support/fixture.js'
import { quickClock } from './support/quick-clock.js'

/** In JSON each byte that is not UTF-8 takes six characters: a path of 3,584 bytes takes 21,500. */
const name = Buffer.alloc(255, 0xff)
const join = (...parts: readonly Buffer[]) => Buffer.concat(parts.flatMap((part) => [part, Buffer.from('/')]))

describe('a directory with very long names', () => {
  let fixture: Fixture
  let top: Buffer
  let deepest: Buffer
  beforeEach(async () => {
    fixture = await openFixture()
    top = join(Buffer.from(fixture.root), name)
    deepest = join(Buffer.from(fixture.root), ...Array.from({ length: 14 }, () => name))
    writeFileSync(fixture.at('ordinary'), '1')
  })
  afterEach(() => fixture.end())
  const fill = (files: number) => {
    mkdirSync(deepest, { recursive: true })
    for (let at = 0; at < files; at += 1) writeFileSync(Buffer.concat([deepest, Buffer.from(`f${at}`)]), 'x')
  }
  const pipe = () =>
    fixture.server.of('POST session/:id/heartbeat').at(-1)?.body['agent_status'] as {
      readonly units: readonly { readonly kind: string; readonly state: string; readonly error?: string }[]
    }
  const pipeUnit = () => pipe()?.units.find(({ kind }) => kind === 'sensor_pipe')
  const audited = async () => {
    const before = fixture.server.audits.length
    fixture.server.command({ type: 'audit' })
    await until('audit', () => fixture.server.audits.length > before)
  }

  it('[V2.2] [V3.1] a directory with very long names is reported by snapshot, audit and realtime in requests that the server accepts', async () => {
    fill(400)
    fixture.sensor()
    await until('audit', () => fixture.server.audits.length === 1, 60_000)
    expect(differences(fixture.server, fixture.root)).toEqual([])
    rmSync(top, { recursive: true })
    await barrier(fixture.server)
    expect(differences(fixture.server, fixture.root)).toEqual([])
    fill(400)
    await same(fixture, 60_000)
    expect(fixture.server.audits.every(({ complete }) => complete)).toBe(true)
  })

  it('[V5.1] a directory with very long names is sent in smaller requests if a proxy accepts only those', async () => {
    fixture.server.bodyBytesMax = 100_000
    fill(40)
    fixture.sensor()
    await until('audit', () => fixture.server.audits.length === 1, 60_000)
    rmSync(top, { recursive: true })
    fill(20)
    await same(fixture, 60_000)
    expect(fixture.lines.filter(({ message }) => message === 'row skipped because it is too large')).toEqual([])
  })

  it('[V5.4] a single row that is too large is skipped and named in log and health until it is deleted', async () => {
    fixture.server.bodyBytesMax = 10_000
    fill(1)
    fixture.sensor({ clock: quickClock(5), stuckSeconds: 100_000 })
    await until('audit', () => fixture.server.audits.length === 1)
    const unit = await until('degraded', () => (pipeUnit()?.state === 'degraded' ? pipeUnit() : undefined))
    expect(unit.error).toContain('too large')
    const line = fixture.lines.find(({ message }) => message === 'row skipped because it is too large')
    expect(String(line?.fields['path'])).toMatch(/^\/\udcff{199}$/)
    writeFileSync(fixture.at('next'), '22')
    await until('realtime goes on', () => fixture.server.tree.has('/next'))
    rmSync(top, { recursive: true })
    await barrier(fixture.server)
    await audited()
    await until('ok', () => pipeUnit()?.state === 'ok')
    await same(fixture)
  })
})

describe('health', () => {
  let fixture: Fixture
  afterEach(() => fixture.end())

  it('[V5.4] reports a pipe whose realtime task keeps failing, and its recovery', async () => {
    fixture = await openFixture()
    const sensor = fixture.sensor({ clock: quickClock(50), stuckSeconds: 100_000 })
    await until('audit', () => fixture.server.audits.length === 1)
    fixture.server.fail = { route: /ingest/, status: 500, times: Infinity }
    writeFileSync(fixture.at('f'), '1')
    const unit = () => sensor.units().find(({ kind }) => kind === 'sensor_pipe')
    const failed = await until('failed', () => (unit()?.state === 'failed' ? unit() : undefined))
    expect(failed.error).toContain('realtime')
    fixture.server.fail = undefined
    await until('ok', () => unit()?.state === 'ok')
    await same(fixture)
  })
})
