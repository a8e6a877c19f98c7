/**
 * One scanning thread: reads the directories it is handed and answers with rows as JSON text, in the order
 * children → closing marker. Stateless: nothing of one directory is kept for the next. Waits while too many of its rows
 * have not been taken, so that a slow server slows the scan instead of filling the memory.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { childOf, isPlain, parentOf, type Disk, type Found, type Listed, type Miss } from '../disk/disk.js'
import { openDisk } from '../disk/open.js'
import { rootIdentity } from '../disk/root.js'
import { directoryRow, rowText } from '../disk/row.js'
import type {
  DirectoryResult,
  DirectoryTask,
  FromScanThread,
  Looked,
  Memory,
  ScanOrder,
  ScanSetup,
  ToScanThread,
} from './messages.js'

// A directory with more recent files than this is read in full by every audit rather than remembered.
const hotFilesMax = 1_000
const waitMs = 1_000

const setup = workerData as ScanSetup
const disk: Disk = openDisk(setup.root, setup.native, setup.exclude)
let order: ScanOrder
let texts: string[] = []

const say = (message: FromScanThread, move: ArrayBuffer[] = []) => parentPort!.postMessage(message, move)

const isCancelled = () => Atomics.load(new Int32Array(order.outstanding), 1) === 1

function flush(): void {
  if (texts.length === 0) return
  const text = new TextEncoder().encode(texts.join(','))
  const count = texts.length
  texts = []
  const outstanding = new Int32Array(order.outstanding)
  Atomics.add(outstanding, 0, count)
  say({ type: 'rows', count, text }, [text.buffer as ArrayBuffer])
  for (let rows = Atomics.load(outstanding, 0); rows > order.outstandingMax; rows = Atomics.load(outstanding, 0)) {
    if (isCancelled()) return
    Atomics.wait(outstanding, 0, rows, waitMs)
  }
}

function add(row: string): void {
  texts.push(row)
  if (texts.length >= order.chunkRows) flush()
}

const unread = { mtime: 0, mtimeAfter: 0, silent: false, subdirectories: [], vanished: 0, denied: 0 }
const missed = (path: string, miss: Miss): DirectoryResult => ({ ...unread, path, miss })

/** The rows of a directory that has not changed: its own, and those of its hot files. Undefined: it must be read. */
function silently(task: DirectoryTask, memory: Memory, self: { mtime: number; born: number }): string[] | undefined {
  const rows = [directoryRow(task.path, self, { skipped: true })]
  for (const name of memory.hotFiles) {
    const path = childOf(task.path, name)
    const file = disk.look(path)
    // A name that went while the directory's time stood still: that time cannot be trusted.
    if (typeof file === 'string') return undefined
    rows.push(rowText(path, file, { parentMtime: self.mtime }))
  }
  return rows
}

function scan(task: DirectoryTask): DirectoryResult {
  const { path, memory } = task
  if (memory !== undefined) {
    const self = disk.look(path)
    if (typeof self === 'string') return missed(path, self)
    if (!self.isDirectory) return missed(path, 'gone')
    const { mtime, born } = self
    const rows = mtime === memory.mtime ? silently(task, memory, { mtime, born }) : undefined
    if (rows !== undefined) {
      rows.forEach(add)
      const { subdirectories, hotFiles } = memory
      return { ...unread, path, mtime, mtimeAfter: mtime, silent: true, subdirectories, hotFiles }
    }
  }
  return read(task)
}

/** A directory that changes while it is read may hide an entry that is there: it is read once more. */
function read(task: DirectoryTask): DirectoryResult {
  const first = readOnce(task)
  const again = first.miss === undefined && first.mtime !== first.mtimeAfter && order.mode !== 'directories'
  return again ? readOnce({ ...task, listed: true }) : first
}

function readOnce({ path, listed }: DirectoryTask): DirectoryResult {
  const subdirectories: string[] = []
  const subdirectoryTimes: number[] = []
  const hotFiles: string[] = []
  const rowsWanted = order.mode !== 'directories'
  const auditing = order.mode === 'audit'
  if (rowsWanted && !listed) {
    const self = disk.look(path)
    if (typeof self === 'string') return missed(path, self)
    add(rowText(path, self))
  }
  // The parent's time goes with each row; it is read once more than the listing does, because rows come first.
  const parent = auditing ? disk.look(path) : 'gone'
  const extras = typeof parent === 'string' ? {} : { parentMtime: parent.mtime }
  const each = (found: Found) => {
    if (found.isDirectory) {
      subdirectories.push(found.name)
      subdirectoryTimes.push(found.mtime)
    } else if (auditing && found.mtime >= order.hotSince && hotFiles.length <= hotFilesMax) hotFiles.push(found.name)
    if (rowsWanted) add(rowText(childOf(path, found.name), found, extras))
  }
  const outcome: Listed | Miss = disk.list(path, each)
  if (typeof outcome === 'string') return missed(path, outcome)
  // An entry that could not be looked at is there, though nobody can say what it is, and one may have been missed while
  // the directory changed: it stays open, and nothing is concluded from what was not seen.
  if ((auditing || order.mode === 'job') && outcome.denied === 0 && outcome.mtime === outcome.mtimeAfter) {
    add(directoryRow(path, { mtime: outcome.mtime, born: outcome.born }, { closed: true }))
  }
  const { mtime, mtimeAfter, vanished, denied } = outcome
  const base = { path, mtime, mtimeAfter, silent: false, subdirectories, vanished, denied }
  if (order.mode === 'directories') return { ...base, subdirectoryTimes }
  return hotFiles.length > hotFilesMax ? base : { ...base, hotFiles }
}

/** Only what can be reached without passing through a symbolic link is in the tree. */
function reachable(path: string): boolean {
  if (!isPlain(path)) return false
  for (let up = parentOf(path); up !== '/'; up = parentOf(up)) {
    const found = disk.look(up)
    if (typeof found === 'string' || !found.isDirectory) return false
  }
  return true
}

function look(path: string): Looked {
  if (!reachable(path)) return { path, miss: 'gone' }
  const found = disk.look(path)
  if (typeof found === 'string') return { path, miss: found }
  const { mtime, size, isDirectory } = found
  return { path, mtime, size, isDirectory, row: rowText(path, found) }
}

parentPort!.on('message', (message: ToScanThread) => {
  if (message.type === 'stop') {
    parentPort!.close()
    return
  }
  if (message.type === 'root') {
    say({ type: 'root', root: rootIdentity(disk) })
    return
  }
  if (message.type === 'look') {
    const before = rootIdentity(disk)
    const looks = message.paths.map(look)
    say({ type: 'looked', looks, roots: [before, rootIdentity(disk)] })
    return
  }
  order = message.order
  const results = message.tasks.map((task) => (isCancelled() ? missed(task.path, 'failed') : scan(task)))
  flush()
  say({ type: 'done', results })
})
