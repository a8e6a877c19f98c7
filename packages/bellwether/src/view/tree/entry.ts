/**
 * The words of an entry: what callers hand in and get back. Always holds: nothing here depends on how entries are stored.
 * Leaves to others: everything that happens to them (tree.ts).
 */
import { InvalidInput } from '@bellwether/protocol'

/**
 * Names an entry while it exists, through updates, moves and every tidying of memory; afterwards the number is given to
 * another entry.
 */
export type NodeId = number
/** No such entry. */
export const none: NodeId = -1
/** `/`: always a directory, never removed, not counted. */
export const root: NodeId = 0

/** Bits of an entry. The `spare` ones are the arbitration's own; no reader sees them, and setting one is no change. */
export const flag = {
  knownByAgent: 1,
  integritySuspect: 2,
  auditSkipped: 4,
  blindSpot: 8,
  /** A directory made only because a child came before its own row; that row clears it. */
  placeholder: 16,
  spare1: 256,
  spare2: 512,
  spare3: 1024,
  spare4: 2048,
} as const

/** What readers see: changing one of these is a change of the entry. */
export const shownFlags =
  flag.knownByAgent | flag.integritySuspect | flag.auditSkipped | flag.blindSpot | flag.placeholder

export interface Row {
  readonly isDirectory: boolean
  /** Bytes: a whole number from 0 to 2^53 - 1. */
  readonly size: number
  /** Seconds, as on the wire. */
  readonly modifiedTime: number
  /** Left out: an existing entry keeps its own, a new one has 0 (unknown). */
  readonly createdTime?: number | undefined
  /** The server's physical ms. Left out: kept (0 for a new entry). Given: a realtime row, which always is a change. */
  readonly lastUpdatedAt?: number | undefined
  /** Who told us. Left out: kept. */
  readonly agent?: string | undefined
  /** Bits to set and bits to clear in the same step; `set` wins. */
  readonly set?: number | undefined
  readonly clear?: number | undefined
  /** The audit that saw it (a mark of nextAuditMark). Left out: kept (0 for a new entry). */
  readonly auditMark?: number | undefined
}

export interface Stats {
  readonly files: number
  readonly directories: number
  /** Sum of the files' sizes. */
  readonly size: number
}

/** Throws before anything is written. */
export function checkRow(row: Row): void {
  if (!Number.isSafeInteger(row.size) || row.size < 0) throw wrong('size', row.size, 'a whole number of bytes from 0')
  if (!Number.isFinite(row.modifiedTime)) throw wrong('modified_time', row.modifiedTime, 'seconds')
  if (row.createdTime !== undefined && !Number.isFinite(row.createdTime))
    throw wrong('created_time', row.createdTime, 'seconds')
  if (row.lastUpdatedAt !== undefined) checkMs(row.lastUpdatedAt)
}

export function checkMs(ms: number): void {
  if (!Number.isSafeInteger(ms) || ms < 0 || ms >= 2 ** 48) throw wrong('last_updated_at', ms, 'whole milliseconds')
}

function wrong(what: string, value: number, hint: string): InvalidInput {
  return new InvalidInput(`${what} cannot be ${value}`, { code: 'invalid_row', hint })
}
