/**
 * One process that changes a directory as fast as it can: `writer.ts ROOT SEED NAME`. It does what programs do to files: complete
 * and partial writes, in-place edits, saves by rename, moves of files and directories, `cp -p`, old and future mtimes, links,
 * removals. Other writers run beside it; a step that fails because of them is counted and not an error. It stops when its stdin
 * closes, leaves no file open, and prints its counts on stdout.
 */
import fs from 'node:fs'
import { join } from 'node:path'
import { seededRandom } from '@bellwether/base'

const [root = '', seed = '1', own = 'w'] = process.argv.slice(2)
const chance = seededRandom(Number(seed))
const done: Record<string, number> = {}
let lost = 0
let made = 0
let isOver = false

// Entries per directory, and directories in total: few enough to be scanned twice per second.
const crowd = 60
const directoriesMax = 150
const depthMax = 5
// Then the event loop checks whether to stop.
const perTurn = 25

const open = new Map<string, number>()
const fresh = () => `${own}-${(made += 1)}`
const text = () => 'x'.repeat(1 + chance.below(3_000))
const second = () => 1_000_000_000 + chance.below(700_000_000) + chance.below(1_000) / 1_000

function list(directory: string): fs.Dirent[] {
  return fs.readdirSync(directory, { withFileTypes: true })
}

/** A random directory of the tree. */
function somewhere(): string {
  let at = root
  for (let depth = 0; depth < depthMax; depth += 1) {
    const below = list(at).filter((entry) => entry.isDirectory())
    if (below.length === 0 || chance.next() < (depth === 0 ? 0.1 : 0.35)) return at
    at = join(at, chance.pick(below).name)
  }
  return at
}

function someFile(): string | undefined {
  const directory = somewhere()
  const files = list(directory).filter((entry) => entry.isFile())
  return files.length === 0 ? undefined : join(directory, chance.pick(files).name)
}

function someDirectory(): string | undefined {
  const directory = somewhere()
  return directory === root ? undefined : directory
}

let directories = 0
const acts: Readonly<Record<string, () => boolean | void>> = {
  create: () => {
    const directory = somewhere()
    if (list(directory).length > crowd) return remove(directory)
    fs.writeFileSync(join(directory, fresh()), text())
  },
  save: () => {
    const file = someFile()
    if (file === undefined) return false
    const draft = `${file}.${fresh()}.tmp`
    fs.writeFileSync(draft, text())
    fs.renameSync(draft, file)
  },
  edit: () => inFile((fd) => void fs.writeSync(fd, text(), chance.below(500))),
  append: () => inFile((fd) => void fs.writeSync(fd, text(), fs.fstatSync(fd).size)),
  edit_and_restore_time: () =>
    inFile((fd) => {
      const { atime, mtime, size } = fs.fstatSync(fd)
      fs.writeSync(fd, 'restored', size)
      fs.futimesSync(fd, atime, mtime)
    }),
  truncate: () => inFile((fd) => fs.ftruncateSync(fd, chance.below(100))),
  open_and_write: () => {
    const file = join(somewhere(), fresh())
    open.set(file, fs.openSync(file, 'w'))
    fs.writeSync(open.get(file)!, text())
    if (open.size > 8) closeOne()
  },
  write_more: () => {
    if (open.size === 0) return false
    fs.writeSync(chance.pick([...open.values()]), text())
  },
  close: () => (open.size === 0 ? false : closeOne()),
  rename: () => {
    const file = someFile()
    if (file === undefined) return false
    fs.renameSync(file, join(somewhere(), chance.next() < 0.5 ? fresh() : file.slice(file.lastIndexOf('/') + 1)))
  },
  rename_over: () => {
    const [from, to] = [someFile(), someFile()]
    if (from === undefined || to === undefined) return false
    fs.renameSync(from, to)
  },
  copy_with_times: () => {
    const file = someFile()
    if (file === undefined) return false
    const copy = join(somewhere(), fresh())
    const { atime, mtime } = fs.statSync(file)
    // Not copyFile: it was seen to loop in copy_file_range while others changed the file.
    fs.writeFileSync(copy, fs.readFileSync(file))
    fs.utimesSync(copy, atime, mtime)
  },
  restore_old: () => {
    const file = someFile()
    if (file === undefined) return false
    fs.writeFileSync(file, text())
    fs.utimesSync(file, second(), second())
  },
  from_the_future: () => {
    const file = someFile()
    if (file === undefined) return false
    fs.utimesSync(file, 2_500_000_000, 2_500_000_000 + chance.below(1_000))
  },
  link: () => {
    const file = someFile()
    if (file === undefined) return false
    fs.symlinkSync(file, join(somewhere(), fresh()))
  },
  delete: () => {
    const file = someFile()
    if (file === undefined) return false
    fs.unlinkSync(file)
  },
  create_some: () => {
    const directory = somewhere()
    if (list(directory).length > crowd) return remove(directory)
    for (let at = 0; at < 5; at += 1) fs.writeFileSync(join(directory, fresh()), text())
  },
  delete_and_restore: () => {
    const file = someFile()
    if (file === undefined) return false
    const { atime, mtime } = fs.statSync(file)
    fs.unlinkSync(file)
    fs.writeFileSync(file, text())
    fs.utimesSync(file, atime, mtime)
  },
  make_directory: () => {
    if (directories > directoriesMax) return removeDirectory()
    fs.mkdirSync(join(somewhere(), fresh()))
  },
  make_tree: () => {
    if (directories > directoriesMax) return removeDirectory()
    const top = join(somewhere(), fresh())
    fs.mkdirSync(join(top, 'a', 'b'), { recursive: true })
    for (const name of ['one', 'a/two', 'a/b/three']) fs.writeFileSync(join(top, name), text())
  },
  move_directory: () => {
    const directory = someDirectory()
    if (directory === undefined) return false
    fs.renameSync(directory, join(somewhere(), fresh()))
  },
  swap_for_directory: () => {
    if (directories > directoriesMax) return removeDirectory()
    const file = someFile()
    if (file === undefined) return false
    fs.unlinkSync(file)
    fs.mkdirSync(file)
    fs.writeFileSync(join(file, fresh()), text())
  },
  remove_directory: () => removeDirectory(),
}
const names = Object.keys(acts)

