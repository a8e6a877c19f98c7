/**
 * File operations for the board: an append that is known to be on disk, an atomic replace, and an exclusive create. The last
 * component of a path is never followed if it is a symbolic link, every read has a limit, and a missing file is a value, not an
 * error. Tests wrap this interface to crash at any step.
 */
import { constants } from 'node:fs'
import * as fs from 'node:fs/promises'
import { dirname } from 'node:path'
import { hasCode } from '@bellwether/base'

/** An append-only file. Several processes may have it open; each append goes to the current end. */
export interface LogFile {
  readonly size: () => Promise<number>
  /** Reads at `position` into `buffer` and returns the number of bytes. */
  readonly read: (buffer: Uint8Array, position: number) => Promise<number>
  /** Returns the number of bytes written; fewer than given means a full disk. */
  readonly append: (bytes: Uint8Array) => Promise<number>
  /** Returns when all appended bytes are on disk. */
  readonly flush: () => Promise<void>
  /** Device and inode: they differ if another file has taken the name. */
  readonly identity: () => Promise<string>
  readonly close: () => Promise<void>
}

type Read =
  | { readonly found: 'bytes'; readonly bytes: Buffer }
  | { readonly found: 'missing' }
  | { readonly found: 'too_large' }
  | { readonly found: 'no_file' }

interface Entry {
  readonly kind: 'file' | 'folder' | 'link' | 'other'
  readonly identity: string
  readonly size: number
  readonly changedAtMs: number
}

export interface Disk {
  readonly openLog: (path: string, access: 'read' | 'append') => Promise<LogFile | 'missing'>
  readonly read: (path: string, maxBytes: number) => Promise<Read>
  readonly stat: (path: string) => Promise<Entry | 'missing'>
  readonly list: (folder: string) => Promise<readonly string[]>
  /** Creates the file with its content, or returns `taken` if the name exists. `draft` is a temporary name in the same folder. */
  readonly createExclusive: (path: string, draft: string, bytes: Uint8Array) => Promise<'created' | 'taken'>
  /** Writes a new file; returns when it is on disk. */
  readonly writeDraft: (draft: string, chunks: Iterable<Uint8Array | string>) => Promise<void>
  /** Renames `draft`, a file in the same folder, to `path`; returns when that is on disk. */
  readonly replace: (path: string, draft: string) => Promise<void>
  readonly move: (from: string, to: string) => Promise<'moved' | 'missing'>
  /** Makes a hard link, unless the name is taken. */
  readonly link: (from: string, to: string) => Promise<'linked' | 'taken'>
  readonly remove: (path: string) => Promise<'removed' | 'missing'>
  readonly makeFolder: (path: string) => Promise<void>
  readonly realPath: (path: string) => Promise<string>
}

const { O_RDONLY, O_RDWR, O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_WRONLY, O_TRUNC } = constants
// O_NONBLOCK: opening a FIFO in place of a file must not block.
const safeFlags = O_NOFOLLOW | O_NONBLOCK

async function orMissing<T>(work: Promise<T>): Promise<T | 'missing'> {
  try {
    return await work
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return 'missing'
    throw error
  }
}

function logFile(handle: fs.FileHandle): LogFile {
  return {
    size: async () => (await handle.stat()).size,
    read: async (buffer, position) => (await handle.read(buffer, 0, buffer.byteLength, position)).bytesRead,
    append: async (bytes) => (await handle.write(bytes, 0, bytes.byteLength, null)).bytesWritten,
    flush: () => handle.datasync(),
    identity: async () => {
      const { dev, ino } = await handle.stat({ bigint: true })
      return `${dev}:${ino}`
    },
    close: () => handle.close(),
  }
}

async function flushFolder(path: string): Promise<void> {
  const handle = await fs.open(path, O_RDONLY)
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

async function write(path: string, chunks: Iterable<Uint8Array | string>, flush: boolean): Promise<void> {
  const handle = await fs.open(path, O_WRONLY | O_CREAT | O_TRUNC | safeFlags, 0o644)
  try {
    for (const chunk of chunks) await handle.writeFile(chunk)
    if (flush) await handle.sync()
  } catch (error) {
    // For example a full disk: an unfinished draft would stay.
    await fs.rm(path, { force: true })
    throw error
  } finally {
    await handle.close()
  }
}

export const systemDisk: Disk = {
  async openLog(path, access) {
    const flags = access === 'append' ? O_RDWR | O_APPEND | O_CREAT : O_RDONLY
    const handle = await orMissing(fs.open(path, flags | safeFlags, 0o644))
    if (handle === 'missing') return handle
    if ((await handle.stat()).isFile()) return logFile(handle)
    await handle.close()
    throw Object.assign(new Error(`${path} is not a regular file`), { code: 'ENOTFILE' })
  },

  async read(path, maxBytes) {
    const entry = await systemDisk.stat(path)
    if (entry === 'missing') return { found: 'missing' }
    if (entry.kind !== 'file') return { found: 'no_file' }
    if (entry.size > maxBytes) return { found: 'too_large' }
    const bytes = await orMissing(fs.readFile(path, { flag: O_RDONLY | safeFlags }))
    return bytes === 'missing' ? { found: 'missing' } : { found: 'bytes', bytes }
  },

  async stat(path) {
    const stat = await orMissing(fs.lstat(path, { bigint: true }))
    if (stat === 'missing') return stat
    const kind = stat.isFile() ? 'file' : stat.isDirectory() ? 'folder' : stat.isSymbolicLink() ? 'link' : 'other'
    return { kind, identity: `${stat.dev}:${stat.ino}`, size: Number(stat.size), changedAtMs: Number(stat.mtimeMs) }
  },

  async list(folder) {
    const names = await orMissing(fs.readdir(folder))
    return names === 'missing' ? [] : names
  },

  async createExclusive(path, draft, bytes) {
    // Written under the draft name first, so that a reader of `path` sees the complete content. No fsync: it need not survive a power loss.
    await write(draft, [bytes], false)
    try {
      await fs.link(draft, path)
      return 'created'
    } catch (error) {
      if (hasCode(error, 'EEXIST')) return 'taken'
      throw error
    } finally {
      await systemDisk.remove(draft)
    }
  },

  writeDraft: (draft, chunks) => write(draft, chunks, true),

  async replace(path, draft) {
    await fs.rename(draft, path)
    await flushFolder(dirname(path))
  },

  async move(from, to) {
    return (await orMissing(fs.rename(from, to))) === 'missing' ? 'missing' : 'moved'
  },

  async link(from, to) {
    try {
      await fs.link(from, to)
      return 'linked'
    } catch (error) {
      if (hasCode(error, 'EEXIST')) return 'taken'
      throw error
    }
  },

  async remove(path) {
    return (await orMissing(fs.unlink(path))) === 'missing' ? 'missing' : 'removed'
  },

  makeFolder: async (path) => {
    await fs.mkdir(path, { recursive: true })
  },
  realPath: (path) => fs.realpath(path),
}
