/**
 * Creates, links, unlinks and frees entries, and maintains the totals of directories. Between calls an entry is in its
 * parent's list, in the child table and in the counts of all its ancestors, or in none of them. `tree.ts` handles paths,
 * flags, changes and limits.
 */
import {
  directoryBit,
  directoryPageBits,
  entryBytes,
  EntryPage,
  entryPageBits,
  liveBit,
  inName,
  inSlot,
} from './columns.js'
import { Directories } from './directories.js'
import { NamePool } from './name-pool.js'
import { depthMax } from './path.js'
import { Slab } from './slab.js'
import { sortByName } from './sorting.js'
import { ChildTable } from './child-table.js'

const mask = (1 << entryPageBits) - 1
const directoryMask = (1 << directoryPageBits) - 1
/** A rebuild of less than one page of names saves nothing. */
const rebuildMinBytes = 1 << 20
// Freeing this many takes about 1 ms; larger subtrees are freed step by step.
const freedAtOnceMax = 4_096
// Detached entries freed per new entry: all are free before the same number of new entries exists.
const freedPerNewEntry = 4

export class Store {
  readonly entries = new Slab<EntryPage>(entryPageBits, () => new EntryPage(1 << entryPageBits), new EntryPage(0))
  readonly directories = new Directories()
  readonly names: NamePool
  private readonly table: ChildTable
  /** Entries removed since the names were last rebuilt, and the bytes of their names. */
  private removals = 0
  private removedBytes = 0
  /** Removed directories whose entries still have to be freed. */
  private readonly detached: number[] = []

  // The operands of `matches`: fields, so that a lookup creates no closure.
  private wantedParent = 0
  private wantedBytes: Uint8Array = new Uint8Array()
  private wantedFrom = 0
  private wantedTo = 0
  private readonly matches = (entry: number): boolean => {
    const page = this.page(entry)
    return (
      page.links[(entry & mask) * 4] === this.wantedParent &&
      this.names.equals(page.links[(entry & mask) * 4 + inName]!, this.wantedBytes, this.wantedFrom, this.wantedTo)
    )
  }

  constructor(seed: number) {
    this.names = new NamePool(seed)
    this.table = new ChildTable((entry) => this.tableHash(entry))
    const root = this.entries.take()
    const page = this.page(root)
    page.size[root] = this.directories.make(root, 0, 0)
    page.flags[root] = directoryBit | liveBit
  }

  page(node: number): EntryPage {
    return this.entries.pages[node >>> entryPageBits]!
  }

  isLive(node: number): boolean {
    return node >= 0 && ((this.entries.pages[node >>> entryPageBits]?.flags[node & mask] ?? 0) & liveBit) !== 0
  }

  isDirectory(node: number): boolean {
    return (this.page(node).flags[node & mask]! & directoryBit) !== 0
  }

  /** The directory row of an entry. */
  row(directory: number): number {
    return this.page(directory).size[directory & mask]!
  }

  lookup(parent: number, hash: number, bytes: Uint8Array, from: number, to: number): number {
    this.wantedParent = parent
    this.wantedBytes = bytes
    this.wantedFrom = from
    this.wantedTo = to
    return this.table.find(mix(hash, parent), this.matches)
  }

  /** Creates an entry without children, links and counts it. */
  make(parent: number, name: number, hash: number, isDirectory: boolean, size: number, modified: number): number {
    if (this.detached.length > 0) this.freeSome(freedPerNewEntry)
    const node = this.entries.take()
    const page = this.page(node)
    const at = node & mask
    page.links[at * 4 + inName] = name
    page.modified[at] = modified
    page.created[at] = 0
    page.updatedLow[at] = 0
    page.updatedHigh[at] = 0
    page.agent[at] = 0
    page.audit[at] = 0
    page.flags[at] = isDirectory ? directoryBit | liveBit : liveBit
    page.size[at] = isDirectory ? this.directories.make(node, size, modified) : size
    this.link(node, parent, hash)
    return node
  }

  /** Removes the entry and everything below it; returns how many entries. A large subtree is freed later, step by step. */
  discard(node: number): number {
    this.unlink(node)
    if (this.isDirectory(node) && this.below(node) > freedAtOnceMax) {
      this.rebuildNamesIfWasteful()
      return this.detach(node)
    }
    const gone = this.isDirectory(node) ? this.freeBelow(node) : 0
    if (this.isDirectory(node)) this.directories.drop(this.row(node))
    this.free(node)
    this.rebuildNamesIfWasteful()
    return gone + 1
  }

  /** Frees up to `max` entries of removed directories. Name references may change. */
  freeDetached(max: number): void {
    this.freeSome(max)
    this.rebuildNamesIfWasteful()
  }

