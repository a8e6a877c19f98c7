/**
 * Writes entries as JSON bytes in pieces, so that a tree of a million entries needs neither a million objects nor a long stop
 * of the event loop. The tree may change between two pieces: an entry is written as it is at that moment, or left out if it
 * was removed. docs/guides/view.md explains the fields.
 */
import { entryFieldNames, type EntryField } from '@bellwether/protocol/http'
import { JsonBytes } from './json-bytes.js'
import { pageBits as namePageBits } from '../tree/name-pool.js'
import { directoryBit, entryPageBits, inName, liveBit } from '../tree/columns.js'
import { sortedChildren } from '../tree/sorted-children.js'
import { flag, none, root, type NodeId, type Tree } from '../tree/tree.js'

export interface RenderOptions {
  /** Levels below the top; 0 writes the entry alone. */
  readonly maxDepth: number
  /** What an entry shows besides its path and type. */
  readonly fields: readonly EntryField[]
  /** Where a sensor mounts the source. */
  readonly uriOf: (agent: string | undefined) => string | undefined
}

// About 1 ms of writing: one directory of 1,000 files. Shorter first pieces were measured: each costs more in wake-ups than it
// saves.
const pieceBytes = 256 * 1_024
// The usual size of an entry, rounded up: an estimate that avoids growing the buffer, not a limit.
const entryBytes = 320
// The last entry of a piece may begin below pieceBytes and end above it.
const spareBytes = 8_192
// Sorting more children takes longer than one slice.
const sortAtOnceMax = 4_096
/** An empty piece: it only yields the event loop. */
const noBytes = Buffer.alloc(0)
const entryMask = (1 << entryPageBits) - 1
const namePageMask = (1 << namePageBits) - 1
/** An upper bound for the constant parts of an entry. */
const constantBytes = 192
/** A byte of a name takes at most six bytes in JSON: `\u0001`. */
const escapeMax = 6

const ascii = (text: string) => Buffer.from(text, 'latin1')
const parts = {
  name: ascii('{"name":"'),
  filePath: ascii('","content_type":"file","path":"'),
  symlinkPath: ascii('","content_type":"symlink","path":"'),
  directoryPath: ascii('","content_type":"directory","path":"'),
  size: ascii('","size":'),
  modified: ascii(',"modified_time":'),
  created: ascii(',"created_time":'),
  onlyPath: ascii('{"path":"'),
  onlyFile: ascii('","content_type":"file"'),
  onlySymlink: ascii('","content_type":"symlink"'),
  onlyDirectory: ascii('","content_type":"directory"'),
  children: ascii(',"children":['),
  laterName: ascii(',"name":"'),
  laterSize: ascii(',"size":'),
} as const

const [comma, slash, closeList, close, quote] = [0x2c, 0x2f, 0x5d, 0x7d, 0x22]
/** The flags that an entry shows after its numbers; 8 and 16 are free for other uses in the key. */
const endFlags = flag.integritySuspect | flag.auditSkipped | flag.knownByAgent | flag.unreadable

const quoted = (value: string | undefined) => (value === undefined ? 'null' : JSON.stringify(value))

/** The path of a directory's children up to their names, as inside quotes. */
export function prefixOf(tree: Tree, directory: NodeId): Buffer {
  if (directory === root) return ascii('/')
  return Buffer.from(`${JSON.stringify(tree.pathOf(directory)).slice(1, -1)}/`)
}

interface OpenDirectory {
  readonly node: NodeId
  readonly prefix: Buffer
  readonly children: Uint32Array
  at: number
  written: number
  /** The bytes between a file's name and its name in the path; the same for all files of this directory. */
  shared?: Buffer
  /** The same for symbolic links. */
  sharedByLinks?: Buffer
}

/** Writes entries of one tree. */
export class EntryWriter {
  readonly out: JsonBytes
  readonly #tree: Tree
  readonly #options: Omit<RenderOptions, 'maxDepth'>
  readonly #fields: ReadonlySet<EntryField>
  readonly #isComplete: boolean
  /** The bytes after the numbers, by sensor and flags: a few of them serve many entries. */
  readonly #ends = new Map<number, Buffer>()
  #lastKey = -1
  #lastEnd: Buffer = noBytes
  /** The position of the last entry's path in the buffer. */
  #pathFrom = 0
  #pathTo = 0

  constructor(tree: Tree, options: Omit<RenderOptions, 'maxDepth'>, capacity: number) {
    this.#tree = tree
    this.#options = options
    this.#fields = new Set(options.fields)
    this.#isComplete = this.#fields.size === entryFieldNames.length
    this.out = new JsonBytes(capacity)
  }

  /**
   * The event loop ran, so the tree may have changed: a sensor's number may have been reused, and a directory may have been
   * removed, and its number reused. The rest of such a directory is left out.
   */
  revalidate(levels: readonly OpenDirectory[]): void {
    const tree = this.#tree
    this.#ends.clear()
    this.#lastKey = -1
    for (const level of levels) {
      const { node } = level
      const isThere = tree.exists(node) && tree.isDirectory(node) && prefixOf(tree, node).equals(level.prefix)
      if (!isThere) level.at = level.children.length
    }
  }

