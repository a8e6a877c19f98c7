/**
 * Tests that queries and changes of large trees yield the event loop, so that heartbeats and other views continue. The tests
 * count how often the work yielded, which does not depend on the speed of the machine. With BELLWETHER_LARGE=1000000 the trees
 * have a million entries, and the longest processor time between two turns of the event loop is printed (docs/guides/view.md).
 */
import type * as Timers from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { none } from '../../src/view/tree/tree.js'
import { directory, openViewServer, type ViewServer, type Sensor } from './pipe-client.js'

/** How often work gave the event loop to others. */
const yields = vi.hoisted(() => ({ count: 0 }))
vi.mock('node:timers/promises', async (importOriginal) => {
  const original = await importOriginal<typeof Timers>()
  const setImmediate: typeof original.setImmediate = (...values) => {
    yields.count += 1
    return original.setImmediate(...values)
  }
  return { ...original, setImmediate }
})

const isMeasuring = process.env['BELLWETHER_LARGE'] !== undefined
const entries = Number(process.env['BELLWETHER_LARGE'] ?? 60_000)

let server: ViewServer
let sensor: Sensor
beforeEach(async () => {
  server = await openViewServer({ v: { live: false }, other: {} })
  sensor = await server.connect('host', { source: 'one', timeoutSeconds: 100_000 })
  await sensor.snapshot(directory('/big'))
})
afterEach(() => server.close())

const treeOf = (source: string) => server.fusion.view('v').sources.get(source)!.tree
function fill(source: string, pathOf: (i: number) => string, count = entries): void {
  const tree = treeOf(source)
  for (let i = 0; i < count; i += 1) tree.put(pathOf(i), { isDirectory: false, size: i, modifiedTime: 1_000 + i })
}
const nested = (i: number) => `/big/d${Math.floor(i / 1_000)}/s${Math.floor(i / 250) % 4}/f${(i * 7_919) % entries}`

/** Runs it with heartbeats of another view beside it; returns how often it yielded the event loop. */
async function countYields<T>(run: () => Promise<T>): Promise<{ readonly result: T; readonly yielded: number }> {
  const other = await server.connect('calm', { view: 'other', timeoutSeconds: 100_000 })
  let [longestMs, beats, isOver] = [0, 0, false]
  const beating = (async () => {
    while (!isOver) {
      expect((await other.heartbeat()).status).toBe(200)
      beats += 1
    }
  })()
  let before = process.cpuUsage()
  const tick = () => {
    const { user, system } = process.cpuUsage(before)
    longestMs = Math.max(longestMs, (user + system) / 1_000)
    before = process.cpuUsage()
    if (!isOver) setImmediate(tick)
  }
  if (isMeasuring) setImmediate(tick)
  try {
    const start = yields.count
    const result = await run()
    return { result, yielded: yields.count - start }
  } finally {
    isOver = true
    await beating
    if (isMeasuring) process.stderr.write(`${Math.round(longestMs)} ms, ${beats} heartbeats\n`)
  }
}

describe('the event loop', () => {
  it('[V6.9] [V1.5] a comparison of two equal trees yields the event loop', async () => {
    const second = await server.connect('second', { source: 'two', timeoutSeconds: 100_000 })
    await second.snapshot(directory('/big'))
    for (const source of ['one', 'two']) fill(source, nested)
    const { result, yielded } = await countYields(() => server.get('/views/v/diff?left=one&right=two'))
    expect(result.body).toMatchObject({ differences: [], truncated: false })
    expect(yielded).toBeGreaterThanOrEqual(Math.floor(entries / 10_000))
  })

  it('[V1.5] the deletion of a large directory frees no memory at once but in later steps', async () => {
    fill('one', nested)
    const full = treeOf('one').bytes
    await countYields(() => sensor.deleted('/big'))
    const tree = treeOf('one')
    expect(tree.bytes).toBe(full)
    expect([tree.count, tree.find('/big'), tree.changesSince(tree.token()).freshInstance]).toEqual([0, none, false])
    expect((await server.get('/views/v/search?pattern=f1*&source=one')).body['count']).toBe(0)
    // New entries use the same tree before the memory is free.
    await sensor.realtime(directory('/big'), directory('/big/d0'))
    expect(tree.count).toBe(2)
    for (let left = entries; left > 0; left -= 10_000) server.fusion.step()
    for (let i = 0; i < 20; i += 1) server.fusion.step()
    // A tree of a few entries has pages for some thousands.
    expect(tree.bytes).toBeLessThan(4_500_000)
    expect(tree.pathOf(tree.find('/big/d0'))).toBe('/big/d0')
  })

  it('[V6.6] [V1.5] an audit that finds everything missing yields the event loop', async () => {
    fill('one', nested)
    await sensor.startAudit('a')
    await sensor.send('audit', [directory('/'), { ...directory('/'), scan_complete: true }], {
      metadata: { audit_id: 'a' },
    })
    const { yielded } = await countYields(() => sensor.endAudit('a'))
    // Listing the missing paths takes the time, and that list is bounded.
    expect(yielded).toBeGreaterThanOrEqual(Math.floor(Math.min(entries, 100_000) / 5_000))
    expect(treeOf('one').count).toBe(0)
    const { deletion_count: deletions } = (await server.get('/views/v/blind-spots?source=one')).body
    expect(deletions).toBeGreaterThanOrEqual(entries)
  })

  it('[V6.8] [V1.5] sorting and writing one huge directory yields the event loop', async () => {
    fill('one', (i) => `/big/${(i * 7_919) % entries}`)
    const { result, yielded } = await countYields(() => server.get('/views/v/tree?path=/big&only_path=1&source=one'))
    expect(yielded).toBeGreaterThanOrEqual(Math.floor(entries / 5_000))
    const paths = result.body.children!.map(({ path }) => String(path))
    expect(paths.length).toBe(entries)
    expect(paths.every((path, i) => i === 0 || paths[i - 1]! < path)).toBe(true)
  })

  it('[V6.8] [V1.5] a search without results yields the event loop', async () => {
    // A search yields after every 65,536 entries.
    const count = Math.max(entries, 400_000)
    fill('one', (i) => `/big/d${Math.floor(i / 1_000)}/f${i}`, count)
    const { result, yielded } = await countYields(() => server.get('/views/v/search?pattern=no-such-name-*&source=one'))
    expect(result.body).toMatchObject({ count: 0, truncated: false })
    expect(yielded).toBeGreaterThanOrEqual(1)
  })
})
