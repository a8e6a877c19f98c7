/**
 * Files as the board needs them: an append that is known to be on the disk, a file that is replaced whole or not at all, a
 * file that only one of many can create. Always: no symbolic link is followed at the last step of a path, every read is
 * bounded, and what is absent is a value. Tests wrap this interface to die at any step. What the files mean is left to the
 * board.
 */
import { constants } from 'node:fs'
import * as fs from 'node:fs/promises'
import { dirname } from 'node:path'

/** An append-only file. Several processes may have it open; each append goes to the end as it then is. */
export interface LogFile {
  readonly size: () => Promise<number>
  /** How many bytes it could read at `position` into `buffer`. */
  readonly read: (buffer: Uint8Array, position: number) => Promise<number>
  /** How many bytes were taken; fewer than offered means a full disk. */
  readonly append: (bytes: Uint8Array) => Promise<number>
  /** Returns when what was appended is on the disk. */
  readonly flush: () => Promise<void>
  /** Device and inode: another file under the same name has another one. */
  readonly identity: () => Promise<string>
  readonly close: () => Promise<void>
}

export type Read =
  | { readonly found: 'bytes'; readonly bytes: Buffer }
  | { readonly found: 'missing' }
  | { readonly found: 'too_large' }
  | { readonly found: 'no_file' }

export interface Entry {
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
  /** Creates the file with all of its content, or tells that the name is taken. `draft` is a name beside it for the making. */
  readonly createExclusive: (path: string, draft: string, bytes: Uint8Array) => Promise<'created' | 'taken'>
  /** A new file with this content; returns when it is on the disk. */
  readonly writeDraft: (draft: string, chunks: Iterable<Uint8Array | string>) => Promise<void>
  /** The draft becomes the file, whole; `draft` is a name in the same folder. Returns when that is on the disk. */
  readonly replace: (path: string, draft: string) => Promise<void>
  readonly move: (from: string, to: string) => Promise<'moved' | 'missing'>
  /** Gives `from` a second name, unless that is taken. */
  readonly link: (from: string, to: string) => Promise<'linked' | 'taken'>
  readonly remove: (path: string) => Promise<'removed' | 'missing'>
  readonly makeFolder: (path: string) => Promise<void>
  readonly realPath: (path: string) => Promise<string>
}

const { O_RDONLY, O_RDWR, O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_WRONLY, O_TRUNC } = constants
// O_NONBLOCK: a FIFO that someone put in place of a file must not stop us for ever.
const safeFlags = O_NOFOLLOW | O_NONBLOCK

function code(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : ''
}

async function orMissing<T>(work: Promise<T>): Promise<T | 'missing'> {
  try {
    return await work
  } catch (error) {
    if (code(error) === 'ENOENT') return 'missing'
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
    // Written under another name first: whoever sees the name sees the whole content. It need not outlive the machine.
    await write(draft, [bytes], false)
    try {
      await fs.link(draft, path)
      return 'created'
    } catch (error) {
      if (code(error) === 'EEXIST') return 'taken'
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
      if (code(error) === 'EEXIST') return 'taken'
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
