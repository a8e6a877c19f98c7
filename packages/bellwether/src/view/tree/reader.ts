/**
 * The reading half of a tree: finds entries and returns their fields. Nothing here changes what a reader can see (but it may
 * sort the children of a directory, or recompute a newest time). `tree.ts` writes; `search.ts` and `diff.ts` query many
 * entries.
 */
import { callerBits, directoryPageBits, entryPageBits, high, inName, inSeq, liveBit } from './columns.js'
import { flag, none, root, type NodeId, type Stats } from './entry.js'
import { depthMax, ParsedPath, textOf } from './path.js'
import { brokenTree, Store } from './store.js'

const mask = (1 << entryPageBits) - 1
const directoryMask = (1 << directoryPageBits) - 1

export class TreeReader {
  /** The storage, for the query modules of this folder and for `render/`. */
  store: Store
  protected readonly parsed: ParsedPath
  /** The result of the last resolve(), cached because a reader that then writes asks for the same path twice. */
  protected at: NodeId = root
  private known = 0
  /** Writers set it to undefined when they add or remove entries. */
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

  /** Bytes of all arrays, for memory statistics. */
  get bytes(): number {
    return this.store.bytes
  }

  find(path: string): NodeId {
    return this.resolve(path) === this.parsed.depth ? this.at : none
  }

  /** The file that a new entry at `path` would have to turn into a directory, or none. */
  fileAbove(path: string): NodeId {
    return this.resolve(path) < this.parsed.depth && !this.store.isDirectory(this.at) ? this.at : none
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

  isSymlink(node: NodeId): boolean {
    return this.has(node, flag.symlink)
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

  /** Compares the name of an entry with that of an entry of another tree, by bytes, like the order of children(). */
  compareNames(node: NodeId, tree: TreeReader, other: NodeId): number {
    const ref = this.store.page(node).links[(node & mask) * 4 + inName]!
    const otherRef = tree.store.page(other).links[(other & mask) * 4 + inName]!
    return this.store.names.compare(ref, tree.store.names, otherRef)
  }

  pathOf(node: NodeId): string {
    if (node === root) return '/'
    const { names } = this.store
    let length = 0
    let depth = 0
    for (let up = node; up !== root; up = this.parentOf(up)) {
      depth += 1
      if (depth > depthMax || !this.exists(up)) throw brokenTree(up)
      length += 1 + names.lengthOf(this.store.page(up).links[(up & mask) * 4 + inName]!)
    }
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

  /** Children in the byte order of their names; empty for a file. The caller owns the array. */
  children(node: NodeId): Uint32Array {
    if (!this.store.isDirectory(node)) return new Uint32Array()
    this.store.sort(node)
    return this.store.directories.list(this.store.row(node)).slice()
  }

  /** Children in no order, for callers that visit all of them. */
  unsorted(node: NodeId): Uint32Array {
    return this.store.isDirectory(node) ? this.store.directories.list(this.store.row(node)).slice() : new Uint32Array()
  }

  childCount(node: NodeId): number {
    return this.store.isDirectory(node) ? this.store.directories.count(this.store.row(node)) : 0
  }

  /** Every entry below, parents before their children. Callers must not change the tree during the walk. */
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

  /** Whether the predicate is true for the entry or any below it: like walk, without a generator step per entry. */
  some(node: NodeId, predicate: (node: NodeId) => boolean): boolean {
    if (predicate(node)) return true
    const open = this.store.isDirectory(node) ? [node] : []
    for (let directory = open.pop(); directory !== undefined; directory = open.pop()) {
      for (const child of this.store.directories.list(this.store.row(directory))) {
        if (predicate(child)) return true
        if (this.store.isDirectory(child)) open.push(child)
      }
    }
    return false
  }

  isWithin(node: NodeId, top: NodeId): boolean {
    let depth = 0
    let up = node
    for (; up !== top && up !== root; up = this.parentOf(up)) {
      depth += 1
      if (depth > depthMax || !this.exists(up)) throw brokenTree(up)
    }
    return up === top
  }

  /** The next entry by number, or none: a sweep over all entries that may pause while others change the tree. */
  nextNode(after: NodeId): NodeId {
    const { pages } = this.store.entries
    let at = (after + 1) & mask
    for (let page = (after + 1) >>> entryPageBits; page < pages.length; page += 1, at = 0) {
      const { flags, fresh } = pages[page]!
      for (; at < fresh; at += 1) if ((flags[at]! & liveBit) !== 0) return (page << entryPageBits) | at
    }
    return none
  }

  /** The statistics of everything below, without the entry itself; stored, not computed. */
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

  /** Follows the path as far as it exists; returns how many names exist and leaves the last entry in `at`. */
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
}
