/** Tests audits over real HTTP: what they may delete, who may run them, and who settles a contradiction. */
import { describe, expect, it } from 'vitest'
import { directory, file, old, scanned, viewPerTest } from './pipe-client.js'

const view = viewPerTest()
const { blindSpots, isThere, node, nowSeconds, stats } = view

describe('audits', () => {
  it('[V2.2] records the start of an audit, and only its end deletes missing entries', async () => {
    await view.leader.realtime(file('/d/f'))
    await view.server.clock.advance(1_000)
    await view.leader.startAudit('a1')
    expect(await stats()).toMatchObject({ is_auditing: true, last_audit_start: nowSeconds(), audit_cycle_count: 0 })
    await view.leader.audit('a1', directory('/d'), scanned('/d'))
    expect(await isThere('/d/f')).toBe(true)
    await view.leader.endAudit('a1')
    expect(await isThere('/d/f')).toBe(false)
    expect(await stats()).toMatchObject({
      is_auditing: false,
      last_audit_finished_at: nowSeconds(),
      audit_cycle_count: 1,
    })
  })

  it('[V2.2] an entry that one audit saw and the next did not is deleted', async () => {
    await view.leader.completeAudit('a1', ['/d'], file('/d/f'), file('/d/g'))
    await view.leader.completeAudit('a2', ['/d'], file('/d/f'))
    expect(await Promise.all(['/d/f', '/d/g'].map(isThere))).toEqual([true, false])
    await view.leader.completeAudit('a3', ['/d'])
    expect(await isThere('/d/f')).toBe(false)
  })

  it('[V2.2] an incomplete audit deletes nothing', async () => {
    await view.leader.realtime(file('/d/f'))
    await view.leader.startAudit('a1')
    await view.leader.audit('a1', directory('/d'), scanned('/d'))
    await view.leader.endAudit('a1', false)
    expect(await isThere('/d/f')).toBe(true)
    await view.leader.startAudit('a2')
    await view.leader.audit('a2', directory('/d'), scanned('/d'))
    await view.leader.send('audit', [], { isEnd: true, metadata: { audit_id: 'a2' } })
    expect(await isThere('/d/f')).toBe(true)
  })

  it('[V6.6] a directory that was not listed in full, was skipped or was not reported keeps its entries', async () => {
    await view.leader.realtime(
      ...['/open', '/silent', '/unseen'].flatMap((path) => [directory(path), file(`${path}/f`)]),
      file('/d/f'),
    )
    await view.leader.startAudit('a1')
    await view.leader.audit(
      'a1',
      directory('/open'),
      directory('/silent', old, { audit_skipped: true }),
      scanned('/silent'),
      directory('/d'),
      scanned('/d'),
    )
    await view.leader.endAudit('a1')
    expect(await Promise.all(['/open/f', '/silent/f', '/unseen/f', '/d/f'].map(isThere))).toEqual([
      true,
      true,
      true,
      false,
    ])
    expect((await node('/silent'))?.['audit_skipped']).toBe(true)
  })

  it('[V6.6] a file copied with cp -p during the audit survives it', async () => {
    await view.leader.startAudit('a1')
    await view.leader.audit('a1', directory('/d'), scanned('/d'))
    await view.leader.realtime(file('/d/copied', old - 1_000_000))
    await view.leader.endAudit('a1')
    expect(await isThere('/d/copied')).toBe(true)
  })

  it('[V6.6] a missing directory is deleted with everything below it unless an entry below was updated during the audit', async () => {
    await view.leader.realtime(directory('/gone'), file('/gone/a'), directory('/updated'), file('/updated/deep/b'))
    await view.leader.startAudit('a1')
    await view.leader.realtime(file('/updated/deep/new'))
    await view.leader.audit('a1', directory('/'), directory('/d'), scanned('/'))
    await view.leader.endAudit('a1')
    expect(await Promise.all(['/gone/a', '/gone', '/updated/deep/b'].map(isThere))).toEqual([false, false, true])
  })

  it('[V6.6] newer memory wins over an audit row, and an unknown file is dropped if its directory is newer in memory', async () => {
    await view.leader.realtime(directory('/d', old + 100), file('/d/f', old + 50))
    await view.leader.startAudit('a1')
    await view.leader.audit(
      'a1',
      file('/d/f', old + 40),
      file('/d/x', old, { parent_path: '/d', parent_mtime: old + 99 }),
    )
    await view.leader.endAudit('a1', false)
    expect((await node('/d/f'))?.['modified_time']).toBe(old + 50)
    expect(await isThere('/d/x')).toBe(false)
  })

  it('[V6.6] a settling scan decides where an audit contradicts memory', async () => {
    await view.leader.realtime(file('/d/restored', old + 100, { size: 5 }))
    await view.leader.deleted('/d/moved-back')
    await view.leader.commands()
    await view.leader.completeAudit('a1', ['/d'], file('/d/restored', old, { size: 9 }), file('/d/moved-back', old))
    expect((await node('/d/restored'))?.['size']).toBe(5)
    const commands = await view.leader.commands()
    expect(commands.map(({ type, path }) => [type, path])).toEqual([
      ['scan', '/d/restored'],
      ['scan', '/d/moved-back'],
    ])
    for (const { job_id: id, path } of commands) {
      const row = path === '/d/restored' ? file('/d/restored', old, { size: 9 }) : file('/d/moved-back', old)
      await view.leader.send('on_demand_job', [row], { metadata: { job_id: id } })
      await view.leader.send('on_demand_job', [], { sourceType: 'job_complete', metadata: { job_id: id } })
    }
    expect(await node('/d/restored')).toMatchObject({ size: 9, modified_time: old })
    expect(await isThere('/d/moved-back')).toBe(true)
  })

  it('[V6.6] an audit that read an older directory than memory has deletes nothing in it, and the reporting sensor settles it', async () => {
    const other = await view.server.connect('other', { timeoutSeconds: 100_000 })
    await other.heartbeat()
    await view.leader.realtime(file('/d/gone', old))
    await other.realtime(file('/d/new', old + 100), directory('/d', old + 100))
    await view.leader.commands()
    await view.leader.completeAudit('a1', ['/d'])
    expect(await isThere('/d/new')).toBe(true)
    expect((await blindSpots())['deletion_count']).toBe(0)
    expect(await view.leader.commands()).toEqual([])
    const [scan] = await other.commands()
    expect(scan).toMatchObject({ type: 'scan', path: '/d', recursive: false })
    const rows = [directory('/d', old + 100), file('/d/new', old + 100), { ...scanned('/d'), modified_time: old + 100 }]
    await other.send('on_demand_job', rows, { metadata: { job_id: scan!.job_id } })
    await other.send('on_demand_job', [], { sourceType: 'job_complete', metadata: { job_id: scan!.job_id } })
    expect(await Promise.all(['/d/new', '/d/gone'].map(isThere))).toEqual([true, false])
    await view.leader.completeAudit('a2', [], directory('/d', old + 100, { audit_skipped: true }))
    expect(await other.commands()).toEqual([])
  })

  it('[V6.6] the leader settles the dispute if the reporting sensor is gone', async () => {
    const other = await view.server.connect('other', { timeoutSeconds: 100_000 })
    await other.realtime(file('/d/new', old + 100), directory('/d', old + 100))
    await other.end()
    await view.leader.completeAudit('a1', ['/d'])
    expect(await isThere('/d/new')).toBe(true)
    const [scan] = (await view.leader.commands()).filter(({ path }) => path === '/d')
    await view.leader.send('on_demand_job', [directory('/d'), scanned('/d')], { metadata: { job_id: scan!.job_id } })
    await view.leader.send('on_demand_job', [], { sourceType: 'job_complete', metadata: { job_id: scan!.job_id } })
    expect(await isThere('/d/new')).toBe(false)
  })

  it('[V2.3] closes an audit without an end after two intervals with a warning and deletes nothing', async () => {
    await view.leader.realtime(file('/d/f'))
    await view.leader.startAudit('a1')
    await view.leader.audit('a1', directory('/d'), scanned('/d'))
    await view.server.pass(1_999)
    expect((await stats())['is_auditing']).toBe(true)
    await view.server.pass(3)
    expect((await stats())['is_auditing']).toBe(false)
    expect(
      view.server.lines.filter(({ level, message }) => level === 'warn' && message.includes('abandoned')),
    ).toHaveLength(1)
    expect((await view.leader.endAudit('a1')).body['status']).toBe('ignored')
    expect(await isThere('/d/f')).toBe(true)
  })

  it('[V2.2] a demoted leader can neither add to nor end the audit of the new leader', async () => {
    await view.leader.realtime(file('/d/f'))
    const next = await view.server.connect('next', { timeoutSeconds: 100_000 })
    await view.leader.startAudit('a1')
    await view.leader.audit('a1', directory('/d'), scanned('/d'))
    await view.leader.end()
    expect((await stats())['is_auditing']).toBe(false)
    await next.startAudit('a2')
    const late = [await view.leader.audit('a2', directory('/d'), scanned('/d')), await view.leader.endAudit('a2')]
    expect(late.map(({ status }) => status)).toEqual([419, 419])
    const wrong = await next.audit('a1', directory('/d'), scanned('/d'))
    expect(wrong.body).toMatchObject({ status: 'ignored', count: 0 })
    expect((await next.endAudit('a1')).body['status']).toBe('ignored')
    expect((await stats())['is_auditing']).toBe(true)
    await next.endAudit('a2')
    expect(await isThere('/d/f')).toBe(true)
  })

  it('[V2.2] does not apply rows that were queued when their session ended', async () => {
    const next = await view.server.connect('next', { timeoutSeconds: 100_000 })
    await view.leader.startAudit('a1')
    const { pipe } = view.server.fusion.view('v').sources.get('default')!
    let go = () => {}
    const busy = pipe.runExclusive(
      () =>
        new Promise<void>((resolve) => {
          go = resolve
        }),
    )
    const late = [view.leader.audit('a1', file('/d/late')), view.leader.realtime(file('/d/later'))]
    await view.server.get('/views/v/sessions')
    await view.leader.end()
    go()
    await busy
    expect((await Promise.all(late)).map(({ status }) => status)).toEqual([419, 419])
    expect(await Promise.all(['/d/late', '/d/later'].map(isThere))).toEqual([false, false])
    expect((await next.heartbeat()).body['role']).toBe('leader')
  })

  it('[V2.2] accepts an audit without session and audit id: the leader’s end is complete', async () => {
    await view.leader.realtime(file('/d/f'), file('/d/g'))
    expect((await view.leader.request('POST', '/pipe/consistency/audit/start')).body).toMatchObject({
      status: 'audit_started',
    })
    await view.leader.send('audit', [directory('/d'), file('/d/g')])
    expect((await view.leader.request('POST', '/pipe/consistency/audit/end')).body).toEqual({ status: 'audit_ended' })
    expect(await Promise.all(['/d/f', '/d/g'].map(isThere))).toEqual([false, true])
  })

  it('[V6.6] a file with an invalid row does not count as missing', async () => {
    await view.leader.realtime(file('/d/f'))
    await view.leader.startAudit('a1')
    const response = await view.leader.send(
      'audit',
      [directory('/d'), { path: '/d/f', size: -1, modified_time: 5 }, scanned('/d')],
      { metadata: { audit_id: 'a1' } },
    )
    expect(response.body['rejected']).toBe(1)
    await view.leader.endAudit('a1')
    expect(await isThere('/d/f')).toBe(true)
  })
})
