/** Tests tombstones, suspects, blind spots, audits and clocks over real HTTP. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  directory,
  file,
  old,
  openViewServer,
  scanned,
  type Body,
  type ViewServer,
  type Sensor,
} from './pipe-client.js'

let server: ViewServer
let leader: Sensor
beforeEach(async () => {
  server = await openViewServer()
  leader = await server.connect('leader', { timeoutSeconds: 100_000 })
  await leader.snapshot(directory('/d'))
})
afterEach(() => server.close())

const nowSeconds = () => server.clock.wallMs() / 1_000
const node = async (path: string): Promise<Body | undefined> => {
  const answer = await server.get(`/views/v/tree?path=${encodeURIComponent(path)}`)
  return answer.status === 404 ? undefined : answer.body
}
const isThere = async (path: string) => (await node(path)) !== undefined
const blind = async () => (await server.get('/views/v/blind-spots')).body
const stats = async () => (await server.get('/views/v/stats')).body

describe('tombstones', () => {
  it('[V6.3] old scan rows do not recreate a deleted file, and a newer file is a new file', async () => {
    await leader.realtime(file('/d/f', old))
    await leader.deleted('/d/f')
    await leader.send('snapshot', [file('/d/f', old)])
    await leader.completeAudit('a1', ['/d'], file('/d/f', old))
    await leader.send('on_demand_job', [file('/d/f', old)])
    expect(await isThere('/d/f')).toBe(false)
    await leader.completeAudit('a2', ['/d'], file('/d/f', nowSeconds() + 1))
    expect(await isThere('/d/f')).toBe(true)
    expect((await stats())['tombstone_count']).toBe(0)
  })

  it('[V6.3] old scan rows do not recreate files of a deleted directory', async () => {
    await leader.realtime(directory('/d/sub'), file('/d/sub/f', old))
    await leader.deleted('/d/sub')
    await leader.send('snapshot', [file('/d/sub/f', old), directory('/d/sub', old)])
    expect(await isThere('/d/sub')).toBe(false)
    await leader.send('snapshot', [directory('/d/sub', nowSeconds() + 1), file('/d/sub/f', old)])
    expect(await isThere('/d/sub/f')).toBe(true)
  })

  it('[V6.3] a file dated 2050 stays deleted', async () => {
    const in2050 = 2_524_608_000
    await leader.realtime(file('/d/f', in2050))
    await leader.deleted('/d/f')
    await leader.completeAudit('a1', ['/d'], file('/d/f', in2050))
    expect(await isThere('/d/f')).toBe(false)
  })

  it('[V6.3] the end of an audit drops tombstones that are older than one hour and older than the audit', async () => {
    await leader.deleted('/d/f')
    await leader.startAudit('a1')
    await server.clock.advance(1_800_000)
    await leader.endAudit('a1')
    expect((await stats())['tombstone_count']).toBe(1)
    await leader.startAudit('a2')
    await server.clock.advance(1_900_000)
    await leader.endAudit('a2', false)
    expect((await stats())['tombstone_count']).toBe(0)
  })

  it('[V6.3] a realtime row that arrives twice or late changes nothing', async () => {
    await leader.send('realtime', [file('/d/f')], { metadata: { seq: 1 } })
    await leader.send('realtime', [{ path: '/d/f' }], { type: 'delete', metadata: { seq: 2 } })
    const again = await leader.send('realtime', [file('/d/f')], { metadata: { seq: 1 } })
    expect(again.body).toMatchObject({ status: 'ok', stale: true, count: 0 })
    expect(await isThere('/d/f')).toBe(false)
  })
})

describe('suspects', () => {
  it('[V6.4] a partial write marks a suspect and an atomic write clears it', async () => {
    await leader.realtime(file('/d/f', old, { is_atomic_write: false }))
    expect((await node('/d/f'))?.['integrity_suspect']).toBe(true)
    await leader.realtime(file('/d/f', old + 1, { is_atomic_write: true }))
    expect((await node('/d/f'))?.['integrity_suspect']).toBe(false)
    expect((await stats())['suspect_file_count']).toBe(0)
  })

  it('[V6.4] scans mark hot files as suspects; at expiry a stable mtime clears them and a changed one renews them', async () => {
    await leader.send('snapshot', [file('/d/stable', nowSeconds() - 20), file('/d/cold', nowSeconds() - 61)])
    await leader.send('audit', [file('/d/busy', nowSeconds() - 20)])
    expect((await stats())['suspect_file_count']).toBe(2)
    await leader.send('snapshot', [file('/d/busy', nowSeconds() - 10)])
    await server.pass(41)
    expect((await server.get('/views/v/suspect-list')).body).toMatchObject({
      count: 1,
      suspects: [{ path: '/d/busy' }],
    })
    await server.pass(70)
    expect((await stats())['suspect_file_count']).toBe(0)
    expect((await node('/d/busy'))?.['integrity_suspect']).toBe(false)
  })

  it('[V6.4] a delete clears the suspect', async () => {
    await leader.realtime(file('/d/f', old, { is_atomic_write: false }))
    await leader.deleted('/d')
    expect((await server.get('/views/v/suspect-list')).body).toMatchObject({ count: 0, suspects: [] })
  })

  const report = (...updates: readonly object[]) =>
    leader.request('POST', '/pipe/consistency/sentinel/feedback', { type: 'suspect_update', updates })

  it('[V6.4] a sentinel gets the suspects; its report renews changed ones and clears unchanged ones after their threshold', async () => {
    await leader.realtime(file('/d/f', old, { is_atomic_write: false }), file('/d/g', old, { is_atomic_write: false }))
    const tasks = (await leader.request('GET', '/pipe/consistency/sentinel/tasks')).body
    expect(tasks).toMatchObject({ type: 'suspect_check', source_id: 'default' })
    expect(tasks.paths?.toSorted()).toEqual(['/d/f', '/d/g'])
    await server.clock.advance(59_000)
    const saw = await report(
      { path: '/d/f', mtime: old, size: 10, status: 'exists' },
      { path: '/d/g', mtime: old + 5, size: 10, status: 'exists' },
      { path: '/d/nobody', mtime: 1, size: 1, status: 'exists' },
    )
    expect(saw.body).toMatchObject({ status: 'processed', cleared: 0, renewed: 1 })
    expect((await node('/d/f'))?.['integrity_suspect']).toBe(true)
    await server.clock.advance(1_000)
    expect((await report({ path: '/d/f', mtime: old, size: 10, status: 'exists' })).body).toMatchObject({ cleared: 1 })
    expect((await server.get('/views/v/suspect-list')).body).toMatchObject({
      count: 1,
      suspects: [{ path: '/d/g', mtime: old + 5 }],
    })
    await server.clock.advance(59_000)
    const put = await server.call('PUT', '/views/v/suspect-list', {
      updates: [{ path: '/d/g', current_mtime: old + 5 }],
    })
    expect(put.body).toMatchObject({ cleared: 1 })
    expect((await leader.request('GET', '/pipe/consistency/sentinel/tasks')).body).toEqual({})
  })

  it('[V6.4] the list for a sentinel fits into a response, however long the paths are', async () => {
    const deep = `/${'\udcff'.repeat(255)}`.repeat(14)
    for (let from = 0; from < 400; from += 100)
      await leader.realtime(
        ...Array.from({ length: 100 }, (_, at) => file(`${deep}/${from + at}`, old, { is_atomic_write: false })),
      )
    expect((await stats())['suspect_file_count']).toBe(400)
    const tasks = await leader.request('GET', '/pipe/consistency/sentinel/tasks')
    expect(tasks.text.length).toBeLessThan(8 * 1_024 * 1_024)
    expect(tasks.body.paths!.length).toBeGreaterThan(200)
  })

  it('[V6.4] a sentinel report updates mtime and size; without a size the view requests a scan', async () => {
    await leader.realtime(file('/d/f', old, { is_atomic_write: false }))
    await report({ path: '/d/f', mtime: old + 5, size: 7, status: 'exists' })
    expect(await node('/d/f')).toMatchObject({ size: 7, modified_time: old + 5 })
    await report({ path: '/d/f', mtime: old + 5, size: 8, status: 'exists' })
    expect(await node('/d/f')).toMatchObject({ size: 8, integrity_suspect: true })
    expect(await leader.commands()).toEqual([])
    await report({ path: '/d/f', mtime: old + 6, status: 'exists' })
    expect(await leader.commands()).toMatchObject([{ type: 'scan', path: '/d/f' }])
  })
})

describe('blind spots', () => {
  it('[V6.5] [V6.2] an audit marks changes that no sensor reported as blind spots, and realtime clears them', async () => {
    await leader.realtime(file('/d/known'), file('/d/lost'))
    await leader.completeAudit('a1', ['/d'], file('/d/known'), file('/d/silent'))
    expect(await blind()).toEqual({
      additions_count: 1,
      additions: ['/d/silent'],
      deletion_count: 1,
      deletions: ['/d/lost'],
    })
    expect((await stats())['has_blind_spot']).toBe(true)
    expect((await node('/d/silent'))?.['agent_missing']).toBe(true)
    expect((await node('/d/known'))?.['agent_missing']).toBe(false)
    await leader.realtime(file('/d/silent'), file('/d/lost'))
    expect(await blind()).toMatchObject({ additions_count: 0, deletion_count: 0 })
    expect((await node('/d/silent'))?.['agent_missing']).toBe(false)
  })

  it('[V6.5] a changed mtime is a blind spot; seeing a deleted file again or deleting it clears the mark', async () => {
    await leader.realtime(file('/d/f', old), file('/d/g', old))
    await leader.completeAudit('a1', ['/d'], file('/d/f', old + 9))
    expect(await blind()).toMatchObject({ additions: ['/d/f'], deletions: ['/d/g'] })
    await leader.completeAudit('a2', ['/d'], file('/d/f', old + 9), file('/d/g', old))
    expect(await blind()).toMatchObject({ deletion_count: 0 })
    await leader.completeAudit('a3', ['/d'], file('/d/f', old + 9))
    expect(await blind()).toMatchObject({ additions: ['/d/f'], deletions: ['/d/g'] })
    await leader.deleted('/d/f', '/d/g')
    expect(await blind()).toMatchObject({ additions_count: 0, deletion_count: 0 })
  })

  it('[V6.5] on-demand rows mark blind spots and never clear them', async () => {
    await leader.send('on_demand_job', [file('/d/f')])
    await leader.send('on_demand_job', [file('/d/f')])
    expect(await blind()).toMatchObject({ additions: ['/d/f'] })
    await leader.send('snapshot', [file('/d/f', old + 1)])
    expect(await blind()).toMatchObject({ additions: ['/d/f'] })
  })

  it('[V6.5] a new session clears all blind spots', async () => {
    await leader.send('audit', [file('/d/f')])
    expect((await blind())['additions_count']).toBe(1)
    await server.connect('another')
    expect(await blind()).toMatchObject({ additions_count: 0, additions: [] })
  })
})

describe('audits', () => {
  it('[V2.2] records the start of an audit, and only its end deletes missing entries', async () => {
    await leader.realtime(file('/d/f'))
    await server.clock.advance(1_000)
    await leader.startAudit('a1')
    expect(await stats()).toMatchObject({ is_auditing: true, last_audit_start: nowSeconds(), audit_cycle_count: 0 })
    await leader.audit('a1', directory('/d'), scanned('/d'))
    expect(await isThere('/d/f')).toBe(true)
    await leader.endAudit('a1')
    expect(await isThere('/d/f')).toBe(false)
    expect(await stats()).toMatchObject({
      is_auditing: false,
      last_audit_finished_at: nowSeconds(),
      audit_cycle_count: 1,
    })
  })

  it('[V2.2] an entry that one audit saw and the next did not is deleted', async () => {
    await leader.completeAudit('a1', ['/d'], file('/d/f'), file('/d/g'))
    await leader.completeAudit('a2', ['/d'], file('/d/f'))
    expect(await Promise.all(['/d/f', '/d/g'].map(isThere))).toEqual([true, false])
    await leader.completeAudit('a3', ['/d'])
    expect(await isThere('/d/f')).toBe(false)
  })

  it('[V2.2] an incomplete audit deletes nothing', async () => {
    await leader.realtime(file('/d/f'))
    await leader.startAudit('a1')
    await leader.audit('a1', directory('/d'), scanned('/d'))
    await leader.endAudit('a1', false)
    expect(await isThere('/d/f')).toBe(true)
    await leader.startAudit('a2')
    await leader.audit('a2', directory('/d'), scanned('/d'))
    await leader.send('audit', [], { isEnd: true, metadata: { audit_id: 'a2' } })
    expect(await isThere('/d/f')).toBe(true)
  })

  it('[V6.6] a directory that was not listed in full, was skipped or was not reported keeps its entries', async () => {
    await leader.realtime(
      ...['/open', '/silent', '/unseen'].flatMap((path) => [directory(path), file(`${path}/f`)]),
      file('/d/f'),
    )
    await leader.startAudit('a1')
    await leader.audit(
      'a1',
      directory('/open'),
      directory('/silent', old, { audit_skipped: true }),
      scanned('/silent'),
      directory('/d'),
      scanned('/d'),
    )
    await leader.endAudit('a1')
    expect(await Promise.all(['/open/f', '/silent/f', '/unseen/f', '/d/f'].map(isThere))).toEqual([
      true,
      true,
      true,
      false,
    ])
    expect((await node('/silent'))?.['audit_skipped']).toBe(true)
  })

  it('[V6.6] a file copied with cp -p during the audit survives it', async () => {
    await leader.startAudit('a1')
    await leader.audit('a1', directory('/d'), scanned('/d'))
    await leader.realtime(file('/d/copied', old - 1_000_000))
    await leader.endAudit('a1')
    expect(await isThere('/d/copied')).toBe(true)
  })

  it('[V6.6] a missing directory is deleted with everything below it unless an entry below was updated during the audit', async () => {
    await leader.realtime(directory('/gone'), file('/gone/a'), directory('/updated'), file('/updated/deep/b'))
    await leader.startAudit('a1')
    await leader.realtime(file('/updated/deep/new'))
    await leader.audit('a1', directory('/'), directory('/d'), scanned('/'))
    await leader.endAudit('a1')
    expect(await Promise.all(['/gone/a', '/gone', '/updated/deep/b'].map(isThere))).toEqual([false, false, true])
  })

  it('[V6.6] newer memory wins over an audit row, and an unknown file is dropped if its directory is newer in memory', async () => {
    await leader.realtime(directory('/d', old + 100), file('/d/f', old + 50))
    await leader.startAudit('a1')
    await leader.audit('a1', file('/d/f', old + 40), file('/d/x', old, { parent_path: '/d', parent_mtime: old + 99 }))
    await leader.endAudit('a1', false)
    expect((await node('/d/f'))?.['modified_time']).toBe(old + 50)
    expect(await isThere('/d/x')).toBe(false)
  })

  it('[V6.6] a settling scan decides where an audit contradicts memory', async () => {
    await leader.realtime(file('/d/restored', old + 100, { size: 5 }))
    await leader.deleted('/d/moved-back')
    await leader.commands()
    await leader.completeAudit('a1', ['/d'], file('/d/restored', old, { size: 9 }), file('/d/moved-back', old))
    expect((await node('/d/restored'))?.['size']).toBe(5)
    const commands = await leader.commands()
    expect(commands.map(({ type, path }) => [type, path])).toEqual([
      ['scan', '/d/restored'],
      ['scan', '/d/moved-back'],
    ])
    for (const { job_id: id, path } of commands) {
      const row = path === '/d/restored' ? file('/d/restored', old, { size: 9 }) : file('/d/moved-back', old)
      await leader.send('on_demand_job', [row], { metadata: { job_id: id } })
      await leader.send('on_demand_job', [], { sourceType: 'job_complete', metadata: { job_id: id } })
    }
    expect(await node('/d/restored')).toMatchObject({ size: 9, modified_time: old })
    expect(await isThere('/d/moved-back')).toBe(true)
  })

  it('[V6.6] an audit that read an older directory than memory has deletes nothing in it, and the reporting sensor settles it', async () => {
    const other = await server.connect('other', { timeoutSeconds: 100_000 })
    await other.heartbeat()
    await leader.realtime(file('/d/gone', old))
    await other.realtime(file('/d/new', old + 100), directory('/d', old + 100))
    await leader.commands()
    await leader.completeAudit('a1', ['/d'])
    expect(await isThere('/d/new')).toBe(true)
    expect((await blind())['deletion_count']).toBe(0)
    expect(await leader.commands()).toEqual([])
    const [scan] = await other.commands()
    expect(scan).toMatchObject({ type: 'scan', path: '/d', recursive: false })
    const rows = [directory('/d', old + 100), file('/d/new', old + 100), { ...scanned('/d'), modified_time: old + 100 }]
    await other.send('on_demand_job', rows, { metadata: { job_id: scan!.job_id } })
    await other.send('on_demand_job', [], { sourceType: 'job_complete', metadata: { job_id: scan!.job_id } })
    expect(await Promise.all(['/d/new', '/d/gone'].map(isThere))).toEqual([true, false])
    await leader.completeAudit('a2', [], directory('/d', old + 100, { audit_skipped: true }))
    expect(await other.commands()).toEqual([])
  })

  it('[V6.6] the leader settles the dispute if the reporting sensor is gone', async () => {
    const other = await server.connect('other', { timeoutSeconds: 100_000 })
    await other.realtime(file('/d/new', old + 100), directory('/d', old + 100))
    await other.end()
    await leader.completeAudit('a1', ['/d'])
    expect(await isThere('/d/new')).toBe(true)
    const [scan] = (await leader.commands()).filter(({ path }) => path === '/d')
    await leader.send('on_demand_job', [directory('/d'), scanned('/d')], { metadata: { job_id: scan!.job_id } })
    await leader.send('on_demand_job', [], { sourceType: 'job_complete', metadata: { job_id: scan!.job_id } })
    expect(await isThere('/d/new')).toBe(false)
  })

  it('[V2.3] closes an audit without an end after two intervals with a warning and deletes nothing', async () => {
    await leader.realtime(file('/d/f'))
    await leader.startAudit('a1')
    await leader.audit('a1', directory('/d'), scanned('/d'))
    await server.pass(1_999)
    expect((await stats())['is_auditing']).toBe(true)
    await server.pass(3)
    expect((await stats())['is_auditing']).toBe(false)
    expect(server.lines.filter(({ level, message }) => level === 'warn' && message.includes('abandoned'))).toHaveLength(
      1,
    )
    expect((await leader.endAudit('a1')).body['status']).toBe('ignored')
    expect(await isThere('/d/f')).toBe(true)
  })

  it('[V2.2] a demoted leader can neither add to nor end the audit of the new leader', async () => {
    await leader.realtime(file('/d/f'))
    const next = await server.connect('next', { timeoutSeconds: 100_000 })
    await leader.startAudit('a1')
    await leader.audit('a1', directory('/d'), scanned('/d'))
    await leader.end()
    expect((await stats())['is_auditing']).toBe(false)
    await next.startAudit('a2')
    const late = [await leader.audit('a2', directory('/d'), scanned('/d')), await leader.endAudit('a2')]
    expect(late.map(({ status }) => status)).toEqual([419, 419])
    const wrong = await next.audit('a1', directory('/d'), scanned('/d'))
    expect(wrong.body).toMatchObject({ status: 'ignored', count: 0 })
    expect((await next.endAudit('a1')).body['status']).toBe('ignored')
    expect((await stats())['is_auditing']).toBe(true)
    await next.endAudit('a2')
    expect(await isThere('/d/f')).toBe(true)
  })

  it('[V2.2] does not apply rows that were queued when their session ended', async () => {
    const next = await server.connect('next', { timeoutSeconds: 100_000 })
    await leader.startAudit('a1')
    const { pipe } = server.fusion.view('v').sources.get('default')!
    let go = () => {}
    const busy = pipe.runExclusive(
      () =>
        new Promise<void>((resolve) => {
          go = resolve
        }),
    )
    const late = [leader.audit('a1', file('/d/late')), leader.realtime(file('/d/later'))]
    await server.get('/views/v/sessions')
    await leader.end()
    go()
    await busy
    expect((await Promise.all(late)).map(({ status }) => status)).toEqual([419, 419])
    expect(await Promise.all(['/d/late', '/d/later'].map(isThere))).toEqual([false, false])
    expect((await next.heartbeat()).body['role']).toBe('leader')
  })

  it('[V2.2] accepts an audit without session and audit id: the leader’s end is complete', async () => {
    await leader.realtime(file('/d/f'), file('/d/g'))
    expect((await leader.request('POST', '/pipe/consistency/audit/start')).body).toMatchObject({
      status: 'audit_started',
    })
    await leader.send('audit', [directory('/d'), file('/d/g')])
    expect((await leader.request('POST', '/pipe/consistency/audit/end')).body).toEqual({ status: 'audit_ended' })
    expect(await Promise.all(['/d/f', '/d/g'].map(isThere))).toEqual([false, true])
  })

  it('[V6.6] a file with an invalid row does not count as missing', async () => {
    await leader.realtime(file('/d/f'))
    await leader.startAudit('a1')
    const answer = await leader.send(
      'audit',
      [directory('/d'), { path: '/d/f', size: -1, modified_time: 5 }, scanned('/d')],
      { metadata: { audit_id: 'a1' } },
    )
    expect(answer.body['rejected']).toBe(1)
    await leader.endAudit('a1')
    expect(await isThere('/d/f')).toBe(true)
  })
})

describe('clocks', () => {
  it('[V6.7] the logical clock follows realtime rows only, and a file dated 2050 does not move it', async () => {
    expect((await stats())['logical_now']).toBe(nowSeconds())
    const skewed = nowSeconds() - 7_200
    await leader.realtime(...Array.from({ length: 20 }, (_, i) => file(`/d/${i}`, skewed)))
    expect((await stats())['logical_now']).toBe(skewed)
    await leader.realtime(file('/d/future', 2_524_608_000))
    await leader.send(
      'snapshot',
      Array.from({ length: 50 }, (_, i) => file(`/d/s${i}`, nowSeconds())),
    )
    await leader.send(
      'audit',
      Array.from({ length: 50 }, (_, i) => file(`/d/a${i}`, nowSeconds())),
    )
    expect((await stats())['logical_now']).toBe(skewed)
  })

  it('[V6.7] [V6.4] with a file server two hours behind, its clock decides which files are hot', async () => {
    const skewed = nowSeconds() - 7_200
    await leader.realtime(...Array.from({ length: 5 }, (_, i) => file(`/d/${i}`, skewed)))
    await leader.send('snapshot', [file('/d/hot', skewed - 5), file('/d/cold', skewed - 100)])
    expect((await node('/d/hot'))?.['integrity_suspect']).toBe(true)
    expect((await node('/d/cold'))?.['integrity_suspect']).toBe(false)
  })

  it('[V6.2] sensors whose clocks differ by hours do not override each other', async () => {
    const other = await server.connect('other', { timeoutSeconds: 100_000 })
    const at = server.clock.wallMs()
    await leader.send('realtime', [file('/d/f', old)], { index: at + 7_200_000 })
    await other.send('realtime', [file('/d/warm-up', old)], { index: at - 7_200_000 })
    await server.clock.advance(1_000)
    await other.send('realtime', [file('/d/f', old - 50, { size: 3 })], { index: at - 7_200_000 + 1_000 })
    expect(await node('/d/f')).toMatchObject({ size: 3, last_agent_id: 'other' })
  })
})

it('[V6.1] hosts with different mount points report the same path in realtime, snapshot and audit', async () => {
  const other = await server.connect('elsewhere')
  await leader.send('snapshot', [file('/d/f', old)])
  await other.realtime(file('/d/f', old + 1))
  await leader.completeAudit('a1', ['/d'], file('/d/f', old + 1))
  const { children } = (await node('/d')) ?? {}
  expect(children).toMatchObject([
    { path: '/d/f', last_agent_id: 'elsewhere', source_uri: '/mnt/elsewhere', agent_missing: false },
  ])
})
