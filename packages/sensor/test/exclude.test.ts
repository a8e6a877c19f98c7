/** What is excluded is never told: not by the snapshot, the audit or a scan on demand, and not as it happens. */
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { afterEach, describe, expect, it } from 'vitest'
import { barrier, makeWorld, until, type World } from './support/world.js'

describe.each([
  ['inotify', true],
  ['polling', false],
])('excluded, with %s', (_kind, native) => {
  let world: World
  afterEach(() => world.end())

  it('is as if it were not there, whenever it comes', async () => {
    world = await makeWorld()
    const { fusion } = world
    const at = (path: string) => world.at(path)
    for (const folder of ['.git/objects', 'a/node_modules/x', 'src']) mkdirSync(at(folder), { recursive: true })
    for (const file of ['.git/HEAD', 'a/node_modules/x/index.js', 'src/main.ts', 'src/main.tmp'])
      writeFileSync(at(file), 'x')
    const sensor = world.sensor({ native, pollSeconds: 0.1, exclude: ['.git', 'node_modules', '*.tmp', '/data/live'] })
    await until('settled', () => fusion.snapshots > 0 && fusion.audits.length > 0 && sensor.source.isWatching())
    mkdirSync(at('data/live'), { recursive: true })
    writeFileSync(at('data/live/1'), 'x')
    writeFileSync(at('data/seen'), 'x')
    writeFileSync(at('src/late.tmp'), 'x')
    rmSync(at('src/main.tmp'))
    // From what is told to what is not, and back.
    renameSync(at('src/main.ts'), at('.git/main.ts'))
    renameSync(at('a/node_modules'), at('a/modules'))
    await barrier(fusion)
    fusion.command({ type: 'audit' })
    await until('a second audit', () => fusion.audits.length > 1)
    await barrier(fusion)
    const told = ['/a', '/a/modules', '/a/modules/x', '/a/modules/x/index.js', '/data', '/data/seen', '/src']
    expect([...fusion.tree.keys()].filter((path) => path !== '/').toSorted()).toEqual(told)
    const named = JSON.stringify(fusion.of('POST ingest/:id/events'))
    expect(named).not.toMatch(/\.git|node_modules|\.tmp|live/)
  })
})

it('a glob that is none is refused at the start', async () => {
  const world = await makeWorld()
  try {
    expect(() => world.sensor({ exclude: ['!keep'] })).toThrow(expect.objectContaining({ code: 'invalid_exclude' }))
  } finally {
    await world.end()
  }
})
