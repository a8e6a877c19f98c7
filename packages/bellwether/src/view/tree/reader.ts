/**
 * The reading half of a tree: finds entries and tells what is known of them. Always holds: nothing here changes what a
 * reader can see (a directory's children may be put in order, and a newest time looked for again). Leaves to others:
 * writing and changes (tree.ts), and the queries that go over many entries (subtree.ts, search.ts, diff.ts).
 */
import { callerBits, directoryPageBits, entryPageBits, high, inName, inSeq, liveBit } from './columns.js'
import { none, root, type NodeId, type Stats } from './entry.js'
import { ParsedPath, textOf } from './path.js'
import { Store } from './store.js'

const mask = (1 << entryPageBits) - 1
const directoryMask = (1 << directoryPageBits) - 1

export class TreeReader {
  /** The storage: for the queries beside this class, not for callers. */
  store: Store
  protected readonly parsed: ParsedPath
  /** Where resolve() arrived, and with which path: who looks and then writes asks for the same path twice. */
  protected at: NodeId = root
  private known = 0
  /** Writers set it to undefined when entries come, go or move. */
  protected resolved: string | undefined

  constructor(protected readonly seed: number) {
    this.parsed = new ParsedPath(seed)
    this.store = new Store(seed)
  }

  /** Entries besides the root. */
  get count(): number {
    const row = this.store.row(root)
    const page = this.store.directories.page(row)
    return page.files[row & directoryMask]! + page.directories[row & directoryMask]!
  }

  /** Bytes held by all arrays: what a memory figure should be compared with. */
  get bytes(): number {
    return this.store.bytes
  }

  find(path: string): NodeId {
    return this.resolve(path) === this.parsed.depth ? this.at : none
  }

  child(directory: NodeId, name: string): NodeId {
    if (name.includes('/')) return none
    const { parsed, store } = this
    this.resolved = undefined
    parsed.parse(`/${name}`)
    return store.lookup(directory, parsed.hashes[0]!, parsed.bytes, parsed.starts[0]!, parsed.ends[0]!)
  }

  exists(node: NodeId): boolean {
    return this.store.isLive(node)
  }

  isDirectory(node: NodeId): boolean {
    return this.store.isDirectory(node)
  }

  size(node: NodeId): number {
    return this.store.sizeOf(node)
  }

  modifiedTime(node: NodeId): number {
    return this.store.page(node).modified[node & mask]!
  }

  createdTime(node: NodeId): number {
    return this.store.page(node).created[node & mask]!
  }

  lastUpdatedAt(node: NodeId): number {
    const page = this.store.page(node)
    return page.updatedHigh[node & mask]! * high + page.updatedLow[node & mask]!
  }

  flags(node: NodeId): number {
    return this.store.page(node).flags[node & mask]! & callerBits
  }

  has(node: NodeId, bits: number): boolean {
    return (this.flags(node) & bits) !== 0
  }

  auditMark(node: NodeId): number {
    return this.store.page(node).audit[node & mask]!
  }

  changeSeq(node: NodeId): number {
    const page = this.store.page(node)
    return page.seqHigh[node & mask]! * high + page.links[(node & mask) * 4 + inSeq]!
  }

  parentOf(node: NodeId): NodeId {
    return node === root ? none : this.store.page(node).links[(node & mask) * 4]!
  }

  nameOf(node: NodeId): string {
    return this.store.names.text(this.store.page(node).links[(node & mask) * 4 + inName]!)
  }

  /** The order of an entry's name and that of an entry of another tree, by their bytes: the order of children(). */
  compareNames(node: NodeId, tree: TreeReader, other: NodeId): number {
    const ref = this.store.page(node).links[(node & mask) * 4 + inName]!
    const otherRef = tree.store.page(other).links[(other & mask) * 4 + inName]!
    return this.store.names.compare(ref, tree.store.names, otherRef)
  }

