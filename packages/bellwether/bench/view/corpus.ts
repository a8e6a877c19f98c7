/**
 * The files of the benchmark: up to 1,000 directories × 4 × 250 empty files with unique names, and the same files as rows in any
 * order. The n-th file has the same path on disk, in memory and in requests.
 */
import { spawnSync } from 'node:child_process'
import { closeSync, mkdirSync, mkdtempSync, openSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export const filesPerTop = 1_000
const perDirectory = 250

/** Top directories and their four subdirectories each. */
export const directoriesOf = (files: number): number => (files / filesPerTop) * 5

export const topOf = (top: number): string => `/d${String(top).padStart(5, '0')}`

function directoryOf(file: number): string {
  return `${topOf(Math.floor(file / filesPerTop))}/s${Math.floor(file / perDirectory) % 4}`
}

/** Twelve bytes and unique, so that the name pool cannot share names. */
export function pathOf(file: number): string {
  return `${directoryOf(file)}/f${String(file).padStart(7, '0')}.dat`
}

/** Every number below `count` once, in an order unrelated to the directories. */
export function shuffled(count: number): Uint32Array {
  const order = Uint32Array.from({ length: count }, (_, i) => i)
  let state = 0x2545f491
  for (let i = count - 1; i > 0; i -= 1) {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    const other = (state >>> 0) % (i + 1)
    const kept = order[i]!
    order[i] = order[other]!
    order[other] = kept
  }
  return order
}

export interface Corpus {
  readonly root: string
  readonly files: number
  remove(): void
}

export function makeCorpus(files: number): Corpus {
  const root = mkdtempSync(join(tmpdir(), 'bellwether-bench-view-'))
  for (let file = 0; file < files; file += 1) {
    if (file % perDirectory === 0) mkdirSync(root + directoryOf(file), { recursive: true })
    closeSync(openSync(root + pathOf(file), 'wx'))
  }
  // rm is much faster than fs.rm, which takes a minute for a million files.
  return { root, files, remove: () => void spawnSync('rm', ['-rf', root]) }
}
