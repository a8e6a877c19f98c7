/**
 * Audit windows and on-demand scans: they record which entries were seen and which directories were listed in full, and
 * delete what should have been seen and was not (V2.2, V6.6, hazard 22). A source has at most one audit window; its start,
 * rows and end must name the same session and id, or they are ignored. The end deletes nothing unless it says `complete`.
 */
import { missingIsDeleted, type ScanPurpose } from './arbiter.js'
import type { Scan, SourceState } from './source-state.js'
import { flag, type NodeId } from '../tree/tree.js'

// Deleting missing entries yields the event loop after this many entries: about 1 ms.
const sliceEntries = 4_000
// More inconclusive directories than this come from a broken sensor; the further ones are not remembered.
const inconclusiveMax = 100_000
// Larger on-demand scans delete nothing: the next audit does.
const scanEntriesMax = 500_000
const scanDirectoriesMax = 100_000

/** Directories whose children prove nothing, because one of their rows was invalid. */
class InconclusivePaths {
  readonly #paths = new Set<string>()

  add(path: string): void {
    if (this.#paths.size < inconclusiveMax) this.#paths.add(path)
  }

  has(source: SourceState, directory: NodeId): boolean {
    return this.#paths.size > 0 && this.#paths.has(source.tree.pathOf(directory))
  }

  clear(): void {
    this.#paths.clear()
  }
}

export class AuditWindow implements Scan {
  readonly kind = 'audit'
  readonly purpose = 'routine'
  readonly #source: SourceState
  readonly #mark: number
  /** The directories that were listed in full, and the mtimes that the audit read. */
  readonly #directories: NodeId[] = []
  readonly #times: number[] = []
  readonly #inconclusive = new InconclusivePaths()

  constructor(
    source: SourceState,
    readonly auditId: string,
    readonly sessionId: string,
    readonly markers: boolean,
    readonly beganAt: number,
    /** Wall clock ms, for people. */
    readonly startedAt: number,
    /** Monotonic ms, for the timeout. */
    readonly openedAt: number,
  ) {
    this.#source = source
    this.#mark = source.tree.nextAuditMark()
    source.auditMark = this.#mark
  }

  seen(node: NodeId): void {
    this.#source.markSeenByAudit(node)
  }

  fullyListed(node: NodeId, modifiedTime: number): void {
    this.seen(node)
    const { tree } = this.#source
    if (tree.has(node, flag.listedInFull)) return
    tree.setFlags(node, flag.listedInFull, 0)
    this.#directories.push(node)
    this.#times.push(modifiedTime)
  }

  inconclusive(path: string): void {
    this.#inconclusive.add(path)
  }

  /** Detaches the window from the source; later rows belong to no audit. */
  close(): void {
    if (this.#source.auditMark === this.#mark) this.#source.auditMark = 0
  }

  /** Deletes what should have been seen and was not. Returns the number of deleted entries; yields after each slice. */
  *detectMissing(): Generator<void, number> {
    const { tree } = this.#source
    // The entry of a node may have been removed since and the number reused: this audit did not list the new entry.
    const isListed = (directory: NodeId) =>
      tree.auditMark(directory) === this.#mark &&
      tree.has(directory, flag.listedInFull) &&
      !tree.has(directory, flag.auditSkipped) &&
      !this.#inconclusive.has(this.#source, directory)
    const isSeen = (node: NodeId) => tree.auditMark(node) === this.#mark
    const times = this.#times
    const listed = this.#directories.map((directory, at) => [directory, times[at]!] as const)
    return yield* removeUnseen(this.#source, listed, this, isListed, isSeen)
  }
}

/** A scan of one path that a reader or the view requested: small, so it keeps its own set of seen entries. */
export class OnDemandScan implements Scan {
  readonly kind = 'scan'
  readonly markers = true
  readonly #seen = new Set<NodeId>()
  /** The directories that were listed in full, with the mtimes that the scan read. */
  readonly #directories = new Map<NodeId, number>()
  readonly #inconclusive = new InconclusivePaths()
  #overflowed = false

  constructor(
    readonly source: SourceState,
    readonly beganAt: number,
    readonly purpose: Exclude<ScanPurpose, 'routine'>,
  ) {}

  /** Frees the memory of a scan that has ended. */
  clear(): void {
    for (const set of [this.#seen, this.#directories, this.#inconclusive]) set.clear()
  }

  /** Disputes the path again if this scan was to settle it and failed. */
  reopenDispute(path: string, recursive: boolean): void {
    if (this.purpose === 'settling') this.source.dispute(path, recursive)
  }

  seen(node: NodeId): void {
    if (this.#seen.size >= scanEntriesMax) this.#overflowed = true
    else this.#seen.add(node)
  }

  fullyListed(node: NodeId, modifiedTime: number): void {
    if (this.#directories.size < scanDirectoriesMax) this.#directories.set(node, modifiedTime)
  }

  inconclusive(path: string): void {
    this.#inconclusive.add(path)
  }

  *detectMissing(): Generator<void, number> {
    const { tree } = this.source
    if (this.#overflowed) return 0
    const isSeen = (node: NodeId) => this.#seen.has(node)
    const isListed = (directory: NodeId) =>
      isSeen(directory) && tree.isDirectory(directory) && !this.#inconclusive.has(this.source, directory)
    return yield* removeUnseen(this.source, this.#directories, this, isListed, isSeen)
  }
}

function* removeUnseen(
  source: SourceState,
  directories: Iterable<readonly [NodeId, number]>,
  { beganAt, purpose }: Scan,
  isListed: (directory: NodeId) => boolean,
  isSeen: (node: NodeId) => boolean,
): Generator<void, number> {
  const { tree } = source
  let deleted = 0
  let visited = 0
  for (const [directory, modifiedTime] of directories) {
    if (!isListed(directory)) continue
    // Memory has a newer directory than the scan read, for example from a host whose attribute cache is old: the listing
    // proves nothing about what is missing, and a settling scan decides.
    const isOutdated = purpose !== 'settling' && modifiedTime < tree.modifiedTime(directory)
    for (const child of tree.unsorted(directory)) {
      visited += 1
      if (visited % sliceEntries === 0) yield
      if (isSeen(child) || !isDeletable(source, child, beganAt)) continue
      if (isOutdated) {
        source.dispute(tree.pathOf(directory), false)
        break
      }
      yield* removeMissing(source, child)
      deleted += 1
    }
  }
  return deleted
}

function isDeletable(source: SourceState, node: NodeId, auditBeganAt: number): boolean {
  const { tree } = source
  const lastUpdatedAt = source.updatedSince(node, auditBeganAt) ? Infinity : tree.lastUpdatedAt(node)
  const tombstoned = source.tombstones.get(tree.pathOf(node)) !== undefined
  return missingIsDeleted({ lastUpdatedAt, tombstoned, auditBeganAt })
}

/** Only the task that holds the source's queue adds and removes entries, so a subtree stays the same between two slices. */
function* removeMissing(source: SourceState, node: NodeId): Generator<void> {
  const { tree, blindSpots } = source
  const path = tree.pathOf(node)
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
    blindSpots.countDeleted(left)
  }
  source.remove(node)
  blindSpots.deleted(path)
}
