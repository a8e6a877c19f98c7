/** What the source and its watching thread say to each other, and what a watcher of either kind does for the thread. */
import type { FileEventType } from '@bellwether/protocol'
import type { RootIdentity } from '../disk/root.js'
import type { DirectoryTime } from './hot-set.js'

/** Rows of one kind, in order, as JSON text. */
export interface Part {
  readonly type: FileEventType
  readonly rows: string
  readonly count: number
}

export interface WatchStats {
  watches: number
  /** Directories that should be watched and are not: the set or the kernel's limit is full. */
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
  /** What this host's clock, as the sensor sees it, is ahead of the system's. */
  readonly wallOffsetMs: number
  /** Seconds that the file server's clock is ahead of ours. */
  readonly drift: number
  readonly hotSeconds: number
  readonly pollMs: number
  readonly partialPauseMs: number
  /** First word: 1 while nobody takes what we send. */
  readonly held: SharedArrayBuffer
}

export type ToWatchThread =
  /** Oldest first. `tell`: report what is in them; else only where the time has moved since it was read. */
  | { readonly type: 'watch'; readonly directories: readonly DirectoryTime[]; readonly tell: boolean }
  | { readonly type: 'sync'; readonly id: number }
  /** Report again whatever is in the watched directories. */
  | { readonly type: 'rescan' }
  /** Reads nothing until told to go on; the kernel's queue fills meanwhile. */
  | { readonly type: 'pause'; readonly on: boolean }
  | { readonly type: 'stop' }

export type FromWatchThread =
  | { readonly type: 'ready'; readonly kind: 'inotify' | 'polling'; readonly reason?: string }
  | { readonly type: 'parts'; readonly parts: readonly Part[]; readonly stats: WatchStats }
  | { readonly type: 'alive'; readonly stats: WatchStats }
  | { readonly type: 'watching'; readonly stats: WatchStats }
  | { readonly type: 'synced'; readonly id: number }
  | { readonly type: 'overflow' }
  | { readonly type: 'failed'; readonly reason: string }

export interface Watcher {
  readonly stats: WatchStats
  watch(directories: readonly DirectoryTime[], tell: boolean): void
  rescan(): void
  /** Reads what the kernel has; true when an overflow was among it. */
  drain(): boolean
  /** Looks at a slice of what was reported; `all`: also at what would better wait. True while there is more. */
  step(all: boolean): boolean
  readonly hasDeletes: boolean
  /** Hands over the rows so far. */
  take(): Part[]
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
