/**
 * Keeps the bytes of directory responses. An entry is returned only if nothing at or below its directory has changed since it was
 * rendered; the change numbers of the tree prove it. Bounded in bytes; the entry that was used least recently is dropped first.
 */
import type { NodeId, Tree } from '../tree/tree.js'

// About 100 directories of 1,000 files with all fields.
const bytesMax = 32 * 1_024 * 1_024
// Checking one change takes less than 100 ns, and rendering a directory of 1,000 files about 1 ms.
const checkedChangesMax = 1_024

interface Rendered {
  readonly tree: Tree
  readonly node: NodeId
  readonly bytes: Buffer
  readonly unloggedChanges: number
  /** Nothing below the directory has changed up to this number. */
  seq: number
}

export class RenderedCache {
  readonly #entries = new Map<string, Rendered>()
  readonly #bytesMax: number
  #bytes = 0

  constructor(max = bytesMax) {
    this.#bytesMax = max
  }

  /** The memory of all entries. */
  get bytes(): number {
    return this.#bytes
  }

  /** `key` names the tree, the path and everything else that the bytes depend on. */
  get(key: string, tree: Tree, node: NodeId, path: string): Buffer | undefined {
    const found = this.#entries.get(key)
    if (found === undefined) return undefined
    this.#entries.delete(key)
    const isCurrent =
      found.tree === tree &&
      found.node === node &&
      found.unloggedChanges === tree.unloggedChanges &&
      tree.isUnchangedBelow(node, path, found.seq, checkedChangesMax)
    if (!isCurrent) {
      this.#bytes -= sizeOf(key, found.bytes)
      return undefined
    }
    found.seq = tree.seq
    this.#entries.set(key, found)
    return found.bytes
  }

  /** The bytes must have been rendered since the last change of the tree. */
  put(key: string, tree: Tree, node: NodeId, bytes: Buffer): void {
    const size = sizeOf(key, bytes)
    // One response must not displace all others.
    if (size > this.#bytesMax / 8) return
    const old = this.#entries.get(key)
    if (old !== undefined) {
      this.#entries.delete(key)
      this.#bytes -= sizeOf(key, old.bytes)
    }
    this.#entries.set(key, { tree, node, bytes, unloggedChanges: tree.unloggedChanges, seq: tree.seq })
    this.#bytes += size
    for (const [name, { bytes: dropped }] of this.#entries) {
      if (this.#bytes <= this.#bytesMax) break
      this.#entries.delete(name)
      this.#bytes -= sizeOf(name, dropped)
    }
  }
}

/** The renderer's buffer may be longer than the part that was written. */
const sizeOf = (key: string, bytes: Buffer) => bytes.buffer.byteLength + key.length * 2 + 200
