/** Tests changes that no sensor saw: an audit finds and lists them, and a later realtime event clears them. */
import { appendFileSync, chmodSync, mkdirSync, unlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canBeOrdinary, ordinaryUser } from '../../../../../scripts/ordinary-user.js'
import { until } from '../../support/until.js'
import { Fleet, countLogged } from './fleet.js'

const longAgo = 1_500_000_000

describe('blind spots', () => {
  let fleet: Fleet
  beforeEach(() => (fleet = new Fleet({ session: 60, audit: 0.4 })))
  afterEach(() => fleet.end())

  it('[V6.5] [V6.6] [V3.1] an audit finds unseen creations, changes and deletions, lists them, and realtime clears them', async () => {
    mkdirSync(fleet.at('hot'))
    mkdirSync(fleet.at('cold'))
    for (const name of ['changed', 'deleted', 'untouched']) writeFileSync(fleet.at('cold', name), 'old')
    utimesSync(fleet.at('cold'), longAgo, longAgo)
    await fleet.serve()
    fleet.sensor('few', { args: ['--watch-max', '2'] })
    await fleet.leads('few')
    const all = fleet.sensor('all')
    await fleet.connected('few', 'all')
    await fleet.audited()
    await fleet.equal()
    expect(await fleet.blindSpots()).toMatchObject({ additions: [], deletions: [] })

    // The only sensor that watches /cold is paused, and its session is long.
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
    // An on-demand scan clears nothing.
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
    // A file that was written and closed does not stay a suspect.
    await until('no suspects', async () => (await fleet.stats())?.suspect_file_count === 0 || undefined)
  })

  it.runIf(canBeOrdinary)(
    '[V6.6] [V5.1] skips and counts an unreadable directory, and deletes nothing below it',
    async () => {
      for (const name of ['locked', 'open']) {
        mkdirSync(fleet.at(name))
        writeFileSync(fleet.at(name, 'inside'), name)
      }
      await fleet.serve()
      // Root can read everything, so the sensor runs as another user.
      const sensor = fleet.sensor('a', ordinaryUser)
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
      expect(sensor.stderr()).toMatch(/"denied":[1-9]\d*,[^\n]*"msg":"audit sent"/)
      expect(sensor.stderr()).toMatch(/"paths":\["\/locked"\],[^\n]*"msg":"no permission to read directories"/)
      expect(await fleet.node('/locked')).toMatchObject({ unreadable: true })
      expect(await fleet.node('/open')).not.toHaveProperty('unreadable')
      chmodSync(fleet.at('locked'), 0o755)
      unlinkSync(fleet.at('locked', 'inside'))
      await fleet.equal()
      await until(
        'the mark is cleared',
        async () => (await fleet.node('/locked'))?.unreadable === undefined || undefined,
      )
      expect(countLogged(sensor, 'task failed and will be retried')).toBe(0)
    },
    600_000,
  )
})