  private freeSome(max: number): void {
    const { detached: dead, directories } = this
    for (let left = max; left > 0 && dead.length > 0; left -= 1) {
      const directory = dead.at(-1)!
      const row = this.row(directory)
      const child = directories.pop(row)
      if (child === -1) {
        dead.pop()
        directories.drop(row)
        this.free(directory)
        continue
      }
      this.table.remove(this.tableHash(child), child)
      if (this.isDirectory(child)) dead.push(child)
      else this.free(child)
    }
  }

  /** Marks a subtree as not live, so that no lookup finds it: a few ns per entry, while freeing takes some 100 ns. */
  private detach(top: number): number {
    const open = [top]
    this.page(top).flags[top & mask] = directoryBit
    for (let directory = open.pop(); directory !== undefined; directory = open.pop()) {
      for (const child of this.directories.list(this.row(directory))) {
        const { flags } = this.page(child)
        flags[child & mask]! &= directoryBit
        if (flags[child & mask] !== 0) open.push(child)
      }
    }
    this.detached.push(top)
    return this.below(top) + 1
  }

  private below(directory: number): number {
    const row = this.row(directory)
    const page = this.directories.page(row)
    return page.files[row & directoryMask]! + page.directories[row & directoryMask]!
  }

  /** Frees everything below a directory that is no longer in its ancestors' counts. */
  private freeBelow(directory: number): number {
    const open = [directory]
    let gone = 0
    for (let parent = open.pop(); parent !== undefined; parent = open.pop()) {
      const row = this.row(parent)
      for (const child of this.directories.list(row)) {
        gone += 1
        this.table.remove(this.tableHash(child), child)
        if (this.isDirectory(child)) open.push(child)
        else this.free(child)
      }
      if (parent === directory) continue
      this.directories.drop(row)
      this.free(parent)
    }
    return gone
  }

  /** Changes a file into an empty directory or a directory into a file; returns how many entries below were freed. */
  changeType(node: number, isDirectory: boolean, size: number): number {
    const page = this.page(node)
    const at = node & mask
    const hash = this.names.hashOf(page.links[at * 4 + inName]!)
    const parent = page.links[at * 4]!
    this.unlink(node)
    let gone = 0
    if (isDirectory) {
      page.size[at] = this.directories.make(node, size, page.modified[at]!)
      page.flags[at]! |= directoryBit
    } else {
      gone = this.freeBelow(node)
      this.directories.drop(this.row(node))
      page.flags[at]! &= ~directoryBit
      page.size[at] = size
    }
    this.link(node, parent, hash)
    this.rebuildNamesIfWasteful()
    return gone
  }

  setSize(node: number, size: number): void {
    const page = this.page(node)
    const at = node & mask
    if (this.isDirectory(node)) {
      this.directories.page(page.size[at]!).ownSize[page.size[at]! & directoryMask] = size
      return
    }
    for (let up = page.links[at * 4]!, depth = 0; ; up = this.page(up).links[(up & mask) * 4]!, depth += 1) {
      if (depth > depthMax) throw brokenTree(node)
      this.directories.addSize(this.row(up), page.size[at]!, -1)
      this.directories.addSize(this.row(up), size, 1)
      if (up === 0) break
    }
    page.size[at] = size
  }

  sizeOf(node: number): number {
    const value = this.page(node).size[node & mask]!
    return this.isDirectory(node) ? this.directories.page(value).ownSize[value & directoryMask]! : value
  }

  setModified(node: number, modified: number): void {
    const page = this.page(node)
    const before = page.modified[node & mask]!
    page.modified[node & mask] = modified
    const from = this.isDirectory(node) ? node : page.links[(node & mask) * 4]!
    if (modified < before) this.markStale(from, before)
    else this.raiseNewest(from, modified)
  }

  /** The newest modification time at or below; recomputed only where the newest entry was removed or became older. */
  newest(node: number): number {
    if (!this.isDirectory(node)) return this.page(node).modified[node & mask]!
    const row = this.row(node)
    const page = this.directories.page(row)
    const at = row & directoryMask
    if (page.stale[at] === 0) return page.newest[at]!
    let newest = this.page(node).modified[node & mask]!
    for (const child of this.directories.list(row)) newest = Math.max(newest, this.newest(child))
    page.newest[at] = newest
    page.stale[at] = 0
    return newest
  }

  /** Sorts a directory's children by the bytes of their names; the order lasts until a child is added or removed. */
  sort(directory: number): void {
    const row = this.row(directory)
    if (!this.directories.isSorted(row))
      this.setChildOrder(directory, sortByName(this, this.directories.list(row).slice()))
  }

  /** Stores the children of a directory in the given order; `order` contains the same entries. */
  setChildOrder(directory: number, order: Uint32Array): void {
    const row = this.row(directory)
    this.directories.list(row).set(order)
    for (const [slot, node] of order.entries()) this.page(node).links[(node & mask) * 4 + inSlot] = slot
    this.directories.markSorted(row)
  }