function closeOne(): void {
  const file = chance.pick([...open.keys()])
  fs.closeSync(open.get(file)!)
  open.delete(file)
}

function inFile(act: (fd: number) => void): boolean | void {
  const file = someFile()
  if (file === undefined) return false
  const fd = fs.openSync(file, 'r+')
  try {
    act(fd)
  } finally {
    fs.closeSync(fd)
  }
}

function remove(directory: string): void {
  for (const entry of list(directory).slice(0, crowd / 2))
    if (!entry.isDirectory()) fs.unlinkSync(join(directory, entry.name))
}

/** A directory without subdirectories, so that the tree does not shrink away. */
function removeDirectory(): boolean | void {
  const directory = someDirectory()
  if (directory === undefined || list(directory).some((entry) => entry.isDirectory())) return false
  for (const entry of list(directory)) fs.unlinkSync(join(directory, entry.name))
  fs.rmdirSync(directory)
}

/** The directories below this one; links are not followed. */
function count(directory: string): number {
  const below = list(directory).filter((entry) => entry.isDirectory())
  return below.reduce((sum, entry) => sum + count(join(directory, entry.name)), below.length)
}

function act(): void {
  const name = chance.pick(names)
  try {
    if (acts[name]!() !== false) done[name] = (done[name] ?? 0) + 1
  } catch (error) {
    // Another writer was faster, or a directory would be moved into itself.
    if (!(error instanceof Error) || !('code' in error)) throw error
    lost += 1
  }
}

process.stdin.on('end', () => (isOver = true)).resume()
for (let turn = 0; !isOver; turn += 1) {
  if (turn % 40 === 0) {
    try {
      directories = count(root)
    } catch {
      lost += 1 // it changed during the count; keep the last number
    }
  }
  for (let at = 0; at < perTurn; at += 1) act()
  await new Promise((resolve) => setImmediate(resolve))
}
for (const fd of open.values()) fs.closeSync(fd)
process.stdout.write(`${JSON.stringify({ done, lost })}\n`)
