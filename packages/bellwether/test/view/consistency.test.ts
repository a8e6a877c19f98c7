/** Tests tombstones, suspects, blind spots and clocks over real HTTP. */
import { describe, expect, it } from 'vitest'
import { directory, file, old, viewPerTest } from './pipe-client.js'

const view = viewPerTest()
const { blindSpots, isThere, node, nowSeconds, stats } = view

describe('tombstones', () => {
  it('[V6.3] old scan rows do not recreate a deleted file, and a newer file is a new file', async () => {
    await view.leader.realtime(file('/d/f', old))
    await view.leader.deleted('/d/f')
    await view.leader.send('snapshot', [file('/d/f', old)])
    await view.leader.completeAudit('a1', ['/d'], file('/d/f', old))
    await view.leader.send('on_demand_job', [file('/d/f', old)])
    expect(await isThere('/d/f')).toBe(false)
    await view.leader.completeAudit('a2', ['/d'], file('/d/f', nowSeconds() + 1))
    expect(await isThere('/d/f')).toBe(true)
    expect((await stats())['tombstone_count']).toBe(0)
  })

  it('[V6.3] old scan rows do not recreate files of a deleted directory', async () => {
    await view.leader.realtime(directory('/d/sub'), file('/d/sub/f', old))
    await view.leader.deleted('/d/sub')
    await view.leader.send('snapshot', [file('/d/sub/f', old), directory('/d/sub', old)])
    expect(await isThere('/d/sub')).toBe(false)
    await view.leader.send('snapshot', [directory('/d/sub', nowSeconds() + 1), file('/d/sub/f', old)])
    expect(await isThere('/d/sub/f')).toBe(true)
  })

  it('[V6.3] a file dated 2050 stays deleted', async () => {
    const in2050 = 2_524_608_000
    await view.leader.realtime(file('/d/f', in2050))
    await view.leader.deleted('/d/f')
    await view.leader.completeAudit('a1', ['/d'], file('/d/f', in2050))
    expect(await isThere('/d/f')).toBe(false)
  })

  it('[V6.3] the end of an audit drops tombstones that are older than one hour and older than the audit', async () => {
    await view.leader.deleted('/d/f')
    await view.leader.startAudit('a1')
    await view.server.clock.advance(1_800_000)
    await view.leader.endAudit('a1')
    expect((await stats())['tombstone_count']).toBe(1)
    await view.leader.startAudit('a2')
    await view.server.clock.advance(1_900_000)
    await view.leader.endAudit('a2', false)
    expect((await stats())['tombstone_count']).toBe(0)
  })

  it('[V6.3] a realtime row that arrives twice or late changes nothing', async () => {
    await view.leader.send('realtime', [file('/d/f')], { metadata: { seq: 1 } })
    await view.leader.send('realtime', [{ path: '/d/f' }], { type: 'delete', metadata: { seq: 2 } })
    const again = await view.leader.send('realtime', [file('/d/f')], { metadata: { seq: 1 } })
    expect(again.body).toMatchObject({ status: 'ok', stale: true, count: 0 })
    expect(await isThere('/d/f')).toBe(false)
  })
})

