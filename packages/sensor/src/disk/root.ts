/**
 * The root is pinned: what was watched first is what is watched for as long as the process lives. An unmounted root reads
 * as an empty directory and a replaced one as another tree; either is a failure of the source, never a million deletes.
 * A filesystem that is mounted again may come back under another device number, and is the same if its root inode is.
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
  const found = disk.look('/')
  if (self === undefined || typeof found === 'string' || !found.isDirectory) return undefined
  const parent = disk.identity('/..')
  return { ...self, isMount: parent !== undefined && parent.device !== self.device }
}

/** What is wrong with the root, in a sentence; undefined when it is the pinned one. */
export function rootTrouble(pinned: RootIdentity, now: RootIdentity | undefined): string | undefined {
  if (now === undefined) return 'the root is gone'
  if (now.inode === pinned.inode && (now.device === pinned.device || (pinned.isMount && now.isMount))) return undefined
  if (pinned.isMount && !now.isMount) return 'the root is unmounted'
  return 'another directory has taken the place of the root'
}
