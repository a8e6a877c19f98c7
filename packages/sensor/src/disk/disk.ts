/**
 * The watched disk: reads the metadata of one path and lists one directory. Symbolic links are never followed. A missing or
 * inaccessible entry is a value, not an error. Paths are relative to the root with a leading '/', as text that can carry any
 * bytes. Calls block, so only worker threads use it.
 */
import { encodeFileName } from '@bellwether/protocol'

/** One entry. The next call overwrites the same object, so copy what you need. Times are seconds, negative before 1970. */
export interface DiskEntry {
  name: string
  isDirectory: boolean
  isRegular: boolean
  isSymlink: boolean
  size: number
  mtime: number
  /** 0 if the filesystem does not report it. */
  createdTime: number
  links: number
}

/** gone: does not exist, or is not a directory; denied: no permission; failed: an I/O error. */
export type Miss = 'gone' | 'denied' | 'failed'

export interface Listing {
  /** The mtime of the directory before its entries were read, and after. */
  readonly mtime: number
  readonly mtimeAfter: number
  readonly createdTime: number
  /** Entries whose name was listed but that could not be found: removed since, or unknown to an outdated cache. */
  readonly vanished: number
  readonly denied: number
}

/**
 * Whether a listing shows everything in the directory. It does not if the directory changed in between, if an entry could not
 * be read, or if the directory has the same mtime and a listed entry was not found: then a network filesystem answered from
 * an outdated cache.
 */
export const isListedInFull = ({ mtime, mtimeAfter, vanished, denied }: Omit<Listing, 'createdTime'>): boolean =>
  mtime === mtimeAfter && vanished === 0 && denied === 0

interface Identity {
  readonly device: string
  readonly inode: string
}

export interface Disk {
  readonly kind: 'native' | 'node'
  stat(path: string): DiskEntry | Miss
  list(path: string, each: (found: DiskEntry) => void): Listing | Miss
  /** Device and inode, which distinguish a directory from one that replaced it. */
  identity(path: string): Identity | undefined
  /** Whether a path or one of its parent directories is excluded; absent if nothing is excluded. */
  isExcluded?(path: string): boolean
}

export const newDiskEntry = (): DiskEntry => ({
  name: '',
  isDirectory: false,
  isRegular: false,
  isSymlink: false,
  size: 0,
  mtime: 0,
  createdTime: 0,
  links: 1,
})

/** Maps an error code of Linux to a miss. */
export function missOf(errno: number | string | undefined): Miss {
  if (errno === 2 || errno === 20 || errno === 40 || errno === 'ENOENT' || errno === 'ENOTDIR' || errno === 'ELOOP')
    return 'gone'
  if (errno === 13 || errno === 1 || errno === 'EACCES' || errno === 'EPERM') return 'denied'
  return 'failed'
}

// oxlint-disable-next-line no-control-regex
const ascii = /^[\u0000-\u007f]*$/

/** The bytes of root + path; '/' is the root itself. */
export function bytesOf(root: Uint8Array, path: string): Buffer {
  const relative = path === '/' ? '' : path
  const tail = ascii.test(relative) ? Buffer.from(relative, 'latin1') : Buffer.from(encodeFileName(relative))
  const bytes = Buffer.concat([root, tail])
  return bytes.length === 0 ? Buffer.from('/') : bytes
}

/** The bytes of the root without a trailing slash; empty for '/'. */
export function rootBytes(root: string): Uint8Array {
  return encodeFileName(root.replace(/\/+$/, ''))
}

export const nameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1)
export const parentOf = (path: string): string => path.slice(0, Math.max(1, path.lastIndexOf('/')))
export const childOf = (directory: string, name: string): string =>
  directory === '/' ? `/${name}` : `${directory}/${name}`
/** Whether the pipe protocol allows a path: absolute within the root, no '.', '..' or empty names, no NUL. */
export const isValidPath = (path: string): boolean =>
  path === '/' || (/^(?:\/(?!\.{1,2}(?:\/|$))[^/\0]+)+$/.test(path) && path.length <= 4_096)
