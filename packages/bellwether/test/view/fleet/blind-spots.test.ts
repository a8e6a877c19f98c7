/** What no sensor saw happen: found by the audit, listed, and cleared by the sensor that tells of it after all. */
import { appendFileSync, chmodSync, mkdirSync, unlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { until } from '../../support/until.js'
import { Fleet, said } from './fleet.js'

const longAgo = 1_500_000_000

describe('changes that nobody saw', () => {
  let fleet: Fleet
  beforeEach(() => (fleet = new Fleet({ session: 60 })))
  afterEach(() => fleet.end())

  it('[V6.5] [V6.6] [V3.1] created, changed and deleted without an agent: the audit finds them, the list names them, realtime clears them', async () => {
    mkdirSync(fleet.at('hot'))
    mkdirSync(fleet.at('cold'))
    for (const name of ['changed', 'deleted', 'untouched']) writeFileSync(fleet.at('cold', name), 'old')
    utimesSync(fleet.at('cold'), longAgo, longAgo)
    await fleet.serve()
    fleet.sensor('few', { words: ['--watch-max', '2'] })
    await fleet.leads('few')
    const all = fleet.sensor('all')
    await fleet.connected('few', 'all')
    await fleet.audited()
    await fleet.equal()
    expect(await fleet.blindSpots()).toMatchObject({ additions: [], deletions: [] })

    // The only one who watches /cold sleeps, and its session is long.
    all.signal('SIGSTOP')
    writeFileSync(fleet.at('cold', 'created'), 'new')
    appendFileSync(fleet.at('cold', 'changed'), ' and more')
    unlinkSync(fleet.at('cold', 'deleted'))
    await until('blind spots', async () => {
      const found = await fleet.blindSpots()
      const additions = ['/cold/created', '/cold/changed'].every((path) => found?.additions.includes(path))
      return (additions && found?.deletions.includes('/cold/deleted')) || undefined
    })
    await fleet.equal()
    expect((await fleet.node('/cold/created'))!.agent_missing).toBe(true)
    expect((await fleet.node('/cold/untouched'))!.agent_missing).toBe(false)
    // Asking again, on demand, is a look as well: it clears nothing.
    await fleet.ask('/views/v/tree?path=/cold&force-real-time=true&wait=10')
    expect((await fleet.blindSpots())!.deletions).toEqual(['/cold/deleted'])

    all.signal('SIGCONT')
    await until('realtime clears them', async () => {
      const found = await fleet.blindSpots()
      const left = [...(found?.additions ?? ['unknown']), ...(found?.deletions ?? [])]
      return left.every((path) => !path.startsWith('/cold/')) || undefined
    })
    expect((await fleet.node('/cold/created'))!.agent_missing).toBe(false)
    await fleet.audited()
    await fleet.equal()
    // A file that was written and closed is nobody's suspect for long.
    await until('no suspects', async () => (await fleet.stats())?.suspect_file_count === 0 || undefined)
  }, 60_000)

  it('[V6.6] [V5.1] a directory that may not be read any more is skipped and counted, and nothing below it is concluded to be gone', async () => {
    for (const name of ['locked', 'open']) {
      mkdirSync(fleet.at(name))
      writeFileSync(fleet.at(name, 'inside'), name)
    }
    await fleet.serve()
    // Root may read everything, so the sensor is somebody else.
    const sensor = fleet.sensor('a', process.getuid?.() === 0 ? { uid: 65_534 } : {})
    await fleet.connected('a')
    await fleet.audited()
    chmodSync(fleet.at('locked'), 0)
    unlinkSync(fleet.at('open', 'inside'))
    await until('the rest goes on', async () => {
      const open = await fleet.ask('/views/v/tree?path=/open/inside')
      return open.status === 404 || undefined
    })
    writeFileSync(fleet.at('new'), 'makes the root worth reading')
    await fleet.audited(2)
    expect(await fleet.node('/locked/inside')).toMatchObject({ size: 'locked'.length })
    expect(await fleet.node('/new')).toBeDefined()
    expect(sensor.stderr()).toMatch(/"denied":[1-9]\d*,[^\n]*"msg":"audit done"/)
    chmodSync(fleet.at('locked'), 0o755)
    unlinkSync(fleet.at('locked', 'inside'))
    await fleet.equal()
    expect(said(sensor, 'a task failed and is started again')).toBe(0)
  }, 60_000)
})
