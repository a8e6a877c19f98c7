/**
 * What a sandboxed program sees of the file system, as an ordered list of mounts: a later one covers what an earlier one showed. Everything
 * that no mount names does not exist in the sandbox. Rendered by bubblewrap.ts and namespaces.ts.
 */
import { existsSync, lstatSync, readdirSync, readlinkSync, realpathSync, statSync } from 'node:fs'
import { dirname, isAbsolute, join, relative } from 'node:path'
import type { Account } from '../scratch.js'

export type Mount =
  /** A file or folder of the machine, at `to`. */
  | { readonly kind: 'read' | 'write'; readonly from: string; readonly to: string }
  /** An empty folder in memory. */
  | { readonly kind: 'empty'; readonly to: string }
  | { readonly kind: 'link'; readonly to: string; readonly target: string }

export const readOnly = (path: string, to = path): Mount => ({ kind: 'read', from: path, to })
export const writable = (path: string, to = path): Mount => ({ kind: 'write', from: path, to })

/** Hides a file or folder. Nothing is mounted where it does not exist. */
export function hidden(path: string): Mount[] {
  const found = statSync(path, { throwIfNoEntry: false })
  if (found === undefined) return []
  return [found.isDirectory() ? { kind: 'empty', to: path } : { kind: 'read', from: '/dev/null', to: path }]
}

export function isWithin(folder: string, path: string): boolean {
  const way = relative(folder, path)
  return way === '' || (way !== '..' && !way.startsWith('../') && !isAbsolute(way))
}

/** Whether a mount shows this path of the machine under its own name. */
export const covers = (mounts: readonly Mount[], path: string) =>
  mounts.some(
    (mount) => mount.kind !== 'empty' && (mount.kind === 'link' || mount.from === mount.to) && isWithin(mount.to, path),
  )

/** Whether another account may read the file or folder, by the modes on the way to it. Memberships in further groups do not count. */
export function isReadable(path: string, { uid, gid }: Account): boolean {
  const may = (at: string, bits: number) => {
    const found = statSync(at, { throwIfNoEntry: false })
    if (found === undefined) return false
    const shift = found.uid === uid ? 6 : found.gid === gid ? 3 : 0
    return ((found.mode >> shift) & bits) === bits
  }
  for (let at = dirname(path); ; at = dirname(at)) {
    if (!may(at, 0o1)) return false
    if (at === dirname(at)) return may(path, 0o4)
  }
}

// Programs, libraries and what they need to start. No data: /home, /root, /srv, /var, /run, /mnt and the rest stay outside.
const programFolders = [
  '/usr',
  '/bin',
  '/sbin',
  '/lib',
  '/lib32',
  '/lib64',
  '/libx32',
  '/opt',
  '/nix',
  '/snap',
  '/etc',
  '/home/linuxbrew/.linuxbrew',
  '/run/current-system',
  '/var/lib/ca-certificates',
]

/**
 * The system's programs and settings, read-only. `isRoot`: files that only root may read are hidden, because the sandbox has root's files, and what
 * root may write in /proc becomes read-only: the kernel asks for the user there, not for capabilities. A pattern for core dumps is a program of the
 * machine.
 */
export function systemMounts(isRoot: boolean, secrets: () => readonly string[] = secretsOfEtc): Mount[] {
  const shown = programFolders.flatMap((path): Mount[] => {
    const found = lstatSync(path, { throwIfNoEntry: false })
    if (found === undefined) return []
    return found.isSymbolicLink() ? [{ kind: 'link', to: path, target: readlinkSync(path) }] : [readOnly(path)]
  })
  const ofRoot = isRoot ? [...secrets().flatMap(hidden), ...kernelFiles().map((path) => readOnly(path))] : []
  return [...shown, ...ofRoot, { kind: 'empty', to: '/var/tmp' }]
}

const anyoneWrites = 0o222

/** What a process can write in /proc that is not its own. */
function kernelFiles(): string[] {
  return readdirSync('/proc')
    .filter((name) => !/^\d+$/.test(name))
    .map((name) => join('/proc', name))
    .filter((path) => {
      const found = lstatSync(path, { throwIfNoEntry: false })
      return found?.isDirectory() === true || (found?.isFile() === true && (found.mode & anyoneWrites) !== 0)
    })
}

const depthMax = 5
const othersRead = 0o004

/** The files and folders below that other accounts cannot read. */
export function secretsIn(folder: string, depth = 1): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const at = join(folder, entry.name)
    if (!entry.isFile() && !entry.isDirectory()) return []
    const mode = lstatSync(at, { throwIfNoEntry: false })?.mode
    if (mode === undefined) return []
    if ((mode & othersRead) === 0) return [at]
    return entry.isDirectory() && depth < depthMax ? secretsIn(at, depth + 1) : []
  })
}

let ofEtc: readonly string[] | undefined

/** Read once per process: packages that are installed later keep their defaults. */
const secretsOfEtc = () => (ofEtc ??= secretsIn('/etc'))

/** The real path, if there is one. */
export function realOf(path: string): string | undefined {
  return existsSync(path) ? realpathSync(path) : undefined
}
