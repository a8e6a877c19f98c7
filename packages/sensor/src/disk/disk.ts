/**
 * The watched disk: look at one path, list one directory. Always: symbolic links are looked at, never followed; a thing
 * that vanished or is closed to us is a value, not an error; paths are relative to the root with a leading '/', as text
 * that carries any bytes. Blocking on purpose: only threads use it. Who looks where, and when, is left to them.
 */
import { encodeFileName } from '@bellwether/protocol'

/** One entry. The same object is filled again for the next: copy what you keep. Times in seconds, never negative. */
export interface Found {
  name: string
  isDirectory: boolean
  isRegular: boolean
  size: number
  mtime: number
  /** When it was made; 0 where the filesystem does not say. */
  born: number
  links: number
}

/** gone: not there (any more), or no directory; denied: closed to us; failed: the disk has a problem. */
export type Miss = 'gone' | 'denied' | 'failed'

export interface Listed {
  /** The directory's own time before its entries were read, and after. */
  readonly mtime: number
  readonly mtimeAfter: number
  readonly born: number
  /** Entries that vanished between their name and their look. */
  readonly vanished: number
  readonly denied: number
}

export interface Identity {
  readonly device: string
  readonly inode: string
}

export interface Disk {
  readonly kind: 'native' | 'node'
  look(path: string): Found | Miss
  list(path: string, each: (found: Found) => void): Listed | Miss
  /** Device and inode, exactly: what tells a directory from another one that took its place. */
  identity(path: string): Identity | undefined
  /** Whether a path is excluded, as a whole or with a directory above it; absent: nothing is. */
  hides?(path: string): boolean
}

export const emptyFound = (): Found => ({
  name: '',
  isDirectory: false,
  isRegular: false,
  size: 0,
  mtime: 0,
  born: 0,
  links: 1,
})

/** Error codes of Linux that say that a path leads nowhere, or that we may not go there. */
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
  const whole = Buffer.concat([root, tail])
  return whole.length === 0 ? Buffer.from('/') : whole
}

/** The root's bytes without a slash at the end; '/' itself is empty. */
export function rootBytes(root: string): Uint8Array {
  return encodeFileName(root.replace(/\/+$/, ''))
}

export const nameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1)
export const parentOf = (path: string): string => path.slice(0, Math.max(1, path.lastIndexOf('/')))
export const childOf = (directory: string, name: string): string =>
  directory === '/' ? `/${name}` : `${directory}/${name}`
/** A path as the wire allows it: absolute within the root, no '.', '..' or empty names, no NUL. */
export const isPlain = (path: string): boolean =>
  path === '/' || (/^(?:\/(?!\.{1,2}(?:\/|$))[^/\0]+)+$/.test(path) && path.length <= 4_096)
