/** Real directories, real inotify: what happens on disk is in the view after a barrier. */
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
import { barrier, differences, makeWorld, until, type World } from './support/world.js'

describe('realtime', () => {
  let world: World
  beforeEach(async () => {
    world = await makeWorld()
  })
  afterEach(() => world.end())

  const rowsOf = (path: string) => world.fusion.realtime.filter(({ row }) => row.path === path)
  async function watching() {
    const sensor = world.sensor()
    await until('snapshot', () => world.fusion.snapshots === 1 && world.fusion.audits.length === 1)
    return sensor
  }

  it('[V6.1] a file that is created, written and closed arrives whole, under its path from the root', async () => {
    mkdirSync(world.at('a'))
    await watching()
    writeFileSync(world.at('a', 'x.txt'), 'hello')
    await barrier(world.fusion)
    const last = rowsOf('/a/x.txt').at(-1)!
    expect(last.row).toMatchObject({ file_name: 'x.txt', size: 5, is_directory: false, is_atomic_write: true })
    expect(differences(world.fusion, world.root)).toEqual([])
  })

  it('[V6.1] a file that is written and not closed is told as still being written, and as whole once it is closed', async () => {
    await watching()
    const file = openSync(world.at('log'), 'w')
    writeSync(file, 'some')
    await barrier(world.fusion)
    expect(rowsOf('/log').at(-1)!.row).toMatchObject({ size: 4, is_atomic_write: false })
    utimesSync(world.at('log'), 1_000, 1_000)
    await barrier(world.fusion)
    expect(rowsOf('/log').at(-1)!.row).toMatchObject({ modified_time: 1_000, is_atomic_write: false })
    closeSync(file)
    await barrier(world.fusion)
    expect(rowsOf('/log').at(-1)!.row.is_atomic_write).toBe(true)
  })

  it('[V3.1] moves, deletes, links, trees that are made, moved and removed: the view equals the disk', async () => {
    mkdirSync(world.at('old', 'deep', 'er'), { recursive: true })
    writeFileSync(world.at('old', 'deep', 'er', 'f'), '1')
    writeFileSync(world.at('doomed'), '1')
    await watching()
    renameSync(world.at('old'), world.at('new'))
    writeFileSync(world.at('new', 'deep', 'er', 'after-move'), '22')
    unlinkSync(world.at('doomed'))
    symlinkSync('/etc', world.at('link'))
    linkSync(world.at('new', 'deep', 'er', 'f'), world.at('second-name'))
    mkdirSync(world.at('p', 'q', 'r'), { recursive: true })
    writeFileSync(world.at('p', 'q', 'r', 's'), '333')
    writeFileSync(world.at('p', 'tmp'), '4444')
    renameSync(world.at('p', 'tmp'), world.at('p', 'final'))
    await barrier(world.fusion)
    expect(differences(world.fusion, world.root)).toEqual([])
    rmSync(world.at('p'), { recursive: true })
    appendFileSync(world.at('new', 'deep', 'er', 'after-move'), 'more')
    await barrier(world.fusion)
    expect(differences(world.fusion, world.root)).toEqual([])
    expect(world.fusion.tree.has('/link/passwd')).toBe(false)
  })

  it('[V3.1] two directories that change places keep their own watches', async () => {
    mkdirSync(world.at('a'))
    mkdirSync(world.at('b'))
    writeFileSync(world.at('a', 'was-a'), '1')
    writeFileSync(world.at('b', 'was-b'), '1')
    await watching()
    renameSync(world.at('a'), world.at('t'))
    renameSync(world.at('b'), world.at('a'))
    renameSync(world.at('t'), world.at('b'))
    await barrier(world.fusion)
    writeFileSync(world.at('a', 'new-in-a'), '1')
    writeFileSync(world.at('b', 'new-in-b'), '22')
    await barrier(world.fusion)
    expect(differences(world.fusion, world.root)).toEqual([])
  })

  it('[V6.1] names that are not UTF-8, and names with quotes and newlines, arrive without loss', async () => {
    await watching()
    const name = Buffer.concat([Buffer.from(`${world.root}/bad-`), Buffer.from([0xff, 0xfe, 0x41])])
    writeFileSync(name, 'x')
    writeFileSync(world.at('qu"ote\n\\back'), 'y')
    writeFileSync(world.at('ünïcode-名'), 'z')
    await barrier(world.fusion)
    expect([...world.fusion.tree.keys()]).toEqual(
      expect.arrayContaining(['/bad-\udcff\udcfeA', '/qu"ote\n\\back', '/ünïcode-名']),
    )
    expect(differences(world.fusion, world.root)).toEqual([])
    unlinkSync(name)
    await barrier(world.fusion)
    expect(world.fusion.tree.has('/bad-\udcff\udcfeA')).toBe(false)
  })

  it('[V3.1] a burst of 10,000 files over 100 new directories, by another process, loses nothing', async () => {
    await watching()
    const script = `const { mkdirSync, writeFileSync } = require('node:fs')
      for (let d = 0; d < 100; d += 1) mkdirSync(process.argv[1] + '/d' + d)
      for (let f = 0; f < 100; f += 1) for (let d = 0; d < 100; d += 1) writeFileSync(process.argv[1] + '/d' + d + '/f' + f, 'x')`
    await promisify(execFile)(process.execPath, ['-e', script, world.root])
    await barrier(world.fusion)
    expect(differences(world.fusion, world.root)).toEqual([])
    expect([...world.fusion.tree.keys()].filter((path) => path.includes('/f'))).toHaveLength(10_000)
  }, 90_000)
})
