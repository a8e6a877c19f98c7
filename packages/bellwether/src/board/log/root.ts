/**
 * Where the files of a task root are, and whether they may be touched. Always: every path lies in the root as the disk sees it
 * (links that lead out of it are refused), and the root lies on a disk of this machine: on a network filesystem neither an
 * exclusive create nor an append is what it says (hazard 19). What the files hold is left to others.
 */
import { join, sep } from 'node:path'
import { InvalidInput, Retryable, Terminal } from '@bellwether/protocol'
import type { Disk } from '../../ports/disk/disk.js'
import type { Machine } from '../../ports/disk/machine.js'

export interface TaskRoot {
  readonly path: string
  readonly state: string
  readonly locks: string
  readonly log: string
  readonly snapshot: string
  readonly audit: string
}

const networkTypes =
  /^(?:nfs\d*|cifs|smb\w*|ncpfs|ncp|afs|ceph|coda|lustre|gpfs|9p|virtiofs|gfs2?|ocfs2|beegfs\w*|orangefs|glusterfs|davfs\d*|fuse\.(?!fuse-overlayfs$|overlay|ntfs|exfat|ext\d|bindfs|mergerfs|gocryptfs|encfs|lxcfs|portal)\S*)$/i

/** Whether files there are shared with other machines, as far as the filesystem's name tells. */
export function isNetwork(filesystem: string): boolean {
  return networkTypes.test(filesystem)
}

export async function findRoot(
  path: string,
  { disk, machine }: { readonly disk: Disk; readonly machine: Machine },
  make: 'make' | 'look' = 'look',
): Promise<TaskRoot> {
  const real = await realFolder(path, disk)
  const filesystem = await machine.filesystem(real)
  if (filesystem !== undefined && isNetwork(filesystem)) {
    throw new Terminal(
      `${path} lies on a network filesystem (${filesystem}), where locks and appends cannot be trusted`,
      {
        code: 'network_filesystem',
        hint: 'Keep the task root on a local disk, and let other machines go through the HTTP interface.',
      },
    )
  }
  const state = join(real, 'state')
  const locks = join(state, 'locks')
  if (make === 'make') await explainDisk(locks, () => disk.makeFolder(locks))
  for (const folder of [state, locks]) await within(folder, real, disk)
  return {
    path: real,
    state,
    locks,
    log: join(state, 'tasks.jsonl'),
    snapshot: join(state, 'tasks.snapshot.json'),
    audit: join(locks, 'recovery.audit.jsonl'),
  }
}

async function realFolder(path: string, disk: Disk): Promise<string> {
  const nothing = () =>
    new InvalidInput(`there is no folder ${path}`, {
      code: 'no_such_root',
      hint: 'Name the task root with --root DIR.',
    })
  let real: string
  try {
    real = await disk.realPath(path)
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENOTDIR') throw nothing()
    throw diskError(path, error)
  }
  const entry = await disk.stat(real)
  if (entry === 'missing' || entry.kind !== 'folder') throw nothing()
  return real
}

async function within(folder: string, root: string, disk: Disk): Promise<void> {
  const entry = await disk.stat(folder)
  if (entry === 'missing') return
  if (entry.kind === 'link') {
    const target = await explainDisk(folder, () => disk.realPath(folder))
    if (!target.startsWith(root + sep)) throw outside(folder, target)
  } else if (entry.kind !== 'folder') {
    throw new Terminal(`${folder} is not a folder`, {
      code: 'no_folder',
      hint: 'Move it away: the board keeps files there.',
    })
  }
}

function outside(path: string, target: string): Terminal {
  return new Terminal(`${path} leads out of the task root, to ${target}`, {
    code: 'symlink_refused',
    hint: 'The board writes inside its root only. Replace the link by a folder.',
  })
}

/** Runs `work` on a file of the root; what the system refuses is told in words. */
export async function explainDisk<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw diskError(path, error)
  }
}

export function errorCode(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : ''
}

function diskError(path: string, error: unknown): unknown {
  const cause = { cause: error }
  switch (errorCode(error)) {
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return new Terminal(`${path} may not be written or read by this user`, {
        ...cause,
        code: 'permission_denied',
        hint: 'Check the owner and the mode of the file and of its folders.',
      })
    case 'ENOSPC':
    case 'EDQUOT':
      return new Retryable(`the disk with ${path} is full`, { ...cause, code: 'disk_full', afterMs: 5_000 })
    case 'ELOOP':
      return new Terminal(`${path} is a symbolic link`, {
        ...cause,
        code: 'symlink_refused',
        hint: 'The board follows no links. Put the file itself there.',
      })
    case 'ENOTFILE':
    case 'EISDIR':
    case 'ENXIO':
      return new Terminal(`${path} is not a regular file`, { ...cause, code: 'no_regular_file', hint: 'Move it away.' })
    default:
      return error
  }
}
