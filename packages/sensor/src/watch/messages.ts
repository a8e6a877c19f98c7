/** The messages between the root watcher and its thread, and the interface of the inotify and polling watchers. */
import type { FileEventType } from '@bellwether/protocol'
import type { Disk } from '../disk/disk.js'
import type { RootIdentity } from '../disk/root.js'
import type { DirectoryTime } from './hot-set.js'

/** Consecutive rows of one event type, as JSON text. */
export interface RowGroup {
  readonly type: FileEventType
  readonly rows: string
  readonly count: number
}

export interface WatcherOptions {
  readonly disk: Disk
  /** How many directories are watched. */
  readonly limit: number
  /** Seconds since the epoch on the file server's clock. */
  readonly serverNow: () => number
  readonly monotonicMs: () => number
  /** A file without changes for this long counts as complete. */
  readonly hotSeconds: number
}

export interface WatchStats {
  watches: number
  /** Directories that are not watched because the watch set or the kernel's limit is full. */
  unwatched: number
  evictions: number
  denied: number
  vanished: number
  overflows: number
}

export interface WatchSetup {
  readonly root: string
  readonly native: boolean
  readonly exclude: readonly string[]
  readonly pinned: RootIdentity
  readonly limit: number
  readonly wakeFd: number
  /** Ms that the sensor's clock is ahead of the system clock (tests skew it). */
  readonly wallOffsetMs: number
  /** Seconds that the file server's clock is ahead of this host's. */
  readonly drift: number
  readonly hotSeconds: number
  readonly pollMs: number
  readonly partialPauseMs: number
  /** First word: 1 while no pipe keeps up with the events. */
  readonly backpressure: SharedArrayBuffer
}

export type ToWatchThread =
  /** Oldest first. `report`: report their entries; otherwise only those of directories whose mtime has changed. */
  | { readonly type: 'watch'; readonly directories: readonly DirectoryTime[]; readonly report: boolean }
  /** Watch these too, and list those that changed since `mtime`. If the watch set is full, only those newer than `since`. */
  | { readonly type: 'follow'; readonly directories: readonly DirectoryTime[]; readonly since: number }
  | { readonly type: 'sync'; readonly id: number }
  /** Report the entries of all watched directories again. */
  | { readonly type: 'rescan' }
  /** Stop or continue reading; while stopped, the kernel's queue fills. */
  | { readonly type: 'pause'; readonly on: boolean }
  | { readonly type: 'stop' }

export type FromWatchThread =
  | { readonly type: 'ready'; readonly kind: 'inotify' | 'polling'; readonly reason?: string }
  | { readonly type: 'parts'; readonly parts: readonly RowGroup[]; readonly stats: WatchStats }
  | { readonly type: 'alive'; readonly stats: WatchStats }
  | { readonly type: 'watching'; readonly stats: WatchStats }
  | { readonly type: 'synced'; readonly id: number }
  | { readonly type: 'overflow' }
  | { readonly type: 'failed'; readonly reason: string }

export interface Watcher {
  readonly stats: WatchStats
  watch(directories: readonly DirectoryTime[], report: boolean): void
  follow(directories: readonly DirectoryTime[], since: number): void
  rescan(): void
  /** Reads the kernel's queue; true if it had overflowed. */
  drain(): boolean
  /** Handles a slice of the changes; `all` includes those that would wait. True if there are more. */
  step(all: boolean): boolean
  readonly hasDeletes: boolean
  /** Returns the rows so far and clears them. */
  take(): RowGroup[]
  wait(ms: number): void
  close(): void
}

export const noStats = (): WatchStats => ({
  watches: 0,
  unwatched: 0,
  evictions: 0,
  denied: 0,
  vanished: 0,
  overflows: 0,
})