  pathOf(node: NodeId): string {
    if (node === root) return '/'
    const { names } = this.store
    let length = 0
    for (let up = node; up !== root; up = this.parentOf(up))
      length += 1 + names.lengthOf(this.store.page(up).links[(up & mask) * 4 + inName]!)
    const bytes = Buffer.allocUnsafe(length)
    for (let up = node, at = length; up !== root; up = this.parentOf(up)) {
      const name = this.store.page(up).links[(up & mask) * 4 + inName]!
      at -= names.lengthOf(name)
      names.copyInto(name, bytes, at)
      at -= 1
      bytes[at] = 47
    }
    return textOf(bytes, 0, length)
  }

  /** Ids in the order of their names' bytes; empty for a file. The array is the caller's. */
  children(node: NodeId): Uint32Array {
    if (!this.store.isDirectory(node)) return new Uint32Array()
    this.store.sort(node)
    return this.store.directories.list(this.store.row(node)).slice()
  }

  /** The same in no order: for those who look at all of them. */
  unsorted(node: NodeId): Uint32Array {
    return this.store.isDirectory(node) ? this.store.directories.list(this.store.row(node)).slice() : new Uint32Array()
  }

  childCount(node: NodeId): number {
    return this.store.isDirectory(node) ? this.store.directories.count(this.store.row(node)) : 0
  }

  /** Every entry below, parents before their children, in no other order. Change nothing while walking. */
  *walk(node: NodeId): Generator<NodeId> {
    if (!this.store.isDirectory(node)) return
    const open = [node]
    for (let directory = open.pop(); directory !== undefined; directory = open.pop()) {
      for (const child of this.store.directories.list(this.store.row(directory))) {
        yield child
        if (this.store.isDirectory(child)) open.push(child)
      }
    }
  }

  /** Whether it holds for the entry or any below it: as walk, without a step for each. */
  some(node: NodeId, holds: (node: NodeId) => boolean): boolean {
    if (holds(node)) return true
    const open = this.store.isDirectory(node) ? [node] : []
    for (let directory = open.pop(); directory !== undefined; directory = open.pop()) {
      for (const child of this.store.directories.list(this.store.row(directory))) {
        if (holds(child)) return true
        if (this.store.isDirectory(child)) open.push(child)
      }
    }
    return false
  }

  isWithin(node: NodeId, top: NodeId): boolean {
    let up = node
    while (up !== top && up !== root) up = this.parentOf(up)
    return up === top
  }

  /** The next entry by number, or none: a sweep over everything that may rest and change entries between two steps. */
  nextNode(after: NodeId): NodeId {
    const { pages } = this.store.entries
    let at = (after + 1) & mask
    for (let page = (after + 1) >>> entryPageBits; page < pages.length; page += 1, at = 0) {
      const { flags, fresh } = pages[page]!
      for (; at < fresh; at += 1) if ((flags[at]! & liveBit) !== 0) return (page << entryPageBits) | at
    }
    return none
  }

  /** What is below, itself not counted; kept, not computed. */
  stats(node: NodeId): Stats {
    if (!this.store.isDirectory(node)) return { files: 0, directories: 0, size: 0 }
    const row = this.store.row(node)
    const page = this.store.directories.page(row)
    return {
      files: page.files[row & directoryMask]!,
      directories: page.directories[row & directoryMask]!,
      size: this.store.directories.size(row),
    }
  }

  /** The newest modifiedTime at or below. */
  newest(node: NodeId): number {
    return this.store.newest(node)
  }

  /** Follows the path as far as it exists; returns how many names that is, and leaves the entry in `at`. */
  protected resolve(path: string): number {
    if (path === this.resolved) return this.known
    const { parsed, store } = this
    this.resolved = undefined
    parsed.parse(path)
    this.at = root
    this.known = 0
    for (; this.known < parsed.depth; this.known += 1) {
      const i = this.known
      const next = store.lookup(this.at, parsed.hashes[i]!, parsed.bytes, parsed.starts[i]!, parsed.ends[i]!)
      if (next === none) break
      this.at = next
    }
    this.resolved = path
    return this.known
  }

  /** How many levels are below. */
  protected height(node: NodeId): number {
    let height = 0
    let level = this.store.isDirectory(node) ? [node] : []
    for (; level.length > 0; height += 1) {
      const next: NodeId[] = []
      for (const directory of level)
        for (const child of this.store.directories.list(this.store.row(directory)))
          if (this.store.isDirectory(child)) next.push(child)
      level = next
    }
    return height
  }
}
