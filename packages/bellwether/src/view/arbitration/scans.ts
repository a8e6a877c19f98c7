/**
 * Audit windows and scans: what was seen, which directories were read to the end, and what is concluded from what was not
 * seen (V2.2, V6.6, hazard 22). Always: one audit at a time in a source; its start, rows and end name the same session and
 * id, or do nothing; an end that does not say `complete` deletes nothing.
 */
import { missingIsDeleted } from './arbiter.js'
import { readToEnd, type Look, type Source } from './source-state.js'
import { flag, type NodeId } from '../tree/tree.js'

// Missing-item detection lets others have the event loop after this many entries.
const sliceEntries = 4_000

export class AuditWindow implements Look {
  readonly kind = 'audit'
  readonly trust = 'routine'
  readonly #source: Source
  readonly #mark: number
  readonly #directories: NodeId[] = []
  readonly #spoiled = new Set<string>()

  constructor(
    source: Source,
    readonly auditId: string,
    readonly sessionId: string,
    readonly markers: boolean,
    readonly beganAt: number,
    /** Wall clock ms, for people. */
    readonly startedAt: number,
    /** Monotonic ms, for the time-out. */
    readonly openedAt: number,
  ) {
    this.#source = source
    this.#mark = source.tree.nextAuditMark()
    source.auditMark = this.#mark
  }

  seen(node: NodeId): void {
    this.#source.markSeen(node)
  }

  closed(node: NodeId): void {
    this.seen(node)
    const { tree } = this.#source
    if (tree.has(node, readToEnd)) return
    tree.setFlags(node, readToEnd, 0)
    this.#directories.push(node)
  }

  spoiled(path: string): void {
    if (this.#spoiled.size < 100_000) this.#spoiled.add(path)
  }

  /** Takes the window off the source; rows that come after it belong to no audit. */
  close(): void {
    if (this.#source.auditMark === this.#mark) this.#source.auditMark = 0
  }

  /** Deletes what should have been seen and was not. Returns how many entries that were; yields after each slice. */
  *detectMissing(): Generator<void, number> {
    const { tree } = this.#source
    let deleted = 0
    let looked = 0
    for (const directory of this.#directories) {
      // A node whose entry was removed since is another's now, and that one was not read by this audit.
      if (tree.auditMark(directory) !== this.#mark || !tree.has(directory, readToEnd)) continue
      if (tree.has(directory, flag.auditSkipped)) continue
      if (this.#spoiled.size > 0 && this.#spoiled.has(tree.pathOf(directory))) continue
      for (const child of tree.unsorted(directory)) {
        looked += 1
        if (tree.auditMark(child) !== this.#mark && (yield* removeMissing(this.#source, child, this.beganAt)))
          deleted += 1
        if (looked % sliceEntries === 0) yield
      }
      looked += 1
    }
    return deleted
  }
}

/** A scan of one path that somebody asked for: small, so that what it saw is a set of its own. */
export class ScanLook implements Look {
  readonly kind = 'scan'
  readonly markers = true
  readonly #seen = new Set<NodeId>()
  readonly #directories = new Set<NodeId>()
  readonly #spoiled = new Set<string>()
  #lost = false

  constructor(
    readonly source: Source,
    readonly beganAt: number,
    readonly trust: 'asked' | 'settling',
  ) {}

  /** It has ended: nobody asks what it saw any more. */
  forget(): void {
    for (const set of [this.#seen, this.#directories, this.#spoiled]) set.clear()
  }

  /** It has found out nothing: what it should have settled is still open. */
  unsettled(path: string, recursive: boolean): void {
    if (this.trust === 'settling') this.source.dispute(path, recursive)
  }

  seen(node: NodeId): void {
    // Beyond this a scan is an audit, which concludes by itself.
    if (this.#seen.size >= 500_000) this.#lost = true
    else this.#seen.add(node)
  }

  closed(node: NodeId): void {
    if (this.#directories.size < 100_000) this.#directories.add(node)
  }

  spoiled(path: string): void {
    if (this.#spoiled.size < 100_000) this.#spoiled.add(path)
  }

  *detectMissing(): Generator<void, number> {
    const { tree } = this.source
    let deleted = 0
    let looked = 0
    if (this.#lost) return 0
    for (const directory of this.#directories) {
      if (!this.#seen.has(directory) || !tree.isDirectory(directory)) continue
      if (this.#spoiled.size > 0 && this.#spoiled.has(tree.pathOf(directory))) continue
      for (const child of tree.unsorted(directory)) {
        looked += 1
        if (!this.#seen.has(child) && (yield* removeMissing(this.source, child, this.beganAt))) deleted += 1
        if (looked % sliceEntries === 0) yield
      }
    }
    return deleted
  }
}

/** Only the lane's own task adds and removes entries, so that what is below stays the same while others have their turn. */
function* removeMissing(source: Source, node: NodeId, beganAt: number): Generator<void, boolean> {
  const { tree, blindSpots } = source
  const path = tree.pathOf(node)
  const lastUpdatedAt = source.updatedSince(node, beganAt) ? Infinity : tree.lastUpdatedAt(node)
  const tombstoned = source.tombstones.get(path) !== undefined
  if (!missingIsDeleted({ lastUpdatedAt, tombstoned, auditBeganAt: beganAt })) return false
  if (tree.isDirectory(node)) {
    const { files, directories } = tree.stats(node)
    let left = files + directories
    const open = [node]
    for (let directory = open.pop(); directory !== undefined && blindSpots.hasRoom; directory = open.pop()) {
      for (const below of tree.unsorted(directory)) {
        if (!blindSpots.hasRoom) break
        blindSpots.deleted(tree.pathOf(below))
        if (tree.isDirectory(below)) open.push(below)
        left -= 1
        if (left % sliceEntries === 0) yield
      }
    }
    blindSpots.alsoDeleted(left)
  }
  source.remove(node)
  blindSpots.deleted(path)
  return true
}
