/** What the scanner and its threads say to each other. A thread holds nothing between two messages. */
import type { Miss } from '../disk/disk.js'
import type { RootIdentity } from '../disk/root.js'

/** What an earlier audit learned of a directory: enough to leave it unread when its time has not moved. */
export interface Memory {
  readonly mtime: number
  readonly subdirectories: readonly string[]
  /** Files that changed recently: edited in place they leave the directory's time alone, so each is looked at. */
  readonly hotFiles: readonly string[]
}

export interface DirectoryTask {
  readonly path: string
  /** The parent's listing has already told of it. */
  readonly listed: boolean
  readonly memory?: Memory
}

/**
 * snapshot · job: rows of everything; a job closes directories. audit: the same with markers, memory and parent times.
 * directories: no rows, only directories and their times. look: single paths.
 */
export type ScanMode = 'snapshot' | 'audit' | 'job' | 'directories'

/** What a thread knows from its start. */
export interface ScanSetup {
  readonly root: string
  readonly native: boolean
  readonly exclude: readonly string[]
}

/** What it needs to know of one scan. */
export interface ScanOrder {
  readonly mode: ScanMode
  readonly chunkRows: number
  /** First word: rows that are out and not yet taken; a thread waits above the limit. Second: 1 once cancelled. */
  readonly outstanding: SharedArrayBuffer
  readonly outstandingMax: number
  /** Files younger than this (seconds since the epoch, on the file server's clock) are hot. */
  readonly hotSince: number
}

export type ToScanThread =
  | { readonly type: 'directories'; readonly order: ScanOrder; readonly tasks: readonly DirectoryTask[] }
  | { readonly type: 'look'; readonly paths: readonly string[] }
  | { readonly type: 'root' }
  | { readonly type: 'stop' }

export interface DirectoryResult {
  readonly path: string
  readonly miss?: Miss
  readonly mtime: number
  readonly mtimeAfter: number
  readonly silent: boolean
  readonly subdirectories: readonly string[]
  /** Mode `audit`; undefined when there are too many to remember. */
  readonly hotFiles?: readonly string[]
  /** Mode `directories`: the times of the sub-directories, in their order. */
  readonly subdirectoryTimes?: readonly number[]
  readonly vanished: number
  readonly denied: number
}

export interface Looked {
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
  /** `roots`: what the root was before the looks and after them. */
  | {
      readonly type: 'looked'
      readonly looks: readonly Looked[]
      readonly roots: readonly (RootIdentity | undefined)[]
    }
  | { readonly type: 'root'; readonly root: RootIdentity | undefined }