  /**
   * Writes the files of a directory up to its next subdirectory or the end of the piece. A hot loop over the columns that copies
   * the bytes which all files of the directory share.
   */
  files(level: OpenDirectory): void {
    const { out } = this
    const { store } = this.#tree
    const { children, node } = level
    const shared = (level.shared ??= Buffer.concat([this.#isComplete ? parts.filePath : noBytes, level.prefix]))
    let at = level.at
    for (; at < children.length && out.at < pieceBytes; at += 1) {
      const child = children[at]!
      const page = store.page(child)
      const row = child & entryMask
      const flags = page.flags[row]!
      if ((flags & liveBit) === 0 || page.links[row * 4] !== node) continue
      if ((flags & directoryBit) !== 0) break
      const ref = page.links[row * 4 + inName]!
      const names = store.names.pages[ref >>> namePageBits]!
      const nameFrom = (ref & namePageMask) + 1
      const nameTo = nameFrom + names[nameFrom - 1]!
      const end = this.#end(child, page.agent[row]!, flags, false, page.created[row] === 0)
      const isSymlink = (flags & flag.symlink) !== 0
      out.reserve((nameTo - nameFrom) * 2 * escapeMax + shared.length + end.length + constantBytes)
      if (level.written > 0) out.byte(comma)
      level.written += 1
      if (!this.#isComplete) {
        out.copy(parts.onlyPath)
        out.copy(shared)
        const nameAt = out.at
        out.name(names, nameFrom, nameTo)
        const nameEnd = out.at
        out.copy(isSymlink ? parts.onlySymlink : parts.onlyFile)
        this.#chosen(nameAt, nameEnd, page.size[row]!, page.modified[row]!, page.created[row]!)
        out.copy(end)
        out.byte(close)
        continue
      }
      out.copyShort(parts.name)
      const written = out.at
      out.name(names, nameFrom, nameTo)
      const writtenTo = out.at
      out.copy(isSymlink ? (level.sharedByLinks ??= Buffer.concat([parts.symlinkPath, level.prefix])) : shared)
      out.repeat(written, writtenTo)
      out.copyShort(parts.size)
      out.number(page.size[row]!)
      out.copyShort(parts.modified)
      out.number(page.modified[row]!)
      if (page.created[row] !== 0) {
        out.copyShort(parts.created)
        out.number(page.created[row]!)
      }
      out.copy(end)
      out.byte(close)
    }
    level.at = at
  }

  /** The path prefix of the children of the directory that was written last. */
  prefix(): Buffer {
    const length = this.#pathTo - this.#pathFrom
    const prefix = Buffer.allocUnsafe(length + 1)
    this.out.bytes.copy(prefix, 0, this.#pathFrom, this.#pathTo)
    prefix[length] = slash
    return prefix
  }

  /** Writes one entry without its closing brace; `prefix` is that of its parent directory. */
  entry(node: NodeId, prefix: Buffer): void {
    const { out } = this
    const { store } = this.#tree
    const page = store.page(node)
    const at = node & entryMask
    const ref = page.links[at * 4 + inName]!
    const names = store.names.pages[ref >>> namePageBits]!
    const nameFrom = (ref & namePageMask) + 1
    const nameTo = nameFrom + names[nameFrom - 1]!
    const isDirectory = store.isDirectory(node)
    const isSymlink = (page.flags[at]! & flag.symlink) !== 0
    const end = this.#end(node, page.agent[at]!, page.flags[at]!, isDirectory, page.created[at] === 0)
    out.reserve(prefix.length + (nameTo - nameFrom) * 2 * escapeMax + end.length + constantBytes)
    if (!this.#isComplete) {
      out.copy(parts.onlyPath)
      this.#pathFrom = out.at
      out.copy(prefix)
      const nameAt = out.at
      out.name(names, nameFrom, nameTo)
      this.#pathTo = out.at
      out.copy(isDirectory ? parts.onlyDirectory : isSymlink ? parts.onlySymlink : parts.onlyFile)
      // The root is named by its path.
      const namedAt = node === root ? this.#pathFrom : nameAt
      this.#chosen(namedAt, this.#pathTo, store.sizeOf(node), page.modified[at]!, page.created[at]!)
      out.copy(end)
      return
    }
    out.copy(parts.name)
    const written = out.at
    if (node === root) out.byte(slash)
    else out.name(names, nameFrom, nameTo)
    const writtenTo = out.at
    out.copy(isDirectory ? parts.directoryPath : isSymlink ? parts.symlinkPath : parts.filePath)
    this.#pathFrom = out.at
    out.copy(prefix)
    if (node !== root) out.repeat(written, writtenTo)
    this.#pathTo = out.at
    out.copy(parts.size)
    out.number(store.sizeOf(node))
    out.copy(parts.modified)
    out.number(page.modified[at]!)
    if (page.created[at] !== 0) {
      out.copy(parts.created)
      out.number(page.created[at]!)
    }
    out.copy(end)
  }

  /** Writes the chosen ones of name, size and times. The name was written before, as part of the path. */
  #chosen(nameAt: number, nameEnd: number, size: number, modified: number, created: number): void {
    const { out } = this
    if (this.#fields.has('name')) {
      out.copyShort(parts.laterName)
      out.repeat(nameAt, nameEnd)
      out.byte(quote)
    }
    if (this.#fields.has('size')) {
      out.copyShort(parts.laterSize)
      out.number(size)
    }
    if (this.#fields.has('modified_time')) {
      out.copyShort(parts.modified)
      out.number(modified)
    }
    if (created !== 0 && this.#fields.has('created_time')) {
      out.copyShort(parts.created)
      out.number(created)
    }
  }

  #end(node: NodeId, agent: number, flags: number, isDirectory: boolean, isUnborn: boolean): Buffer {
    const shown = (flags & endFlags) | (isDirectory ? 8 : 0) | (isUnborn ? 16 : 0)
    const key = agent * 128 + shown
    if (key === this.#lastKey) return this.#lastEnd
    this.#lastKey = key
    const known = this.#ends.get(key)
    if (known !== undefined) return (this.#lastEnd = known)
    const id = this.#tree.agentOf(node)
    const values: readonly (readonly [EntryField, string | undefined])[] = [
      ['created_time', isUnborn ? 'null' : undefined],
      ['integrity_suspect', String((flags & flag.integritySuspect) !== 0)],
      ['audit_skipped', isDirectory ? String((flags & flag.auditSkipped) !== 0) : undefined],
      ['unreadable', (flags & flag.unreadable) === 0 ? undefined : 'true'],
      ['last_agent_id', quoted(id)],
      ['source_uri', quoted(this.#options.uriOf(id))],
      ['agent_missing', String((flags & flag.knownByAgent) === 0 && id !== undefined)],
    ]
    const shownValues = values.filter(([name, value]) => value !== undefined && this.#fields.has(name))
    const tailBytes = Buffer.from(shownValues.map(([name, value]) => `,"${name}":${value}`).join(''))
    this.#ends.set(key, tailBytes)
    return (this.#lastEnd = tailBytes)
  }
}

/** The subtree of `top` in pieces. `tail` goes into the outermost object after its children: `"job_id":…`. */
export function* treePieces(tree: Tree, top: NodeId, options: RenderOptions, tail = ''): Generator<Buffer> {
  const levels: OpenDirectory[] = []
  const { maxDepth } = options
  const entries = maxDepth === 0 ? 1 : maxDepth === 1 ? tree.childCount(top) + 1 : entryCount(tree, top)
  const capacity = Math.min(pieceBytes, entries * entryBytes) + spareBytes
  const writer = new EntryWriter(tree, options, capacity)
  const { out } = writer
  writer.entry(top, prefixOf(tree, top === root ? root : tree.parentOf(top)))
  let next = maxDepth > 0 && tree.isDirectory(top) ? top : none
  let prefix = next === none ? noBytes : prefixOf(tree, top)
  for (;;) {
    if (next !== none) {
      out.reserve(parts.children.length)
      out.copy(parts.children)
      levels.push({ node: next, prefix, children: yield* childrenOf(tree, next), at: 0, written: 0 })
      if (tree.childCount(next) > sortAtOnceMax) writer.revalidate(levels)
      next = none
    }
    const level = levels.at(-1)
    if (level === undefined) break
    writer.files(level)
    out.reserve(2)
    const child = out.at < pieceBytes ? level.children[level.at] : none
    if (child === none) {
      yield out.take(capacity)
      writer.revalidate(levels)
    } else if (child === undefined) {
      levels.pop()
      out.byte(closeList)
      if (levels.length > 0) out.byte(close)
    } else {
      level.at += 1
      if (!tree.exists(child) || tree.parentOf(child) !== level.node) continue
      if (level.written > 0) out.byte(comma)
      level.written += 1
      writer.entry(child, level.prefix)
      if (levels.length < maxDepth) [next, prefix] = [child, writer.prefix()]
      else out.byte(close)
    }
  }
  out.text(tail === '' ? '}' : `,${tail}}`)
  yield out.take(0)
}

function* childrenOf(tree: Tree, directory: NodeId): Generator<Buffer, Uint32Array> {
  if (tree.childCount(directory) <= sortAtOnceMax) return tree.children(directory)
  const sorting = sortedChildren(tree, directory)
  for (;;) {
    const step = sorting.next()
    if (step.done === true) return step.value
    yield noBytes
  }
}

function entryCount(tree: Tree, top: NodeId): number {
  const { files, directories } = tree.stats(top)
  return files + directories + 1
}
