/** Tests that a dispute stays open until a scan succeeds, however often scans fail. */
import { describe, expect, it } from 'vitest'
import { directory, file, old, viewPerTest } from './pipe-client.js'

const view = viewPerTest()

const complete = (id: unknown, metadata: Record<string, unknown> = {}) =>
  view.leader.send('on_demand_job', [], { sourceType: 'job_complete', metadata: { job_id: id, ...metadata } })
const scanCommands = async () =>
  (await view.leader.commands()).map(({ path, recursive, job_id: id }) => ({ path, recursive, id }))
/** From now on audits skip the directory, so none reports the file again. */
const skippingAudit = (id: string) => view.leader.completeAudit(id, [], directory('/d', old, { audit_skipped: true }))

describe('a settling scan', () => {
  it('[V6.6] a failed settling scan is repeated after the next audit', async () => {
    await view.leader.realtime(file('/d/f', old + 100, { size: 5 }))
    await view.leader.commands()
    await view.leader.completeAudit('a1', ['/d'], file('/d/f', old, { size: 9 }))
    const [first] = await scanCommands()
    await complete(first!.id, { complete: false, error: 'the disk did not answer' })
    await skippingAudit('a2')
    const [second] = await scanCommands()
    expect(second).toMatchObject({ path: '/d/f', recursive: false })
    await view.leader.send('on_demand_job', [file('/d/f', old, { size: 9 })], { metadata: { job_id: second!.id } })
    await complete(second!.id)
    expect((await view.server.get('/views/v/tree?path=/d/f')).body).toMatchObject({ size: 9, modified_time: old })
    await skippingAudit('a3')
    expect(await scanCommands()).toEqual([])
  })

  it('[V6.6] too many disputed paths become one full scan, which is repeated if it fails', async () => {
    const rows = (size: number, mtime: number) => Array.from({ length: 70 }, (_, i) => file(`/d/${i}`, mtime, { size }))
    await view.leader.realtime(...rows(5, old + 100))
    await view.leader.commands()
    await view.leader.completeAudit('a1', ['/d'], ...rows(9, old))
    const first = await scanCommands()
    expect(first).toMatchObject([{ path: '/', recursive: true }])
    await complete(first[0]!.id, { complete: false })
    await skippingAudit('a2')
    const second = await scanCommands()
    expect(second).toMatchObject([{ path: '/', recursive: true }])
    await view.leader.send('on_demand_job', rows(9, old), { metadata: { job_id: second[0]!.id } })
    await complete(second[0]!.id)
    expect((await view.server.get('/views/v/tree?path=/d/69')).body).toMatchObject({ size: 9 })
  })
})