  /** The reference of an entry's name in the name pool. */
  nameOf(node: number): number {
    return this.page(node).links[(node & mask) * 4 + inName]!
  }

  get bytes(): number {
    return this.entries.bytes(entryBytes) + this.directories.bytes + this.names.bytes + this.table.bytes
  }

  private link(node: number, parent: number, hash: number): void {
    const page = this.page(node)
    page.links[(node & mask) * 4] = parent
    page.links[(node & mask) * 4 + inSlot] = this.directories.push(this.row(parent), node)
    this.table.add(mix(hash, parent), node)
    this.count(node, parent, 1)
    // The exact time: an upper bound would be wrong for ancestors that are not marked stale.
    this.raiseNewest(parent, this.newest(node))
  }

  private unlink(node: number): void {
    const page = this.page(node)
    const parent = page.links[(node & mask) * 4]!
    const slot = page.links[(node & mask) * 4 + inSlot]!
    const moved = this.directories.take(this.row(parent), slot)
    if (moved !== -1) this.page(moved).links[(moved & mask) * 4 + inSlot] = slot
    this.table.remove(this.tableHash(node), node)
    this.count(node, parent, -1)
    this.markStale(parent, this.newestBound(node))
  }

  private count(node: number, parent: number, times: 1 | -1): void {
    const isDirectory = this.isDirectory(node)
    const value = this.page(node).size[node & mask]!
    for (let up = parent, depth = 0; ; up = this.page(up).links[(up & mask) * 4]!, depth += 1) {
      if (depth > depthMax) throw brokenTree(node)
      const row = this.row(up)
      const page = this.directories.page(row)
      if (isDirectory) {
        page.directories[row & directoryMask]! += times
        this.directories.addBelow(row, value, times)
      } else {
        page.files[row & directoryMask]! += times
        this.directories.addSize(row, value, times)
      }
      if (up === 0) return
    }
  }

  private newestBound(node: number): number {
    if (!this.isDirectory(node)) return this.page(node).modified[node & mask]!
    const row = this.row(node)
    return this.directories.page(row).newest[row & directoryMask]!
  }

  /** `newest` of an ancestor is at least that of its descendants, so the first one that is not lower ends the climb. */
  private raiseNewest(from: number, modified: number): void {
    for (let up = from, depth = 0; ; up = this.page(up).links[(up & mask) * 4]!, depth += 1) {
      if (depth > depthMax) throw brokenTree(from)
      const row = this.row(up)
      const page = this.directories.page(row)
      if (page.newest[row & directoryMask]! >= modified) return
      page.newest[row & directoryMask] = modified
      if (up === 0) return
    }
  }

  private markStale(from: number, modified: number): void {
    for (let up = from, depth = 0; ; up = this.page(up).links[(up & mask) * 4]!, depth += 1) {
      if (depth > depthMax) throw brokenTree(from)
      const row = this.row(up)
      const page = this.directories.page(row)
      if (page.newest[row & directoryMask]! > modified) return
      page.stale[row & directoryMask] = 1
      if (up === 0) return
    }
  }

  private free(node: number): void {
    const page = this.page(node)
    this.removals += 1
    this.removedBytes += this.names.lengthOf(page.links[(node & mask) * 4 + inName]!) + 1
    page.flags[node & mask] = 0
    this.entries.give(node)
  }

  private tableHash(node: number): number {
    const page = this.page(node)
    return mix(this.names.hashOf(page.links[(node & mask) * 4 + inName]!), page.links[(node & mask) * 4]!)
  }

  /** A rebuild reads every entry, so it waits until as many entries were removed as exist. */
  private rebuildNamesIfWasteful(): void {
    const { filled } = this.names
    // Detached entries are found in the child table by their names.
    if (this.detached.length > 0) return
    if (filled < rebuildMinBytes || this.removedBytes < filled / 2) return
    if (this.removals < this.below(0)) return
    this.removals = 0
    this.removedBytes = 0
    this.names.rebuild((copy) => {
      for (const entries of this.entries.pages)
        for (let at = 0; at < entries.fresh; at += 1)
          if ((entries.flags[at]! & liveBit) !== 0)
            entries.links[at * 4 + inName] = copy(entries.links[at * 4 + inName]!)
    })
  }
}

/** A defect: the parents of an entry do not lead to the root. Loops over parents have a bound, so that none runs without end. */
export const brokenTree = (node: number) =>
  new Error(`The tree is broken: entry ${node} was removed, or its parents form a loop`)

function mix(hash: number, parent: number): number {
  let mixed = Math.imul(hash ^ Math.imul(parent + 1, 0x9e3779b1), 0x85ebca6b)
  mixed ^= mixed >>> 15
  mixed = Math.imul(mixed, 0xc2b2ae35)
  return (mixed ^ (mixed >>> 13)) >>> 0
}
