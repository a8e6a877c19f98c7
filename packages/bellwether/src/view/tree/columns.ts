/**
 * The typed-array columns of entries and directories. A row exists only in these columns; there is no JavaScript object per
 * entry. `store.ts` keeps the columns consistent.
 */
import type { Page } from './slab.js'

/** Bits of `flags` that only the tree uses, above those of callers. */
export const directoryBit = 1 << 15
export const liveBit = 1 << 14
export const callerBits = (1 << 14) - 1

/** A Uint16 column holds the bits above a Uint32 column: 48 bits are 8,900 years of ms, or 8 years of 1,000,000 changes/s. */
export const high = 2 ** 32

// 16,384 rows × 54 B is under 1 MB: small enough for a small view, few enough pages for 60 million entries.
export const entryPageBits = 14
export const entryBytes = 54
/** Offsets in a row of `links`; the parent is at 0. */
export const inName = 1
export const inSlot = 2
export const inSeq = 3

export class EntryPage implements Page {
  /**
   * Four numbers per row, adjacent because a lookup reads them together from one cache line: the parent, the reference into
   * the name pool, the position among the parent's children, and the lower half of the change number.
   */
  readonly links: Uint32Array
  /** The size of a file; for a directory, the number of its directory row. */
  readonly size: Float64Array
  readonly modified: Float64Array
  readonly created: Float64Array
  readonly updatedLow: Uint32Array
  readonly updatedHigh: Uint16Array
  readonly seqHigh: Uint16Array
  readonly flags: Uint16Array
  readonly agent: Uint16Array
  readonly audit: Uint16Array
  live = 0
  free = 0
  fresh = 0

  constructor(rows: number) {
    const buffer = new ArrayBuffer(rows * entryBytes)
    this.size = new Float64Array(buffer, 0, rows)
    this.modified = new Float64Array(buffer, rows * 8, rows)
    this.created = new Float64Array(buffer, rows * 16, rows)
    this.links = new Uint32Array(buffer, rows * 24, rows * 4)
    this.updatedLow = new Uint32Array(buffer, rows * 40, rows)
    this.updatedHigh = new Uint16Array(buffer, rows * 44, rows)
    this.seqHigh = new Uint16Array(buffer, rows * 46, rows)
    this.flags = new Uint16Array(buffer, rows * 48, rows)
    this.agent = new Uint16Array(buffer, rows * 50, rows)
    this.audit = new Uint16Array(buffer, rows * 52, rows)
  }

  readonly stride = 4

  get link(): Uint32Array {
    return this.links
  }
}

export const directoryPageBits = 10
export const directoryBytes = 68

export class DirectoryPage implements Page {
  readonly node: Uint32Array
  /** Children: `count` entry numbers in the arena from `block` on, with space for `room`. */
  readonly block: Uint32Array
  readonly count: Uint32Array
  readonly room: Uint32Array
  /** How many children, from the first, are in the order of their names. */
  readonly sorted: Uint32Array
  /** Entries below, at any depth. */
  readonly files: Uint32Array
  readonly directories: Uint32Array
  /** Sum of the file sizes below, in two halves that stay exact where one float would round (see `addSize`). */
  readonly sizeLow: Float64Array
  readonly sizeHigh: Float64Array
  /** An upper bound of the modification times at or below; exact unless `stale`. */
  readonly newest: Float64Array
  readonly ownSize: Float64Array
  readonly stale: Uint32Array
  live = 0
  free = 0
  fresh = 0

  constructor(rows: number) {
    this.node = new Uint32Array(rows)
    this.block = new Uint32Array(rows)
    this.count = new Uint32Array(rows)
    this.room = new Uint32Array(rows)
    this.sorted = new Uint32Array(rows)
    this.files = new Uint32Array(rows)
    this.directories = new Uint32Array(rows)
    this.stale = new Uint32Array(rows)
    this.sizeLow = new Float64Array(rows)
    this.sizeHigh = new Float64Array(rows)
    this.newest = new Float64Array(rows)
    this.ownSize = new Float64Array(rows)
  }

  readonly stride = 1

  get link(): Uint32Array {
    return this.node
  }
}