describe('suspects', () => {
  it('[V6.4] a partial write marks a suspect and an atomic write clears it', async () => {
    await view.leader.realtime(file('/d/f', old, { is_atomic_write: false }))
    expect((await node('/d/f'))?.['integrity_suspect']).toBe(true)
    await view.leader.realtime(file('/d/f', old + 1, { is_atomic_write: true }))
    expect((await node('/d/f'))?.['integrity_suspect']).toBe(false)
    expect((await stats())['suspect_file_count']).toBe(0)
  })

  it('[V6.4] scans mark hot files as suspects; at expiry a stable mtime clears them and a changed one renews them', async () => {
    await view.leader.send('snapshot', [file('/d/stable', nowSeconds() - 20), file('/d/cold', nowSeconds() - 61)])
    await view.leader.send('audit', [file('/d/busy', nowSeconds() - 20)])
    expect((await stats())['suspect_file_count']).toBe(2)
    await view.leader.send('snapshot', [file('/d/busy', nowSeconds() - 10)])
    await view.server.pass(41)
    expect((await view.server.get('/views/v/suspect-list')).body).toMatchObject({
      count: 1,
      suspects: [{ path: '/d/busy' }],
    })
    await view.server.pass(70)
    expect((await stats())['suspect_file_count']).toBe(0)
    expect((await node('/d/busy'))?.['integrity_suspect']).toBe(false)
  })

  it('[V6.4] a delete clears the suspect', async () => {
    await view.leader.realtime(file('/d/f', old, { is_atomic_write: false }))
    await view.leader.deleted('/d')
    expect((await view.server.get('/views/v/suspect-list')).body).toMatchObject({ count: 0, suspects: [] })
  })

  const report = (...updates: readonly object[]) =>
    view.leader.request('POST', '/pipe/consistency/sentinel/feedback', { type: 'suspect_update', updates })

  it('[V6.4] a sentinel gets the suspects; its report renews changed ones and clears unchanged ones after their threshold', async () => {
    await view.leader.realtime(
      file('/d/f', old, { is_atomic_write: false }),
      file('/d/g', old, { is_atomic_write: false }),
    )
    const tasks = (await view.leader.request('GET', '/pipe/consistency/sentinel/tasks')).body
    expect(tasks).toMatchObject({ type: 'suspect_check', source_id: 'default' })
    expect(tasks.paths?.toSorted()).toEqual(['/d/f', '/d/g'])
    await view.server.clock.advance(59_000)
    const saw = await report(
      { path: '/d/f', mtime: old, size: 10, status: 'exists' },
      { path: '/d/g', mtime: old + 5, size: 10, status: 'exists' },
      { path: '/d/nobody', mtime: 1, size: 1, status: 'exists' },
    )
    expect(saw.body).toMatchObject({ status: 'processed', cleared: 0, renewed: 1 })
    expect((await node('/d/f'))?.['integrity_suspect']).toBe(true)
    await view.server.clock.advance(1_000)
    expect((await report({ path: '/d/f', mtime: old, size: 10, status: 'exists' })).body).toMatchObject({ cleared: 1 })
    expect((await view.server.get('/views/v/suspect-list')).body).toMatchObject({
      count: 1,
      suspects: [{ path: '/d/g', mtime: old + 5 }],
    })
    await view.server.clock.advance(59_000)
    const put = await view.server.call('PUT', '/views/v/suspect-list', {
      updates: [{ path: '/d/g', current_mtime: old + 5 }],
    })
    expect(put.body).toMatchObject({ cleared: 1 })
    expect((await view.leader.request('GET', '/pipe/consistency/sentinel/tasks')).body).toEqual({})
  })

  it('[V6.4] the list for a sentinel fits into a response, however long the paths are', async () => {
    const deep = `/${'\udcff'.repeat(255)}`.repeat(14)
    for (let from = 0; from < 400; from += 100)
      await view.leader.realtime(
        ...Array.from({ length: 100 }, (_, at) => file(`${deep}/${from + at}`, old, { is_atomic_write: false })),
      )
    expect((await stats())['suspect_file_count']).toBe(400)
    const tasks = await view.leader.request('GET', '/pipe/consistency/sentinel/tasks')
    expect(tasks.text.length).toBeLessThan(8 * 1_024 * 1_024)
    expect(tasks.body.paths!.length).toBeGreaterThan(200)
  })

  it('[V6.4] a sentinel report updates mtime and size; without a size the view requests a scan', async () => {
    await view.leader.realtime(file('/d/f', old, { is_atomic_write: false }))
    await report({ path: '/d/f', mtime: old + 5, size: 7, status: 'exists' })
    expect(await node('/d/f')).toMatchObject({ size: 7, modified_time: old + 5 })
    await report({ path: '/d/f', mtime: old + 5, size: 8, status: 'exists' })
    expect(await node('/d/f')).toMatchObject({ size: 8, integrity_suspect: true })
    expect(await view.leader.commands()).toEqual([])
    await report({ path: '/d/f', mtime: old + 6, status: 'exists' })
    expect(await view.leader.commands()).toMatchObject([{ type: 'scan', path: '/d/f' }])
  })
})

