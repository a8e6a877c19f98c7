/** What evidence disagreed about stays open until somebody has looked, however often looking fails. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { file, old, openDesk, directory, type Desk, type Sensor } from './pipe-client.js'

let desk: Desk
let leader: Sensor
beforeEach(async () => {
  desk = await openDesk()
  leader = await desk.connect('leader', { timeoutSeconds: 100_000 })
  await leader.snapshot(directory('/d'))
})
afterEach(() => desk.close())

const complete = (id: unknown, metadata: Record<string, unknown> = {}) =>
  leader.send('on_demand_job', [], { sourceType: 'job_complete', metadata: { job_id: id, ...metadata } })
const asked = async () => (await leader.commands()).map(({ path, recursive, job_id: id }) => ({ path, recursive, id }))
/** The directory is silent from now on: no audit will tell of the file again. */
const silentAudit = (id: string) => leader.wholeAudit(id, [], directory('/d', old, { audit_skipped: true }))

describe('a scan that was to settle something', () => {
  it('[V6.6] and failed is asked for again after the next audit', async () => {
    await leader.realtime(file('/d/f', old + 100, { size: 5 }))
    await leader.commands()
    await leader.wholeAudit('a1', ['/d'], file('/d/f', old, { size: 9 }))
    const [first] = await asked()
    await complete(first!.id, { complete: false, error: 'the disk did not answer' })
    await silentAudit('a2')
    const [second] = await asked()
    expect(second).toMatchObject({ path: '/d/f', recursive: false })
    await leader.send('on_demand_job', [file('/d/f', old, { size: 9 })], { metadata: { job_id: second!.id } })
    await complete(second!.id)
    expect((await desk.get('/views/v/tree?path=/d/f')).body).toMatchObject({ size: 9, modified_time: old })
    await silentAudit('a3')
    expect(await asked()).toEqual([])
  })

  it('[V6.6] of too many paths is one scan of everything, and that one too is asked for again when it fails', async () => {
    const rows = (size: number, mtime: number) => Array.from({ length: 70 }, (_, i) => file(`/d/${i}`, mtime, { size }))
    await leader.realtime(...rows(5, old + 100))
    await leader.commands()
    await leader.wholeAudit('a1', ['/d'], ...rows(9, old))
    const first = await asked()
    expect(first).toMatchObject([{ path: '/', recursive: true }])
    await complete(first[0]!.id, { complete: false })
    await silentAudit('a2')
    const second = await asked()
    expect(second).toMatchObject([{ path: '/', recursive: true }])
    await leader.send('on_demand_job', rows(9, old), { metadata: { job_id: second[0]!.id } })
    await complete(second[0]!.id)
    expect((await desk.get('/views/v/tree?path=/d/69')).body).toMatchObject({ size: 9 })
  })
})
