/**
 * Remembered deletions, by path (V6.3). When the set is full, the oldest deletion is dropped and counted; at worst a deleted
 * entry reappears until the next audit. The end of an audit drops tombstones that are past their time to live and older than
 * the audit. The clock alone never does, because only an audit proves that no older scan is still being sent.
 */
import type { Tombstone } from './arbiter.js'

// About 250 bytes each: 50 MB at most for a source whose files are all being deleted.
const tombstonesMax = 200_000

export class Tombstones {
  readonly #byPath = new Map<string, Tombstone>()
  readonly #max: number
  #forgotten = 0

  constructor(max = tombstonesMax) {
    this.#max = max
  }

  get size(): number {
    return this.#byPath.size
  }

  /** How many tombstones were dropped because the set was full. */
  get forgotten(): number {
    return this.#forgotten
  }

  get(path: string): Tombstone | undefined {
    return this.#byPath.get(path)
  }

  /** The nearest deletion of `path` or of a parent directory, as long as `gone` reports that directory as absent. */
  over(path: string, gone: (path: string) => boolean): Tombstone | undefined {
    if (this.#byPath.size === 0) return undefined
    for (let at = path; ;) {
      const found = this.#byPath.get(at)
      if (found !== undefined) return found
      const slash = at.lastIndexOf('/')
      if (slash <= 0) return undefined
      at = at.slice(0, slash)
      if (!gone(at)) return undefined
    }
  }

  /** Of two deletions of one path the later one counts, whichever arrives first. */
  put(path: string, tombstone: Tombstone): void {
    const before = this.#byPath.get(path)
    this.#byPath.delete(path)
    this.#byPath.set(path, before === undefined ? tombstone : latest(before, tombstone))
    if (this.#byPath.size <= this.#max) return
    for (const oldest of this.#byPath.keys()) {
      this.#byPath.delete(oldest)
      this.#forgotten += 1
      return
    }
  }

  /** Deletions that a sensor saw within a span of server ms. */
  *seenWithin(fromMs: number, toMs: number): Generator<readonly [path: string, tombstone: Tombstone]> {
    for (const entry of this.#byPath) if (entry[1].seenAt >= fromMs && entry[1].seenAt <= toMs) yield entry
  }

  /** Removes the tombstones of a path that exists again and of its parent directories. */
  lift(path: string): void {
    for (let at = path; at.length > 1 && this.#byPath.size > 0; at = at.slice(0, at.lastIndexOf('/'))) {
      this.#byPath.delete(at)
    }
  }

  /** Runs after an audit and returns how many tombstones it dropped. */
  sweep(nowMs: number, ttlMs: number, auditBeganAt: number): number {
    let dropped = 0
    for (const [path, { physicalAt }] of this.#byPath) {
      if (nowMs - physicalAt <= ttlMs || physicalAt >= auditBeganAt) continue
      this.#byPath.delete(path)
      dropped += 1
    }
    return dropped
  }

  clear(): void {
    this.#byPath.clear()
  }
}

function latest(one: Tombstone, other: Tombstone): Tombstone {
  const later = other.seenAt >= one.seenAt ? other : one
  return {
    ...later,
    logical: Math.max(one.logical, other.logical),
    physicalAt: Math.max(one.physicalAt, other.physicalAt),
    createdTime: later.createdTime ?? one.createdTime ?? other.createdTime,
  }
}
