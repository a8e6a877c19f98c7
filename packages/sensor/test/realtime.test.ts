/** Tests inotify on real directories: after a barrier the view equals the disk. */
import { execFile } from 'node:child_process'
import {
  appendFileSync,
  closeSync,
  linkSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { barrier, differences, openFixture, until, type Fixture } from './support/fixture.js'

describe('realtime', () => {
  let fixture: Fixture
  beforeEach(async () => {
    fixture = await openFixture()
  })
  afterEach(() => fixture.end())

  const rowsOf = (path: string) => fixture.server.realtime.filter(({ row }) => row.path === path)
  async function watching() {
    const sensor = fixture.sensor()
    await until('snapshot', () => fixture.server.snapshots === 1 && fixture.server.audits.length === 1)
    return sensor
  }

  it('[V6.1] reports a created, written and closed file as complete, by its path from the root', async () => {
    mkdirSync(fixture.at('a'))
    await watching()
    writeFileSync(fixture.at('a', 'x.txt'), 'hello')
    await barrier(fixture.server)
    const last = rowsOf('/a/x.txt').at(-1)!
    expect(last.row).toMatchObject({ file_name: 'x.txt', size: 5, is_directory: false, is_atomic_write: true })
    expect(differences(fixture.server, fixture.root)).toEqual([])
  })

  it('[V6.1] reports a file as a partial write until it is closed', async () => {
    await watching()
    const file = openSync(fixture.at('log'), 'w')
    writeSync(file, 'some')
    await barrier(fixture.server)
    expect(rowsOf('/log').at(-1)!.row).toMatchObject({ size: 4, is_atomic_write: false })
    utimesSync(fixture.at('log'), 1_000, 1_000)
    await barrier(fixture.server)
    expect(rowsOf('/log').at(-1)!.row).toMatchObject({ modified_time: 1_000, is_atomic_write: false })
    closeSync(file)
    await barrier(fixture.server)
    expect(rowsOf('/log').at(-1)!.row.is_atomic_write).toBe(true)
  })

  it('[V3.1] follows moves, deletes and links of files and trees: the view equals the disk', async () => {
    mkdirSync(fixture.at('old', 'deep', 'er'), { recursive: true })
    writeFileSync(fixture.at('old', 'deep', 'er', 'f'), '1')
    writeFileSync(fixture.at('doomed'), '1')
    await watching()
    renameSync(fixture.at('old'), fixture.at('new'))
    writeFileSync(fixture.at('new', 'deep', 'er', 'after-move'), '22')
    unlinkSync(fixture.at('doomed'))
    symlinkSync('/etc', fixture.at('link'))
    linkSync(fixture.at('new', 'deep', 'er', 'f'), fixture.at('second-name'))
    mkdirSync(fixture.at('p', 'q', 'r'), { recursive: true })
    writeFileSync(fixture.at('p', 'q', 'r', 's'), '333')
    writeFileSync(fixture.at('p', 'tmp'), '4444')
    renameSync(fixture.at('p', 'tmp'), fixture.at('p', 'final'))
    await barrier(fixture.server)
    expect(differences(fixture.server, fixture.root)).toEqual([])
    rmSync(fixture.at('p'), { recursive: true })
    appendFileSync(fixture.at('new', 'deep', 'er', 'after-move'), 'more')
    await barrier(fixture.server)
    expect(differences(fixture.server, fixture.root)).toEqual([])
    expect(fixture.server.tree.has('/link/passwd')).toBe(false)
  })

  it('[V3.1] two directories that swap their names keep their own watches', async () => {
    mkdirSync(fixture.at('a'))
    mkdirSync(fixture.at('b'))
    writeFileSync(fixture.at('a', 'was-a'), '1')
    writeFileSync(fixture.at('b', 'was-b'), '1')
    await watching()
    renameSync(fixture.at('a'), fixture.at('t'))
    renameSync(fixture.at('b'), fixture.at('a'))
    renameSync(fixture.at('t'), fixture.at('b'))
    await barrier(fixture.server)
    writeFileSync(fixture.at('a', 'new-in-a'), '1')
    writeFileSync(fixture.at('b', 'new-in-b'), '22')
    await barrier(fixture.server)
    expect(differences(fixture.server, fixture.root)).toEqual([])
  })

  it('[V6.1] reports mtimes before 1970', async () => {
    writeFileSync(fixture.at('moon'), '1')
    utimesSync(fixture.at('moon'), new Date(-14_182_940_500), new Date(-14_182_940_500))
    for (const native of [true, false]) {
      const sensor = fixture.sensor({ native, id: `host-${native}` })
      const before = fixture.server.snapshots
      await until('snapshot', () => fixture.server.snapshots > before)
      expect(fixture.server.tree.get('/moon')).toMatchObject({ modified_time: -14_182_940.5 })
      await sensor.stop()
    }
  })

  it('[V6.1] reports names with invalid UTF-8, quotes and newlines without loss', async () => {
    await watching()
    const name = Buffer.concat([Buffer.from(`${fixture.root}/bad-`), Buffer.from([0xff, 0xfe, 0x41])])
    writeFileSync(name, 'x')
    writeFileSync(fixture.at('qu"ote\n\\back'), 'y')
    writeFileSync(fixture.at('ünïcode-名'), 'z')
    await barrier(fixture.server)
    expect([...fixture.server.tree.keys()]).toEqual(
      expect.arrayContaining(['/bad-\udcff\udcfeA', '/qu"ote\n\\back', '/ünïcode-名']),
    )
    expect(differences(fixture.server, fixture.root)).toEqual([])
    unlinkSync(name)
    await barrier(fixture.server)
    expect(fixture.server.tree.has('/bad-\udcff\udcfeA')).toBe(false)
  })

  it('[V3.1] misses none of 10,000 files that another process creates in 100 new directories', async () => {
    await watching()
    const script = `const { mkdirSync, writeFileSync } = require('node:fs')
      for (let d = 0; d < 100; d += 1) mkdirSync(process.argv[1] + '/d' + d)
      for (let f = 0; f < 100; f += 1) for (let d = 0; d < 100; d += 1) writeFileSync(process.argv[1] + '/d' + d + '/f' + f, 'x')`
    await promisify(execFile)(process.execPath, ['-e', script, fixture.root])
    await barrier(fixture.server)
    expect(differences(fixture.server, fixture.root)).toEqual([])
    expect([...fixture.server.tree.keys()].filter((path) => path.includes('/f'))).toHaveLength(10_000)
  })
})
