/**
 * One scan thread: reads the directories of a message and replies with rows as JSON text, children first and then the closing
 * marker. It keeps no state between directories. It waits while too many of its rows are unconsumed, so that a slow server
 * slows the scan instead of filling the memory.
 */
import { parentPort, workerData } from 'node:worker_threads'
import {
  childOf,
  isListedInFull,
  isValidPath,
  parentOf,
  type Disk,
  type DiskEntry,
  type Listing,
  type Miss,
} from '../disk/disk.js'
import { openDisk } from '../disk/open.js'
import { rootIdentity } from '../disk/root.js'
import { directoryRow, rowText } from '../disk/row.js'
import type {
  DirectoryResult,
  DirectoryTask,
  FromScanThread,
  PathStat,
  KnownDirectory,
  ScanSettings,
  ScanSetup,
  ToScanThread,
} from './messages.js'

// Every audit reads a directory with more recent files in full instead of remembering it.
const hotFilesMax = 1_000
const waitMs = 1_000

const setup = workerData as ScanSetup
const disk: Disk = openDisk(setup.root, setup.native, setup.exclude)
let settings: ScanSettings
let texts: string[] = []
let length = 0

const post = (message: FromScanThread, move: ArrayBuffer[] = []) => parentPort!.postMessage(message, move)

const isCancelled = () => Atomics.load(new Int32Array(settings.outstanding), 1) === 1

function flush(): void {
  if (texts.length === 0) return
  const text = new TextEncoder().encode(texts.join(','))
  const count = texts.length
  texts = []
  length = 0
  const outstanding = new Int32Array(settings.outstanding)
  Atomics.add(outstanding, 0, text.length)
  post({ type: 'rows', count, text }, [text.buffer as ArrayBuffer])
  for (
    let bytes = Atomics.load(outstanding, 0);
    bytes > settings.outstandingMax;
    bytes = Atomics.load(outstanding, 0)
  ) {
    if (isCancelled()) return
    Atomics.wait(outstanding, 0, bytes, waitMs)
  }
}

function add(row: string): void {
  texts.push(row)
  length += row.length
  if (texts.length >= settings.chunkRows || length >= settings.chunkLength) flush()
}

const unread = { mtime: 0, mtimeAfter: 0, unchanged: false, subdirectories: [], vanished: 0, denied: 0 }
const missed = (path: string, miss: Miss): DirectoryResult => ({ ...unread, path, miss })

/** The rows of an unchanged directory: its own and those of its hot files. Undefined if it must be read. */
function rowsIfUnchanged(
  task: DirectoryTask,
  known: KnownDirectory,
  self: { mtime: number; createdTime: number },
): string[] | undefined {
  const rows = [directoryRow(task.path, self, { skipped: true })]
  for (const name of known.hotFiles) {
    const path = childOf(task.path, name)
    const file = disk.stat(path)
    // A file disappeared although the directory's mtime is the same, so the mtime cannot be trusted.
    if (typeof file === 'string') return undefined
    rows.push(rowText(path, file, { parentMtime: self.mtime }))
  }
  return rows
}

function scan(task: DirectoryTask): DirectoryResult {
  const { path, known } = task
  if (known !== undefined) {
    const self = disk.stat(path)
    if (typeof self === 'string') return missed(path, self)
    if (!self.isDirectory) return missed(path, 'gone')
    const { mtime, createdTime } = self
    const rows = mtime === known.mtime ? rowsIfUnchanged(task, known, { mtime, createdTime }) : undefined
    if (rows !== undefined) {
      rows.forEach(add)
      const { subdirectories, hotFiles } = known
      return { ...unread, path, mtime, mtimeAfter: mtime, unchanged: true, subdirectories, hotFiles }
    }
  }
  return read(task)
}

/** Reads a directory that changed during the listing, or where an entry was not found, once more. */
function read(task: DirectoryTask): DirectoryResult {
  const first = readOnce(task)
  const isUncertain = first.mtime !== first.mtimeAfter || first.vanished > 0
  const again = first.miss === undefined && isUncertain && settings.mode !== 'directories'
  return again ? readOnce({ ...task, isListed: true }) : first
}

function readOnce({ path, isListed }: DirectoryTask): DirectoryResult {
  const subdirectories: string[] = []
  const subdirectoryTimes: number[] = []
  const hotFiles: string[] = []
  const rowsWanted = settings.mode !== 'directories'
  const auditing = settings.mode === 'audit'
  if (rowsWanted && !isListed) {
    const self = disk.stat(path)
    if (typeof self === 'string') return missed(path, self)
    add(rowText(path, self))
  }
  // Each row carries the parent's mtime, which must be known before the listing starts.
  const parent = auditing ? disk.stat(path) : 'gone'
  const extras = typeof parent === 'string' ? {} : { parentMtime: parent.mtime }
  const each = (found: DiskEntry) => {
    if (found.isDirectory) {
      subdirectories.push(found.name)
      subdirectoryTimes.push(found.mtime)
    } else if (auditing && found.mtime >= settings.hotSince && hotFiles.length <= hotFilesMax) hotFiles.push(found.name)
    if (rowsWanted) add(rowText(childOf(path, found.name), found, extras))
  }
  const outcome: Listing | Miss = disk.list(path, each)
  const isUnreadable = typeof outcome === 'string' ? outcome !== 'gone' : outcome.denied > 0
  if (rowsWanted && isUnreadable) addUnreadable(path)
  if (typeof outcome === 'string') return missed(path, outcome)
  // Without the closing marker the server deletes nothing in this directory.
  if ((auditing || settings.mode === 'job') && isListedInFull(outcome)) {
    add(directoryRow(path, { mtime: outcome.mtime, createdTime: outcome.createdTime }, { complete: true }))
  }
  const { mtime, mtimeAfter, vanished, denied } = outcome
  const base = { path, mtime, mtimeAfter, unchanged: false, subdirectories, vanished, denied }
  if (settings.mode === 'directories') return { ...base, subdirectoryTimes }
  return hotFiles.length > hotFilesMax ? base : { ...base, hotFiles }
}

/** Reports that the directory could not be read completely, so that it does not look empty. */
function addUnreadable(path: string): void {
  const self = disk.stat(path)
  if (typeof self !== 'string' && self.isDirectory) add(rowText(path, self, { unreadable: true }))
}

/** Paths behind a symbolic link are not part of the tree. */
function isReachable(path: string): boolean {
  if (!isValidPath(path)) return false
  for (let up = parentOf(path); up !== '/'; up = parentOf(up)) {
    const found = disk.stat(up)
    if (typeof found === 'string' || !found.isDirectory) return false
  }
  return true
}

function statPath(path: string): PathStat {
  if (!isReachable(path)) return { path, miss: 'gone' }
  const found = disk.stat(path)
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
    post({ type: 'root', root: rootIdentity(disk) })
    return
  }
  if (message.type === 'stat') {
    const before = rootIdentity(disk)
    const stats = message.paths.map(statPath)
    post({ type: 'stats', stats, roots: [before, rootIdentity(disk)] })
    return
  }
  settings = message.settings
  const results = message.tasks.map((task) => (isCancelled() ? missed(task.path, 'failed') : scan(task)))
  flush()
  post({ type: 'done', results })
})
