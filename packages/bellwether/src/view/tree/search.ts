/**
 * Searches a tree by name. A pattern with `*`, `?` or `[` is a glob for the full name, or for the full path if it contains a
 * `/`; any other text matches anywhere in the name (or in the path, if it contains a `/`). The search yields batches; the
 * tree may change between two batches, and an entry that stays is found once. Callers limit the number of results.
 */
import { entryPageBits, inName, liveBit } from './columns.js'
import { none, root, type NodeId } from './entry.js'
import { checkPattern, compileGlob, isGlob, matchGlob, type Glob } from './glob.js'
import { pageBits as namePageBits } from './name-pool.js'
import { bytesOf, nameBytesMax } from './path.js'
import type { TreeReader } from './reader.js'

export interface SearchOptions {
  readonly pattern: string
  /** Searches only below this directory. Default: the whole tree. */
  readonly under?: NodeId | undefined
}

const mask = (1 << entryPageBits) - 1
const namePageMask = (1 << namePageBits) - 1
// Entries per batch: about 1 ms of work.
const batchEntries = 1 << 16

/** Batches (some empty) of the entries found, unordered. Read a batch before you request the next one. */
export function* search(tree: TreeReader, { pattern, under = root }: SearchOptions): Generator<NodeId[]> {
  checkPattern(pattern)
  if (pattern.includes('/')) {
    const top = isGlob(pattern) && pattern.startsWith('/') ? fixedTop(tree, pattern) : root
    const from = innerOf(tree, under, top)
    if (from !== none) yield* searchBelow(tree, from, byPath(pattern))
  } else if (under === root) yield* searchAll(tree, byName(pattern))
  else yield* searchBelow(tree, under, byName(pattern))
}

interface Matcher {
  /** Every matching name contains these bytes. */
  readonly literal: Buffer
  readonly name: Matches
  /** An additional test of the full path. */
  readonly path?: Matches
}
type Matches = (bytes: Buffer, from: number, to: number) => boolean

function byName(pattern: string): Matcher {
  if (isGlob(pattern)) return matcherOf(compileGlob(pattern))
  const literal = bytesOf(pattern)
  return { literal, name: contains(literal) }
}

function byPath(pattern: string): Matcher {
  const literal = Buffer.alloc(0)
  if (!isGlob(pattern)) return { literal, name: () => true, path: contains(bytesOf(pattern)) }
  const glob = compileGlob(pattern.startsWith('/') ? pattern : `**/${pattern}`)
  const last = pattern.slice(pattern.lastIndexOf('/') + 1)
  // `a/**` and a slash inside a set do not constrain the name.
  const name = last === '' || /\*\*|\]/.test(last) ? () => true : matcherOf(compileGlob(last)).name
  return { literal, name, path: matcherOf(glob).name }
}

function matcherOf(glob: Glob): Matcher {
  return { literal: glob.literal, name: (bytes, from, to) => matchGlob(glob, bytes, from, to) }
}

function contains(literal: Buffer): Matches {
  const first = literal[0]!
  // Not indexOf: if the name does not contain the bytes, it would search the rest of the page.
  return (bytes, from, to) => {
    for (let at = from; at + literal.length <= to; at += 1) {
      if (bytes[at] !== first) continue
      let same = 1
      while (same < literal.length && bytes[at + same] === literal[same]) same += 1
      if (same === literal.length) return true
    }
    return false
  }
}

/** The directory that a glob names before its first special character: `/src/lib` of `/src/lib/*.ts`; none if it is missing. */
function fixedTop(tree: TreeReader, pattern: string): NodeId {
  const parts = pattern.split('/')
  const first = parts.findIndex(isGlob)
  const fixed = parts.slice(1, first)
  let top = root
  for (const name of fixed) top = top === none || name === '' ? none : tree.child(top, name)
  return top
}

/** The inner one of two nested directories, or none if they are not nested. */
function innerOf(tree: TreeReader, one: NodeId, other: NodeId): NodeId {
  if (one === none || other === none) return none
  return tree.isWithin(one, other) ? one : tree.isWithin(other, one) ? other : none
}

/** Searches the name pool: each name is tested once, however many entries have it. */
function* searchAll(tree: TreeReader, wanted: Matcher): Generator<NodeId[]> {
  const { store } = tree
  const { pages } = store.entries
  let generation = -1
  let marks: (Uint8Array | undefined)[] = []
  let found: NodeId[] = []
  const step = Math.max(1, batchEntries >> entryPageBits)
  for (let page = 0; page < pages.length && tree.store === store; page += 1) {
    if (generation !== store.names.generation) {
      generation = store.names.generation
      marks = store.names.pages.map((bytes, i) => markNames(bytes, store.names.ends[i]!, wanted))
    }
    const { links, flags, fresh } = pages[page]!
    for (let at = 0; at < fresh; at += 1) {
      const name = links[at * 4 + inName]!
      const marked = marks[name >>> namePageBits]
      if (marked === undefined) continue
      const bit = name & namePageMask
      if ((marked[bit >>> 3]! & (1 << (bit & 7))) !== 0 && (flags[at]! & liveBit) !== 0)
        found.push((page << entryPageBits) | at)
    }
    if ((page + 1) % step !== 0) continue
    yield found
    found = []
  }
  yield found
}

/** One bit per position of a page where a matching name begins; undefined if the page has none. */
function markNames(page: Buffer, end: number, { literal, name }: Matcher): Uint8Array | undefined {
  let marks: Uint8Array | undefined
  const filled = page.subarray(0, end)
  let at = 0
  while (at < end) {
    if (literal.length > 0) {
      const hit = filled.indexOf(literal, at)
      if (hit === -1) break
      // Advance to the name that contains the hit; a hit on a length byte is in no name.
      while (at + 1 + page[at]! <= hit) at += 1 + page[at]!
    }
    const to = at + 1 + page[at]!
    if (to > at + 1 && name(page, at + 1, to)) {
      marks ??= new Uint8Array((1 << namePageBits) >>> 3)
      marks[at >>> 3]! |= 1 << (at & 7)
    }
    at = to
  }
  return marks
}

/** Walks directory by directory and builds the bytes of each path. */
function* searchBelow(tree: TreeReader, top: NodeId, { name, path }: Matcher): Generator<NodeId[]> {
  const { store } = tree
  const open = [top]
  let found: NodeId[] = []
  let visited = 0
  for (let directory = open.pop(); directory !== undefined; directory = open.pop()) {
    // It may have been removed between two batches.
    if (tree.store !== store || !tree.exists(directory) || !tree.isDirectory(directory)) continue
    const start = bytesOf(tree.pathOf(directory) === '/' ? '/' : `${tree.pathOf(directory)}/`)
    const fullPath = Buffer.allocUnsafe(start.length + nameBytesMax)
    start.copy(fullPath)
    for (const child of store.directories.list(store.row(directory))) {
      if (tree.isDirectory(child)) open.push(child)
      const ref = store.page(child).links[(child & mask) * 4 + inName]!
      const bytes = store.names.pages[ref >>> namePageBits]!
      const from = (ref & namePageMask) + 1
      const length = bytes[from - 1]!
      if (!name(bytes, from, from + length)) continue
      if (path !== undefined) {
        for (let i = 0; i < length; i += 1) fullPath[start.length + i] = bytes[from + i]!
        if (!path(fullPath, 0, start.length + length)) continue
      }
      found.push(child)
    }
    visited += tree.childCount(directory)
    if (visited < batchEntries) continue
    yield found
    found = []
    visited = 0
  }
  yield found
}
