import { chmodSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { expect, it } from 'vitest'
import { readSelf } from './proc.js'
import { makeScratch, sweepScratch } from './scratch.js'

it('a scratch folder has a short path and is removed with everything in it, also folders that were made read-only', () => {
  const { path, home, temporary, shared, remove } = makeScratch(readSelf())
  expect(path.length).toBeLessThan(tmpdir().length + 45)
  for (const folder of [home, temporary, shared]) writeFileSync(join(folder, 'file'), '')
  mkdirSync(join(home, 'module'))
  writeFileSync(join(home, 'module', 'file'), '')
  chmodSync(join(home, 'module'), 0o500)
  remove()
  expect(existsSync(path)).toBe(false)
})

it('a sweep removes the scratch folders of workers that have ended, and no others', () => {
  const folder = mkdtempSync(join(tmpdir(), 'sweep-'))
  const move = (path: string) => {
    renameSync(path, join(folder, basename(path)))
    return join(folder, basename(path))
  }
  const self = readSelf()
  const living = move(makeScratch(self).path)
  const dead = move(makeScratch({ ...self, workerStart: '1' }).path)
  const elsewhere = move(makeScratch({ ...self, namespace: '7', workerStart: '1' }).path)
  writeFileSync(join(folder, 'bw-notes.txt'), '')
  expect(sweepScratch(self, folder)).toBe(1)
  expect([living, dead, elsewhere, join(folder, 'bw-notes.txt')].map((path) => existsSync(path))).toEqual([
    true,
    false,
    true,
    true,
  ])
  rmSync(folder, { recursive: true })
})
