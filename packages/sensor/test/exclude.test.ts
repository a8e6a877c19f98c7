/** Tests that excluded paths are never reported, by snapshot, audit, on-demand scan or realtime events. */
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { afterEach, describe, expect, it } from 'vitest'
import { barrier, openFixture, until, type Fixture } from './support/fixture.js'

describe.each([
  ['inotify', true],
  ['polling', false],
])('excluded, with %s', (_kind, native) => {
  let fixture: Fixture
  afterEach(() => fixture.end())

  it('never reports an excluded path', async () => {
    fixture = await openFixture()
    const { server } = fixture
    const at = (path: string) => fixture.at(path)
    for (const folder of ['.git/objects', 'a/node_modules/x', 'src']) mkdirSync(at(folder), { recursive: true })
    for (const file of ['.git/HEAD', 'a/node_modules/x/index.js', 'src/main.ts', 'src/main.tmp'])
      writeFileSync(at(file), 'x')
    const sensor = fixture.sensor({
      native,
      pollSeconds: 0.1,
      exclude: ['.git', 'node_modules', '*.tmp', '/data/live'],
    })
    await until('settled', () => server.snapshots > 0 && server.audits.length > 0 && sensor.watcher.isWatching())
    mkdirSync(at('data/live'), { recursive: true })
    writeFileSync(at('data/live/1'), 'x')
    writeFileSync(at('data/seen'), 'x')
    writeFileSync(at('src/late.tmp'), 'x')
    rmSync(at('src/main.tmp'))
    // Moves from a reported path to an excluded one, and back.
    renameSync(at('src/main.ts'), at('.git/main.ts'))
    renameSync(at('a/node_modules'), at('a/modules'))
    await barrier(server)
    server.command({ type: 'audit' })
    await until('a second audit', () => server.audits.length > 1)
    await barrier(server)
    const reported = ['/a', '/a/modules', '/a/modules/x', '/a/modules/x/index.js', '/data', '/data/seen', '/src']
    expect([...server.tree.keys()].filter((path) => path !== '/').toSorted()).toEqual(reported)
    const named = JSON.stringify(server.of('POST ingest/:id/events'))
    expect(named).not.toMatch(/\.git|node_modules|\.tmp|live/)
  })
})

it('startSensor rejects an invalid glob', async () => {
  const fixture = await openFixture()
  try {
    expect(() => fixture.sensor({ exclude: ['!keep'] })).toThrow(expect.objectContaining({ code: 'invalid_exclude' }))
  } finally {
    await fixture.end()
  }
})
