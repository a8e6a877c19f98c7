/**
 * The types of tree entries: rows that callers pass in, flags and statistics. Nothing here depends on how entries are stored
 * (`store.ts`) or changed (`tree.ts`).
 */
import { InvalidInput } from '@bellwether/protocol'

/**
 * Identifies an entry while it exists, through updates and memory compaction. After a removal the number is reused
 * for another entry.
 */
export type NodeId = number
/** No such entry. */
export const none: NodeId = -1
/** `/`: always a directory, never removed, never counted. */
export const root: NodeId = 0

/** Bits of an entry. Readers do not see `listedInFull`; setting it does not count as a change. */
export const flag = {
  knownByAgent: 1,
  integritySuspect: 2,
  auditSkipped: 4,
  blindSpot: 8,
  /** A directory created because a child arrived before its own row; that row clears it. */
  placeholder: 16,
  /** A symbolic link: stored like a file. */
  symlink: 32,
  /** A directory that the last scan could not read completely. */
  unreadable: 64,
  /** The audit whose mark the directory carries has listed all its children. */
  listedInFull: 256,
} as const

/** Changing one of these is a change of the entry, because readers see them. */
export const shownFlags =
  flag.knownByAgent |
  flag.integritySuspect |
  flag.auditSkipped |
  flag.blindSpot |
  flag.placeholder |
  flag.symlink |
  flag.unreadable

export interface Row {
  readonly isDirectory: boolean
  /** Bytes: a whole number from 0 to 2^53 - 1. */
  readonly size: number
  /** Seconds, as on the wire. */
  readonly modifiedTime: number
  /** Absent: an existing entry keeps its value, a new one gets 0 (unknown). */
  readonly createdTime?: number | undefined
  /** Server ms. Absent: unchanged (0 for a new entry). Present: a realtime row, which always counts as a change. */
  readonly lastUpdatedAt?: number | undefined
  /** Server ms at which a sensor saw the change of a realtime row. */
  readonly seenAt?: number | undefined
  /** The sensor that reported the row. Absent: unchanged. */
  readonly agent?: string | undefined
  /** Bits to set and to clear; `set` wins. */
  readonly set?: number | undefined
  readonly clear?: number | undefined
}

export interface Stats {
  readonly files: number
  readonly directories: number
  /** Sum of file sizes in bytes. */
  readonly size: number
}

/** Throws InvalidInput before anything is written. */
export function checkRow(row: Row): void {
  if (!Number.isSafeInteger(row.size) || row.size < 0)
    throw invalid('size', row.size, 'a whole number of bytes, 0 or more')
  if (!Number.isFinite(row.modifiedTime)) throw invalid('modified_time', row.modifiedTime, 'a number of seconds')
  if (row.createdTime !== undefined && !Number.isFinite(row.createdTime))
    throw invalid('created_time', row.createdTime, 'a number of seconds')
  if (row.lastUpdatedAt !== undefined) checkMs(row.lastUpdatedAt)
}

function checkMs(ms: number): void {
  if (!Number.isSafeInteger(ms) || ms < 0 || ms >= 2 ** 48)
    throw invalid('last_updated_at', ms, 'a whole number of milliseconds')
}

function invalid(field: string, value: number, expected: string): InvalidInput {
  return new InvalidInput(`"${field}" must be ${expected} (got ${value})`, { code: 'invalid_row' })
}
