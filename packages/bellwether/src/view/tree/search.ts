/**
 * Looks for names over a whole tree. A pattern with `*`, `?` or `[` is a glob for the whole name, or for the whole path when
 * it holds a `/`; any other text is looked for anywhere in the name (in the path, when it holds a `/`). Always holds: the
 * search comes in batches, between which the tree may change: an entry that stays where it is is found once. Leaves to
 * others: limits on how many results a client gets.
 */
import { entryPageBits, inName, liveBit } from './columns.js'
import { none, root, type NodeId } from './entry.js'
import { checkPattern, compileGlob, isGlob, matchGlob, type Glob } from './glob.js'
import { bytesOf, nameBytesMax } from './path.js'
import type { TreeReader } from './reader.js'

export interface SearchOptions {
  readonly pattern: string
  /** Only below this directory. Default: everywhere. */
  readonly under?: NodeId | undefined
}

const mask = (1 << entryPageBits) - 1
const namePageBits = 20
const namePageMask = (1 << namePageBits) - 1
// Entries between two batches: about a millisecond of work, then others get their turn.
const batchEntries = 1 << 16

/** Batches (some empty) of the entries found, in no order. Read what you need of a batch before you ask for the next. */
export function* search(tree: TreeReader, { pattern, under = root }: SearchOptions): Generator<NodeId[]> {
  checkPattern(pattern)
  if (pattern.includes('/')) {
    const top = isGlob(pattern) && pattern.startsWith('/') ? fixedTop(tree, pattern) : root
    const from = deeper(tree, under, top)
    if (from !== none) yield* searchBelow(tree, from, byPath(pattern))
  } else if (under === root) yield* searchAll(tree, byName(pattern))
  else yield* searchBelow(tree, under, byName(pattern))
}

interface Wanted {
  /** Every matching name holds these bytes. */
  readonly literal: Buffer
  readonly name: Matches
  /** What the whole path must be, beyond its name. */
  readonly path?: Matches
}
type Matches = (bytes: Buffer, from: number, to: number) => boolean

function byName(pattern: string): Wanted {
  if (isGlob(pattern)) return whole(compileGlob(pattern))
  const literal = bytesOf(pattern)
  return { literal, name: holds(literal) }
}

function byPath(pattern: string): Wanted {
  const literal = Buffer.alloc(0)
  if (!isGlob(pattern)) return { literal, name: () => true, path: holds(bytesOf(pattern)) }
  const glob = compileGlob(pattern.startsWith('/') ? pattern : `**/${pattern}`)
  const last = pattern.slice(pattern.lastIndexOf('/') + 1)
  // `a/**` and a slash inside a set say nothing about the name.
  const name = last === '' || /\*\*|\]/.test(last) ? () => true : whole(compileGlob(last)).name
  return { literal, name, path: whole(glob).name }
}

function whole(glob: Glob): Wanted {
  return { literal: glob.literal, name: (bytes, from, to) => matchGlob(glob, bytes, from, to) }
}

function holds(literal: Buffer): Matches {
  const first = literal[0]!
  // Not indexOf: it would look through the rest of the page when the name does not hold it.
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

/** The directory that a glob names before its first special character: `/src/lib` of `/src/lib/*.ts`; none: not there. */
function fixedTop(tree: TreeReader, pattern: string): NodeId {
  const parts = pattern.split('/')
  const first = parts.findIndex(isGlob)
  const fixed = parts.slice(1, first)
  let top = root
  for (const name of fixed) top = top === none || name === '' ? none : tree.child(top, name)
  return top
}

/** Whichever of two directories is inside the other, or none. */
function deeper(tree: TreeReader, one: NodeId, other: NodeId): NodeId {
  if (one === none || other === none) return none
  return tree.isWithin(one, other) ? one : tree.isWithin(other, one) ? other : none
}

/** By the name pool: each name is looked at once, however many entries have it. */
function* searchAll(tree: TreeReader, wanted: Wanted): Generator<NodeId[]> {
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

/** One bit for each place of a page where a matching name begins; undefined where none does. */
function markNames(page: Buffer, end: number, { literal, name }: Wanted): Uint8Array | undefined {
  let marks: Uint8Array | undefined
  const filled = page.subarray(0, end)
  let at = 0
  while (at < end) {
    if (literal.length > 0) {
      const hit = filled.indexOf(literal, at)
      if (hit === -1) break
      // From name to name up to the one that the hit is in; a hit on a length byte is in none of them.
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

/** From directory to directory, with the path's bytes at hand. */
function* searchBelow(tree: TreeReader, top: NodeId, { name, path }: Wanted): Generator<NodeId[]> {
  const { store } = tree
  const open = [top]
  let found: NodeId[] = []
  let looked = 0
  for (let directory = open.pop(); directory !== undefined; directory = open.pop()) {
    // It may have gone while the caller had its turn.
    if (tree.store !== store || !tree.exists(directory) || !tree.isDirectory(directory)) continue
    const start = bytesOf(tree.pathOf(directory) === '/' ? '/' : `${tree.pathOf(directory)}/`)
    const whole = Buffer.allocUnsafe(start.length + nameBytesMax)
    start.copy(whole)
    for (const child of store.directories.list(store.row(directory))) {
      if (tree.isDirectory(child)) open.push(child)
      const ref = store.page(child).links[(child & mask) * 4 + inName]!
      const bytes = store.names.pages[ref >>> namePageBits]!
      const from = (ref & namePageMask) + 1
      const length = bytes[from - 1]!
      if (!name(bytes, from, from + length)) continue
      if (path !== undefined) {
        for (let i = 0; i < length; i += 1) whole[start.length + i] = bytes[from + i]!
        if (!path(whole, 0, start.length + length)) continue
      }
      found.push(child)
    }
    looked += tree.childCount(directory)
    if (looked < batchEntries) continue
    yield found
    found = []
    looked = 0
  }
  yield found
}
