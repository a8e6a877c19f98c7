/**
 * The paths of a task root. Every path lies inside the root after links are resolved, and the root is on a local disk:
 * on a network filesystem, exclusive creates and appends are not reliable (hazard 19). Also explains disk errors.
 */
import { join, sep } from 'node:path'
import { errorCode, hasCode } from '@bellwether/base'
import { InvalidInput, Retryable, Terminal } from '@bellwether/protocol'
import type { Disk } from '../../ports/disk/disk.js'
import type { Machine } from '../../ports/disk/machine.js'

export interface TaskRoot {
  readonly path: string
  readonly state: string
  readonly locks: string
  readonly log: string
  readonly snapshot: string
}

/** In the folder of the locks. */
export const auditName = 'recovery.audit.jsonl'

const networkTypes =
  /^(?:nfs\d*|cifs|smb\w*|ncpfs|ncp|afs|ceph|coda|lustre|gpfs|9p|virtiofs|gfs2?|ocfs2|beegfs\w*|orangefs|glusterfs|davfs\d*|fuse\.(?!fuse-overlayfs$|overlay|ntfs|exfat|ext\d|bindfs|mergerfs|gocryptfs|encfs|lxcfs|portal)\S*)$/i

/** Whether a filesystem of this type is shared with other machines. */
export function isNetwork(filesystem: string): boolean {
  return networkTypes.test(filesystem)
}

export async function findRoot(
  path: string,
  { disk, machine }: { readonly disk: Disk; readonly machine: Machine },
  mode: 'create' | 'existing' = 'existing',
): Promise<TaskRoot> {
  const real = await realFolder(path, disk)
  const filesystem = await machine.filesystem(real)
  if (filesystem !== undefined && isNetwork(filesystem)) {
    throw new Terminal(
      `Cannot use task root ${path}: locks and appends are not reliable on a network filesystem (${filesystem}).`,
      { code: 'network_filesystem', hint: 'Move the task root to a local disk; other machines can use the HTTP API.' },
    )
  }
  const state = join(real, 'state')
  const locks = join(state, 'locks')
  // Before and after: a link in place of `state` must not make the board create a folder elsewhere.
  for (const folder of [state, locks]) await within(folder, real, disk)
  if (mode === 'create') {
    await explainDisk(locks, () => disk.makeFolder(locks))
    for (const folder of [state, locks]) await within(folder, real, disk)
  }
  return { path: real, state, locks, log: join(state, 'tasks.jsonl'), snapshot: join(state, 'tasks.snapshot.json') }
}

async function realFolder(path: string, disk: Disk): Promise<string> {
  const notFound = () =>
    new InvalidInput(`Cannot open task root ${path}: it is not a folder.`, {
      code: 'no_such_root',
      hint: 'Name the task root with --root DIR.',
    })
  let real: string
  try {
    real = await disk.realPath(path)
  } catch (error) {
    if (hasCode(error, 'ENOENT', 'ENOTDIR')) throw notFound()
    throw diskError(path, error)
  }
  const entry = await disk.stat(real)
  if (entry === 'missing' || entry.kind !== 'folder') throw notFound()
  return real
}

async function within(folder: string, root: string, disk: Disk): Promise<void> {
  const entry = await disk.stat(folder)
  if (entry === 'missing') return
  if (entry.kind === 'link') {
    const target = await explainDisk(folder, () => disk.realPath(folder))
    if (!target.startsWith(root + sep)) throw outside(folder, target)
  } else if (entry.kind !== 'folder') {
    throw new Terminal(`Cannot use the task root: ${folder} is not a folder.`, {
      code: 'no_folder',
      hint: 'Move it away; the board creates a folder there.',
    })
  }
}

function outside(path: string, target: string): Terminal {
  return new Terminal(`Cannot use ${path}: the link points outside the task root, to ${target}.`, {
    code: 'symlink_refused',
    hint: 'Replace the link with a folder: the board writes only inside its root.',
  })
}

/** Runs `work` on a file of the root and explains errors of the operating system. */
export async function explainDisk<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw diskError(path, error)
  }
}

/** The state folder around a file of it. */
const stateOf = (path: string) => path.replace(/(\/state)\/.*$/, '$1')

function diskError(path: string, error: unknown): unknown {
  const cause = { cause: error }
  switch (errorCode(error)) {
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return new Terminal(`Cannot read or write ${path}: permission denied.`, {
        ...cause,
        code: 'permission_denied',
        hint: `If it was created through sudo: sudo chown -R "$(id -un)" ${stateOf(path)}. Otherwise check the owner and mode of the file and of its folders.`,
      })
    case 'ENOSPC':
    case 'EDQUOT':
      return new Retryable(`Cannot write ${path}: the disk is full.`, {
        ...cause,
        code: 'disk_full',
        afterMs: 5_000,
        hint: 'Free some space; the write can then be retried.',
      })
    case 'ELOOP':
      return new Terminal(`Cannot open ${path}: it is a symbolic link.`, {
        ...cause,
        code: 'symlink_refused',
        hint: 'Replace the link with the file: the board does not follow links.',
      })
    case 'ENOTFILE':
    case 'EISDIR':
    case 'ENXIO':
      return new Terminal(`Cannot open ${path}: it is not a regular file.`, {
        ...cause,
        code: 'no_regular_file',
        hint: 'Move it away.',
      })
    default:
      return error
  }
}