describe('blind spots', () => {
  it('[V6.5] [V6.2] an audit marks changes that no sensor reported as blind spots, and realtime clears them', async () => {
    await view.leader.realtime(file('/d/known'), file('/d/lost'))
    await view.leader.completeAudit('a1', ['/d'], file('/d/known'), file('/d/silent'))
    expect(await blindSpots()).toEqual({
      additions_count: 1,
      additions: ['/d/silent'],
      deletion_count: 1,
      deletions: ['/d/lost'],
    })
    expect((await stats())['has_blind_spot']).toBe(true)
    expect((await node('/d/silent'))?.['agent_missing']).toBe(true)
    expect((await node('/d/known'))?.['agent_missing']).toBe(false)
    await view.leader.realtime(file('/d/silent'), file('/d/lost'))
    expect(await blindSpots()).toMatchObject({ additions_count: 0, deletion_count: 0 })
    expect((await node('/d/silent'))?.['agent_missing']).toBe(false)
  })

  it('[V6.5] a changed mtime is a blind spot; seeing a deleted file again or deleting it clears the mark', async () => {
    await view.leader.realtime(file('/d/f', old), file('/d/g', old))
    await view.leader.completeAudit('a1', ['/d'], file('/d/f', old + 9))
    expect(await blindSpots()).toMatchObject({ additions: ['/d/f'], deletions: ['/d/g'] })
    await view.leader.completeAudit('a2', ['/d'], file('/d/f', old + 9), file('/d/g', old))
    expect(await blindSpots()).toMatchObject({ deletion_count: 0 })
    await view.leader.completeAudit('a3', ['/d'], file('/d/f', old + 9))
    expect(await blindSpots()).toMatchObject({ additions: ['/d/f'], deletions: ['/d/g'] })
    await view.leader.deleted('/d/f', '/d/g')
    expect(await blindSpots()).toMatchObject({ additions_count: 0, deletion_count: 0 })
  })

  it('[V6.5] on-demand rows mark blind spots and never clear them', async () => {
    await view.leader.send('on_demand_job', [file('/d/f')])
    await view.leader.send('on_demand_job', [file('/d/f')])
    expect(await blindSpots()).toMatchObject({ additions: ['/d/f'] })
    await view.leader.send('snapshot', [file('/d/f', old + 1)])
    expect(await blindSpots()).toMatchObject({ additions: ['/d/f'] })
  })

  it('[V6.5] a new session clears all blind spots', async () => {
    await view.leader.send('audit', [file('/d/f')])
    expect((await blindSpots())['additions_count']).toBe(1)
    await view.server.connect('another')
    expect(await blindSpots()).toMatchObject({ additions_count: 0, additions: [] })
  })
})

describe('clocks', () => {
  it('[V6.7] the logical clock follows realtime rows only, and a file dated 2050 does not move it', async () => {
    expect((await stats())['logical_now']).toBe(nowSeconds())
    const skewed = nowSeconds() - 7_200
    await view.leader.realtime(...Array.from({ length: 20 }, (_, i) => file(`/d/${i}`, skewed)))
    expect((await stats())['logical_now']).toBe(skewed)
    await view.leader.realtime(file('/d/future', 2_524_608_000))
    await view.leader.send(
      'snapshot',
      Array.from({ length: 50 }, (_, i) => file(`/d/s${i}`, nowSeconds())),
    )
    await view.leader.send(
      'audit',
      Array.from({ length: 50 }, (_, i) => file(`/d/a${i}`, nowSeconds())),
    )
    expect((await stats())['logical_now']).toBe(skewed)
  })

  it('[V6.7] [V6.4] with a file server two hours behind, its clock decides which files are hot', async () => {
    const skewed = nowSeconds() - 7_200
    await view.leader.realtime(...Array.from({ length: 5 }, (_, i) => file(`/d/${i}`, skewed)))
    await view.leader.send('snapshot', [file('/d/hot', skewed - 5), file('/d/cold', skewed - 100)])
    expect((await node('/d/hot'))?.['integrity_suspect']).toBe(true)
    expect((await node('/d/cold'))?.['integrity_suspect']).toBe(false)
  })

  it('[V6.2] sensors whose clocks differ by hours do not override each other', async () => {
    const other = await view.server.connect('other', { timeoutSeconds: 100_000 })
    const at = view.server.clock.wallMs()
    await view.leader.send('realtime', [file('/d/f', old)], { index: at + 7_200_000 })
    await other.send('realtime', [file('/d/warm-up', old)], { index: at - 7_200_000 })
    await view.server.clock.advance(1_000)
    await other.send('realtime', [file('/d/f', old - 50, { size: 3 })], { index: at - 7_200_000 + 1_000 })
    expect(await node('/d/f')).toMatchObject({ size: 3, last_agent_id: 'other' })
  })
})

it('[V6.1] hosts with different mount points report the same path in realtime, snapshot and audit', async () => {
  const other = await view.server.connect('elsewhere')
  await view.leader.send('snapshot', [file('/d/f', old)])
  await other.realtime(file('/d/f', old + 1))
  await view.leader.completeAudit('a1', ['/d'], file('/d/f', old + 1))
  const { children } = (await node('/d')) ?? {}
  expect(children).toMatchObject([
    { path: '/d/f', last_agent_id: 'elsewhere', source_uri: '/mnt/elsewhere', agent_missing: false },
  ])
})
