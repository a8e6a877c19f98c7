/** Tests a source that is added later, one that fails and recovers, and queries during the failure. */
import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { until } from '../../support/until.js'
import { differences, inView, onDisk, type Node } from './disk.js'
import { Fleet } from './fleet.js'

interface Components {
  readonly components?: readonly { readonly kind: string; readonly state: string }[]
}

describe('sources', () => {
  const fleets: Fleet[] = []
  const newFleet = (...options: ConstructorParameters<typeof Fleet>) => {
    const fleet = new Fleet(...options)
    fleets.push(fleet)
    for (let f = 0; f < 30; f += 1) writeFileSync(fleet.at(`f${f}`), 'x'.repeat(f))
    return fleet
  }
  afterEach(async () => {
    for (const fleet of fleets.splice(0)) await fleet.end()
  })

  it('[V6.9] [V6.10] a source added later has its own tree and leader; one sensor feeds two views', async () => {
    const fleet = newFleet({ views: ['v', 'w'] })
    const other = join(fleet.folder, 'other')
    mkdirSync(other)
    writeFileSync(join(other, 'f1'), 'x')
    writeFileSync(join(other, 'only-here'), 'other')
    await fleet.serve()
    fleet.sensor('a', { views: ['v', 'w'], args: ['--source', 'one'] })
    await fleet.connected('a')
    await fleet.equal()
    const second = await until('the second view', () => fleet.good<Node>('/views/w/tree', 'w'))
    expect(differences(onDisk(fleet.root), inView(second))).toEqual([])

    fleet.sensor('b', { root: other, args: ['--source', 'two'] })
    await until('two sources', async () => {
      const stats = await fleet.stats()
      return Object.keys(stats?.sources ?? {}).length === 2 || undefined
    })
    const tree = await until('the tree of the second', async () => {
      const found = await fleet.good<Node>('/views/v/tree?source=two')
      return found !== undefined && differences(onDisk(other), inView(found)).length === 0 ? found : undefined
    })
    expect(tree.children!.map(({ path }) => path).sort()).toEqual(['/f1', '/only-here'])
    const leaders = (await fleet.sessions()).filter(({ role }) => role === 'leader')
    expect(leaders.map(({ agent_id: id, source_id: of }) => `${id} of ${of}`).sort()).toEqual(['a of one', 'b of two'])
    const answer = await fleet.ask<{ best: Record<string, string> }>('/views/v/stats')
    expect(answer.body.best['file_count']).toBe('one')
  })

  it('[V5.3] [V4.1] [V4.2] [V5.4] a missing or replaced root deletes nothing, on-demand scans work while the pipe has failed, and the sensor recovers with the root', async () => {
    const fleet = newFleet({})
    await fleet.serve()
    const sensor = fleet.sensor('a')
    await fleet.connected('a')
    await fleet.equal()
    const { item_count: before } = (await fleet.stats())!
    const away = join(fleet.folder, 'away')
    const state = async () => {
      const units = (await fleet.sessions())[0]?.agent_status?.units ?? []
      return units.find(({ kind }) => kind === 'source')?.state
    }
    const isFailed = () => until('the source failed', async () => (await state()) === 'failed' || undefined)
    const isThere = async () => expect((await fleet.stats())!.item_count).toBe(before)

    renameSync(fleet.root, away)
    await isFailed()
    await isThere()
    const health = await fleet.good<Components>('/health/components')
    expect(JSON.stringify(health)).toContain('the root is gone')
    // An empty directory in its place, like an unmounted root.
    mkdirSync(fleet.root)
    await until(
      'seen again',
      async () => sensor.stderr().includes('another directory has replaced the root') || undefined,
      20_000,
    )
    await isFailed()
    await isThere()
    renameSync(fleet.root, join(fleet.folder, 'impostor'))
    renameSync(away, fleet.root)

    // The watcher waits for its next retry; on-demand scans do not.
    writeFileSync(fleet.at('on-demand'), 'now')
    const scan = await fleet.ask<Node & { job_pending: boolean }>(
      '/views/v/tree?path=/on-demand&force-real-time=true&wait=10',
    )
    expect([scan.status, scan.body.job_pending, scan.body.size]).toEqual([200, false, 3])

    await until('the source is well again', async () => (await state()) === 'ok' || undefined, 30_000)
    await fleet.equal()
    writeFileSync(fleet.at('seen-at-once'), 'again')
    await fleet.equal()
  })
})
