/**
 * Pins the root: the directory that was watched first stays the watched one while the process lives. An unmounted root reads
 * as an empty directory and a replaced one as another tree; both are a failure of the source, never a million deletes. A
 * remounted filesystem may have another device number; it is the same if its root inode is.
 */
import type { Disk } from './disk.js'

export interface RootIdentity {
  readonly device: string
  readonly inode: string
  /** Its parent is on another device. */
  readonly isMount: boolean
}

export function rootIdentity(disk: Disk): RootIdentity | undefined {
  const self = disk.identity('/')
  const root = disk.stat('/')
  if (self === undefined || typeof root === 'string' || !root.isDirectory) return undefined
  const parent = disk.identity('/..')
  return { ...self, isMount: parent !== undefined && parent.device !== self.device }
}

/** Why the root is not the pinned one; undefined if it is. */
export function rootProblem(pinned: RootIdentity, now: RootIdentity | undefined): string | undefined {
  if (now === undefined) return 'the root is gone'
  if (now.inode === pinned.inode && (now.device === pinned.device || (pinned.isMount && now.isMount))) return undefined
  if (pinned.isMount && !now.isMount) return 'the root is unmounted'
  return 'another directory has replaced the root'
}
