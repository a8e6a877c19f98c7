/** The messages between the scanner and its threads. A thread keeps no state between two messages. */
import type { Miss } from '../disk/disk.js'
import type { RootIdentity } from '../disk/root.js'

/** What an earlier audit learned about a directory: enough to skip it if its mtime has not changed. */
export interface KnownDirectory {
  readonly mtime: number
  readonly subdirectories: readonly string[]
  /** Recently changed files. Editing a file in place does not change the directory's mtime, so each is read again. */
  readonly hotFiles: readonly string[]
}

export interface DirectoryTask {
  readonly path: string
  /** The listing of its parent already reported it. */
  readonly isListed: boolean
  readonly known?: KnownDirectory
}

/**
 * snapshot: rows of everything. job: the same with closing markers. audit: the same with closing markers, known directories
 * and parent mtimes. directories: no rows, only directories and their mtimes.
 */
export type ScanMode = 'snapshot' | 'audit' | 'job' | 'directories'

/** The settings of a thread. */
export interface ScanSetup {
  readonly root: string
  readonly native: boolean
  readonly exclude: readonly string[]
}

/** The settings of one scan. */
export interface ScanSettings {
  readonly mode: ScanMode
  readonly chunkRows: number
  /** In characters. */
  readonly chunkLength: number
  /** First word: bytes sent and not yet consumed; a thread waits above the limit. Second word: 1 once the scan is cancelled. */
  readonly outstanding: SharedArrayBuffer
  readonly outstandingMax: number
  /** Files younger than this (seconds since the epoch, on the file server's clock) are hot. */
  readonly hotSince: number
}

export type ToScanThread =
  | { readonly type: 'directories'; readonly settings: ScanSettings; readonly tasks: readonly DirectoryTask[] }
  | { readonly type: 'stat'; readonly paths: readonly string[] }
  | { readonly type: 'root' }
  | { readonly type: 'stop' }

export interface DirectoryResult {
  readonly path: string
  readonly miss?: Miss
  readonly mtime: number
  readonly mtimeAfter: number
  readonly unchanged: boolean
  readonly subdirectories: readonly string[]
  /** Mode `audit`; undefined if there are too many to remember. */
  readonly hotFiles?: readonly string[]
  /** Mode `directories`: the mtimes of the subdirectories, in the same order. */
  readonly subdirectoryTimes?: readonly number[]
  readonly vanished: number
  readonly denied: number
}

export interface PathStat {
  readonly path: string
  readonly miss?: Miss
  readonly mtime?: number
  readonly size?: number
  /** The row, as JSON. */
  readonly row?: string
  readonly isDirectory?: boolean
}

export type FromScanThread =
  | { readonly type: 'rows'; readonly count: number; readonly text: Uint8Array }
  | { readonly type: 'done'; readonly results: readonly DirectoryResult[] }
  /** `roots`: the identity of the root before and after the paths were read. */
  | {
      readonly type: 'stats'
      readonly stats: readonly PathStat[]
      readonly roots: readonly (RootIdentity | undefined)[]
    }
  | { readonly type: 'root'; readonly root: RootIdentity | undefined }
