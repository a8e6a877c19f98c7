/**
 * The part of an entry that only directories have: the list of children, and the counts, sizes and newest time of everything
 * below. The children of a directory are adjacent in one arena of entry numbers. A list that outgrows its place moves to the
 * end of the arena; when too much of the arena is unused, all lists are compacted (4 bytes per child: 20 ms for 10 million).
 */
import { DirectoryPage, directoryBytes, directoryPageBits } from './columns.js'
import { Slab } from './slab.js'

const mask = (1 << directoryPageBits) - 1
const arenaMin = 1_024
// With less waste, compaction costs more than it saves.
const wasteMax = 0.2
// Sizes are below 2^53 and entries below 2^26, so sums of halves split here are exact.
const half = 2 ** 27

export class Directories {
  private readonly slab = new Slab<DirectoryPage>(
    directoryPageBits,
    () => new DirectoryPage(1 << directoryPageBits),
    new DirectoryPage(0),
  )
  private arena: Uint32Array<ArrayBuffer> = new Uint32Array(arenaMin)
  private top = 0
  /** Slots below `top` that belong to no list. */
  private wasted = 0

  make(node: number, ownSize: number, newest: number): number {
    const row = this.slab.take()
    const page = this.slab.pages[row >>> directoryPageBits]!
    const at = row & mask
    page.node[at] = node
    page.block[at] = 0
    page.count[at] = 0
    page.room[at] = 0
    page.sorted[at] = 0
    page.files[at] = 0
    page.directories[at] = 0
    page.sizeLow[at] = 0
    page.sizeHigh[at] = 0
    page.stale[at] = 0
    page.newest[at] = newest
    page.ownSize[at] = ownSize
    return row
  }

  drop(row: number): void {
    this.wasted += this.page(row).room[row & mask]!
    this.page(row).stale[row & mask] = freed
    this.slab.give(row)
    // Also compact when lists shrink, not only when they grow.
    if (this.wasted > arenaMin && this.wasted > this.top * 0.5) this.compact(0)
  }

  page(row: number): DirectoryPage {
    return this.slab.pages[row >>> directoryPageBits]!
  }

  count(row: number): number {
    return this.page(row).count[row & mask]!
  }

  /** The children, unordered; valid until the next change. */
  list(row: number): Uint32Array {
    const page = this.page(row)
    const from = page.block[row & mask]!
    return this.arena.subarray(from, from + page.count[row & mask]!)
  }

  /** Adds a child and returns its slot. */
  push(row: number, child: number): number {
    const page = this.page(row)
    const at = row & mask
    const count = page.count[at]!
    if (count === page.room[at]!) this.growList(page, at)
    this.arena[page.block[at]! + count] = child
    page.count[at] = count + 1
    return count
  }

  /** Removes a child. The last child moves to its slot and is returned; -1 if the removed child was the last. */
  take(row: number, slot: number): number {
    const page = this.page(row)
    const at = row & mask
    const last = page.count[at]! - 1
    const from = page.block[at]!
    page.count[at] = last
    if (page.sorted[at]! > slot) page.sorted[at] = slot
    if (last === slot) return -1
    const moved = this.arena[from + last]!
    this.arena[from + slot] = moved
    return moved
  }

  /** Removes the last child of a detached directory; -1 if there is none. */
  pop(row: number): number {
    const page = this.page(row)
    const at = row & mask
    if (page.count[at] === 0) return -1
    page.count[at]! -= 1
    return this.arena[page.block[at]! + page.count[at]!]!
  }

  isSorted(row: number): boolean {
    const page = this.page(row)
    return page.sorted[row & mask] === page.count[row & mask]
  }

  markSorted(row: number): void {
    this.page(row).sorted[row & mask] = this.page(row).count[row & mask]!
  }

  addSize(row: number, size: number, times: 1 | -1): void {
    const page = this.page(row)
    const upper = Math.floor(size / half)
    page.sizeHigh[row & mask]! += times * upper
    page.sizeLow[row & mask]! += times * (size - upper * half)
  }

  size(row: number): number {
    const page = this.page(row)
    return page.sizeHigh[row & mask]! * half + page.sizeLow[row & mask]!
  }

  /** Adds or subtracts everything below `other`, without `other` itself. */
  addBelow(row: number, other: number, times: 1 | -1): void {
    const page = this.page(row)
    const from = this.page(other)
    const at = row & mask
    const its = other & mask
    page.files[at]! += times * from.files[its]!
    page.directories[at]! += times * from.directories[its]!
    page.sizeHigh[at]! += times * from.sizeHigh[its]!
    page.sizeLow[at]! += times * from.sizeLow[its]!
  }

  get bytes(): number {
    return this.slab.bytes(directoryBytes) + this.arena.byteLength
  }

  private growList(page: DirectoryPage, at: number): void {
    const count = page.count[at]!
    const room = count + (count >> 3) + 2
    const from = page.block[at]!
    const isLast = count > 0 && from + count === this.top
    this.reserve(isLast ? room - count : room)
    // compact() may have moved the list, so read its place again.
    const now = page.block[at]!
    const has = page.room[at]!
    if (count > 0 && now + has === this.top) {
      page.room[at] = Math.max(room, has)
      this.top = now + page.room[at]!
      return
    }
    if (has > count) return
    this.arena.copyWithin(this.top, now, now + count)
    this.wasted += has
    page.block[at] = this.top
    page.room[at] = room
    this.top += room
  }

  private reserve(slots: number): void {
    if (this.top + slots <= this.arena.length) return
    if (this.wasted > this.top * wasteMax) this.compact(slots)
    if (this.top + slots <= this.arena.length) return
    const grown = new Uint32Array(Math.ceil((this.top + slots) * (this.top > 1 << 20 ? 1.125 : 1.5)))
    grown.set(this.arena.subarray(0, this.top))
    this.arena = grown
  }

  /** Moves every list to a new arena, each with 1/8 of space to grow. */
  private compact(extra: number): void {
    let total = extra
    for (const page of this.slab.pages)
      for (let at = 0; at < page.fresh; at += 1) if (isLive(page, at)) total += roomFor(page.count[at]!)
    const arena = new Uint32Array(Math.max(arenaMin, Math.ceil(total * 1.1)))
    let top = 0
    for (const page of this.slab.pages) {
      for (let at = 0; at < page.fresh; at += 1) {
        if (!isLive(page, at)) continue
        const from = page.block[at]!
        const count = page.count[at]!
        arena.set(this.arena.subarray(from, from + count), top)
        page.block[at] = top
        page.room[at] = roomFor(count)
        top += roomFor(count)
      }
    }
    this.arena = arena
    this.top = top
    this.wasted = 0
  }
}

/** The value of `stale` in a free row. */
const freed = 2
const isLive = (page: DirectoryPage, at: number): boolean => page.stale[at] !== freed
const roomFor = (count: number): number => (count === 0 ? 0 : count + (count >> 3) + 1)
