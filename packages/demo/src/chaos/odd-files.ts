/**
 * Changes files of the workspace all the time: names of odd bytes, deep trees, entries that change their kind, old and future
 * mtimes, moves and removals. Everything stays inside the folder `odd` of the project; links point to missing names inside it.
 */
import { execFile } from 'node:child_process'
import {
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmdirSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Clock, SeededRandom } from '@bellwether/base'

export interface OddFilesOptions {
  readonly project: string
  readonly clock: Clock
  readonly random: SeededRandom
  readonly everyMs: number
  readonly signal: AbortSignal
}

const folderName = 'odd'
// Each deep tree has up to 60 directories; the view and the disk are compared entry by entry.
const topMax = 60
const deepMax = 60
// The kernel's limit of a path is 4,096 bytes.
const longNames = 12

const names: readonly Buffer[] = [
  ...[
    'plain',
    ' space ',
    'new\nline',
    'tab\t',
    'quote"\'',
    '-rf',
    '..dots',
    'back\\slash',
    '%41',
    '*?[x]',
    '#',
    '~',
    'CON',
    '\u0001',
  ],
  ...['e\u0301', '\u00e9', '🐑', '\u202Eabc', '\ufeffbom', 'a'.repeat(255), 'é'.repeat(127)],
]
  .map((name) => Buffer.from(name))
  .concat([
    Buffer.from([0xff]),
    Buffer.from([0xc3, 0x28]),
    Buffer.from([0xed, 0xa0, 0x80]),
    Buffer.from([0xf0, 0x9f, 0x90]),
    Buffer.alloc(255, 0xff),
  ])

/** Changes one entry every `everyMs`. Returns the number of changes. */
export async function changeFiles({ project, clock, random, everyMs, signal }: OddFilesOptions): Promise<number> {
  const top = Buffer.from(join(project, folderName))
  mkdirSync(top, { recursive: true })
  let changes = 0
  while (!signal.aborted) {
    await changeOne(top, random)
    changes += 1
    await clock.sleep(everyMs, signal)
  }
  return changes
}

const at = (folder: Buffer, name: Buffer | string) => Buffer.concat([folder, Buffer.from('/'), Buffer.from(name)])

async function changeOne(top: Buffer, random: SeededRandom): Promise<void> {
  const entries = readdirSync(top, { encoding: 'buffer' })
  const existing = entries.length === 0 ? undefined : at(top, random.pick(entries))
  const fresh = at(top, random.pick(names))
  const path = existing !== undefined && random.next() < 0.5 ? existing : fresh
  if (entries.length >= topMax && existing !== undefined) return remove(existing)
  // The kind of an existing entry changes.
  const replace = () => remove(path)
  const acts: Readonly<Record<string, () => void | Promise<void>>> = {
    file() {
      if (kindOf(path) !== 'file') replace()
      writeFileSync(path, 'x'.repeat(random.below(5_000)))
    },
    sparse() {
      if (kindOf(path) !== 'file') replace()
      writeFileSync(path, '')
      truncateSync(path, random.below(1_073_741_824))
    },
    directory() {
      makeFolders(path, [])
      for (let number = 0; number < 5; number += 1) {
        const inside = at(path, random.pick(names))
        if ((kindOf(inside) ?? 'file') === 'file') writeFileSync(inside, String(number))
      }
    },
    link() {
      replace()
      symlinkSync('missing', path)
    },
    async pipe() {
      const pipe = join(top.toString(), 'pipe')
      remove(Buffer.from(pipe))
      await promisify(execFile)('mkfifo', [pipe])
    },
    deep() {
      replace()
      const depth = 1 + random.below(deepMax)
      const folder = makeFolders(
        path,
        Array.from({ length: depth }, (_, level) => Buffer.from(`level ${level}`)),
      )
      writeFileSync(at(folder, 'bottom'), 'x')
    },
    long() {
      const folder = makeFolders(
        at(top, 'long'),
        Array.from({ length: longNames }, () => Buffer.alloc(255, 0xff)),
      )
      for (let number = 0; number < 20; number += 1) writeFileSync(at(folder, `${number}`), String(number))
    },
    time() {
      if (existing !== undefined && kindOf(existing) !== 'link')
        utimesSync(existing, 0, random.pick([-86_400, 0, 1, 1_000_000_000, 4_000_000_000]))
    },
    move() {
      if (existing === undefined || existing.equals(fresh)) return
      remove(fresh)
      renameSync(existing, fresh)
    },
    remove() {
      if (existing !== undefined) remove(existing)
    },
  }
  await acts[random.pick(Object.keys(acts))]!()
}

function kindOf(path: Buffer): 'file' | 'directory' | 'link' | 'other' | undefined {
  const stat = lstatSync(path, { throwIfNoEntry: false })
  if (stat === undefined) return undefined
  return stat.isFile() ? 'file' : stat.isDirectory() ? 'directory' : stat.isSymbolicLink() ? 'link' : 'other'
}

/** Creates the folders one by one: Node cannot create several whose names are not UTF-8. Returns the last one. */
function makeFolders(first: Buffer, more: readonly Buffer[]): Buffer {
  let folder = first
  for (const name of [undefined, ...more]) {
    if (name !== undefined) folder = at(folder, name)
    if (kindOf(folder) === 'directory') continue
    remove(folder)
    mkdirSync(folder)
  }
  return folder
}

function remove(path: Buffer): void {
  const kind = kindOf(path)
  if (kind === undefined) return
  if (kind !== 'directory') return unlinkSync(path)
  for (const name of readdirSync(path, { encoding: 'buffer' })) remove(at(path, name))
  rmdirSync(path)
}
