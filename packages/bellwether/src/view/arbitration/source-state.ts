/**
 * One source in memory: its tree, logical clock, tombstones, suspects, blind spots and disputes. Applies rows one by one by
 * the arbiter's decisions. The marks in the tree and the lists beside it always agree, because every removal goes through
 * `remove`. Sessions decide who may send rows, the pipe orders batches, and `scans.ts` deletes what a scan did not see.
 */
import { InvalidInput, Terminal, type FileRow } from '@bellwether/protocol'
import { decide, type Keep, type KnownEntry, type ScanPurpose, type Tombstone } from './arbiter.js'
import { authority } from './authority.js'
import { BlindSpots } from './blind-spots.js'
import { LogicalClock } from './logical-clock.js'
import { parentPath, deletionProblem, rowProblem, type CheckedEvent } from './row-checks.js'
import { Suspects } from './suspects.js'
import { Tombstones } from './tombstones.js'
import { flag, none, root, type NodeId, type Tree } from '../tree/tree.js'

/** A scan whose rows the view collects: an audit or an on-demand scan. */
export interface Scan {
  readonly kind: 'audit' | 'scan'
  /** Server ms, from `beginScan`. */
  readonly beganAt: number
  readonly purpose: ScanPurpose
  /** True: a directory counts as listed in full when its closing marker arrives. False: when its own row arrives. */
  readonly markers: boolean
  seen(node: NodeId): void
  /** All children of this directory were reported; `modifiedTime` is the directory's mtime that the scan read. */
  fullyListed(node: NodeId, modifiedTime: number): void
  /** Nothing may be concluded about this directory's children. */
  inconclusive(path: string): void
}

/** Who reported the rows, and when. */
export interface ReportContext {
  readonly agent: string
  /** Server ms now. */
  readonly nowMs: number
  readonly monotonicMs: number
  /** Server ms at which the sensor saw the event, by the measured clock offset. */
  readonly seenAt: number
  readonly scan: Scan | undefined
}

export interface Tally {
  applied: number
  rejected: number
  unchanged: number
  firstProblem: string | undefined
  /** Rows rejected because the view is full. */
  full: number
}

export const newTally = (): Tally => ({ applied: 0, rejected: 0, unchanged: 0, firstProblem: undefined, full: 0 })

export interface SourceStateOptions {
  readonly tree: Tree
  readonly hotSeconds: number
  /** Called for a directory that a change or a later scan reported, not for those of a snapshot. */
  readonly onNewDirectory?: (directory: { path: string; modifiedTime: number; agent: string }) => void
}

// Each disputed path is scanned on its own; above this number one scan of the whole source is cheaper.
const disputesMax = 10_000

export class SourceState {
  readonly tree: Tree
  readonly clock = new LogicalClock()
  readonly tombstones = new Tombstones()
  readonly suspects = new Suspects()
  readonly blindSpots = new BlindSpots()
  /** Paths about which evidence disagrees. */
  readonly #disputes = new Set<string>()
  /** Too many paths to list, or a scan of the whole source failed. */
  #allDisputed = false
  /** Marks entries seen while an audit is open; 0 if none is. */
  auditMark = 0
  readonly #hotSeconds: number
  readonly #onNewDirectory: SourceStateOptions['onNewDirectory']
  #stamp = 0

  constructor(options: SourceStateOptions) {
    this.tree = options.tree
    this.#hotSeconds = options.hotSeconds
    this.#onNewDirectory = options.onNewDirectory
  }

  /** Server ms of a realtime row: never goes back, and is later than every scan that began before the row. */
  stamp(nowMs: number): number {
    this.#stamp = Math.max(nowMs, this.#stamp)
    return this.#stamp
  }

  /** Server ms at which a scan begins: later than every earlier row, earlier than every later row. */
  beginScan(nowMs: number): number {
    const at = Math.max(nowMs, this.#stamp + 1)
    this.#stamp = at + 1
    return at
  }

  apply(event: CheckedEvent, from: number, to: number, context: ReportContext, tally: Tally): void {
    for (let at = from; at < to; at += 1) {
      const value = event.rows[at]
      const problem = event.type === 'delete' ? deletionProblem(value) : rowProblem(value)
      if (problem !== undefined) {
        this.#reject(value, problem, context, tally)
        continue
      }
      try {
        const changed =
          event.type === 'delete'
            ? this.#delete((value as FileRow).path, event, context)
            : this.#upsert(value as FileRow, event, context)
        if (changed) tally.applied += 1
        else tally.unchanged += 1
      } catch (error) {
        const full = error instanceof Terminal && error.code === 'view_full'
        if (!(error instanceof InvalidInput) && !full) throw error
        if (full) tally.full += 1
        this.#reject(value, error.message, context, tally)
      }
    }
  }

  /** Removes the entry and everything below it, with their marks. */
  remove(node: NodeId): void {
    this.#forgetMarksWithin(node)
    this.tree.remove(node)
  }

  clear(): void {
    this.tree.clear()
    this.tombstones.clear()
    this.suspects.clearAll()
    this.blindSpots.reset()
    this.takeDisputes()
  }

  /** Clears all blind spots; a new session does this (V6.5). */
  resetBlindSpots(): void {
    for (const node of this.blindSpots.additions) this.tree.setFlags(node, 0, flag.blindSpot)
    this.blindSpots.reset()
  }

  /** Checks suspects that are due; returns true if more are due (V6.4). */
  expireSuspects(monotonicMs: number, max: number): boolean {
    return this.suspects.expire(
      monotonicMs,
      this.#hotSeconds * 1_000,
      max,
      (node) => this.tree.modifiedTime(node),
      (node) => this.tree.setFlags(node, 0, flag.integritySuspect),
    ).more
  }

  /**
   * A sentinel read a suspect. A change is recorded and starts a new period. An unchanged file is cleared once its period is
   * over; an earlier report proves nothing, because the writer may only have paused.
   */
  applySentinelReport(
    path: string,
    found: { readonly modifiedTime: number; readonly size: number | undefined },
    monotonicMs: number,
  ): 'cleared' | 'renewed' | 'unchanged' | 'unknown' {
    const node = this.tree.find(path)
    const suspect = node === none ? undefined : this.suspects.get(node)
    if (suspect === undefined) return 'unknown'
    const { modifiedTime, size = this.tree.size(node) } = found
    if (suspect.modifiedTime === modifiedTime && size === this.tree.size(node)) {
      if (suspect.expiresAt > monotonicMs) return 'unchanged'
      this.suspects.clear(node)
      this.tree.setFlags(node, 0, flag.integritySuspect)
      return 'cleared'
    }
    this.tree.put(path, { isDirectory: false, size, modifiedTime })
    this.suspects.mark(node, modifiedTime, monotonicMs + this.#hotSeconds * 1_000)
    // A new mtime without a size (an older sensor): a scan must read the size.
    if (found.size === undefined) this.dispute(path, false)
    return 'renewed'
  }

  /** Walks the entries or the marks, whichever are fewer: a large subtree with one mark must not cost a full walk. */
  #forgetMarksWithin(node: NodeId): void {
    const { tree, suspects, blindSpots } = this
    const marks = suspects.size + blindSpots.additions.size
    if (marks === 0) return
    const { files, directories } = tree.stats(node)
    if (files + directories < marks) {
      this.#forgetMarks(node)
      for (const below of tree.walk(node)) this.#forgetMarks(below)
      return
    }
    for (const marked of [...suspects.nodes(), ...blindSpots.additions])
      if (tree.isWithin(marked, node)) this.#forgetMarks(marked)
  }

  #forgetMarks(node: NodeId): void {
    this.suspects.clear(node)
    this.blindSpots.additions.delete(node)
  }

  #reject(value: unknown, problem: string, { scan }: ReportContext, tally: Tally): void {
    tally.rejected += 1
    const path = (value as { path?: unknown } | null)?.path
    tally.firstProblem ??= typeof path === 'string' ? `${problem} (${JSON.stringify(path.slice(0, 200))})` : problem
    // The entry may exist although its row is invalid, so the scan must not delete it as missing.
    if (typeof path === 'string' && path.startsWith('/')) scan?.inconclusive(parentPath(path))
  }

  #upsert(row: FileRow, event: CheckedEvent, context: ReportContext): boolean {
    const { tree } = this
    const { scan } = context
    const path = plain(row.path)
    const node = tree.find(path)
    const isDirectory = row.is_directory === true
    const isSymlink = !isDirectory && row.is_symlink === true
    const size = isDirectory ? 0 : (row.size ?? 0)
    const modifiedTime = row.modified_time ?? 0
    // A marker: the directory's own row came earlier.
    if (row.unreadable === true) return this.#markUnreadable(node, true)
    if (row.scan_complete === true && event.origin !== 'realtime') {
      if (node !== none && tree.isDirectory(node)) scan?.fullyListed(node, modifiedTime)
      return this.#markUnreadable(node, false)
    }
    const known = node === none ? undefined : this.#knownEntry(node)
    const tombstone = this.#tombstoneOver(path, node)
    const decision = decide(
      {
        origin: event.origin,
        isDirectory,
        isSymlink,
        size,
        modifiedTime,
        atomic: row.is_atomic_write !== false,
        parentMtime: row.parent_mtime ?? undefined,
        agent: context.agent,
        seenAt: context.seenAt,
      },
      {
        known,
        tombstone,
        parent: known === undefined && authority[event.origin].yieldsToNewerParent ? this.#parent(row) : undefined,
        watermark: this.clock.watermark(context.nowMs / 1_000),
        hotSeconds: this.#hotSeconds,
        scanBeganAt: scan?.beganAt,
        scanPurpose: scan?.purpose ?? 'routine',
      },
    )
    if (!decision.take) {
      this.#keepMemory(decision, path, node, event)
      if (node !== none && event.origin !== 'realtime') this.#recordSeen(scan, node, row)
      return false
    }
    if (decision.samplesClock) this.clock.sample(context.nowMs / 1_000, modifiedTime)
    if (tombstone !== undefined) this.tombstones.lift(path)
    // An entry that changes between file, link and directory is removed first: the marks of the old entry end with it.
    const isSameKind = known?.isDirectory === isDirectory && known.isSymlink === isSymlink
    const replaced = known === undefined ? tree.fileAbove(path) : isSameKind ? none : node
    if (replaced > root) this.remove(replaced)

    let set = isSymlink ? flag.symlink : 0
    let clear = 0
    if (decision.knownByAgent) set |= flag.knownByAgent
    else clear |= flag.knownByAgent
    if (decision.suspect === 'mark') set |= flag.integritySuspect
    else if (decision.suspect === 'clear') clear |= flag.integritySuspect
    if (decision.blindSpot === 'mark') set |= flag.blindSpot
    else if (decision.blindSpot === 'clear') clear |= flag.blindSpot
    const at = tree.put(path, {
      isDirectory,
      size,
      modifiedTime,
      createdTime: row.created_time ?? undefined,
      lastUpdatedAt: decision.touches ? this.stamp(context.nowMs) : undefined,
      seenAt: decision.touches ? context.seenAt : undefined,
      agent: context.agent,
      set,
      clear,
    })
    if (decision.suspect === 'mark')
      this.suspects.mark(at, modifiedTime, context.monotonicMs + decision.suspectSeconds * 1_000)
    else if (decision.suspect === 'clear') this.suspects.clear(at)
    if (decision.blindSpot === 'mark') this.blindSpots.additions.add(at)
    else if (decision.blindSpot === 'clear') this.blindSpots.additions.delete(at)
    if (decision.blindSpot !== 'leave') this.blindSpots.seenAgain(path)
    if (event.origin !== 'realtime') this.#recordSeen(scan, at, row)
    if (isDirectory && event.origin !== 'snapshot' && (known?.isDirectory !== true || known.placeholder))
      this.#onNewDirectory?.({ path, modifiedTime, agent: context.agent })
    return true
  }

  /** Sets or clears the mark of a directory that a scan could not read; returns whether it changed. */
  #markUnreadable(node: NodeId, isUnreadable: boolean): boolean {
    const { tree } = this
    if (node === none || !tree.isDirectory(node) || tree.has(node, flag.unreadable) === isUnreadable) return false
    tree.setFlags(node, isUnreadable ? flag.unreadable : 0, isUnreadable ? 0 : flag.unreadable)
    return true
  }

  #keepMemory(decision: Keep, path: string, node: NodeId, event: CheckedEvent): void {
    if (decision.reason === 'same' && event.origin === 'snapshot') this.tree.setFlags(node, flag.knownByAgent, 0)
    if (node !== none && event.origin === 'audit') this.blindSpots.seenAgain(path)
    if (decision.disputed !== 'no') this.dispute(decision.disputed === 'path' ? path : parentPath(path), false)
  }

  /** Requests a settling scan of the path, or of the whole source if `recursive`. */
  dispute(path: string, recursive: boolean): void {
    if (recursive || this.#disputes.size >= disputesMax) this.#allDisputed = true
    else this.#disputes.add(path)
  }

  /** Returns the disputes and clears them; the caller must have them scanned. */
  takeDisputes(): { readonly paths: readonly string[]; readonly all: boolean } {
    const taken = { paths: [...this.#disputes], all: this.#allDisputed }
    this.#disputes.clear()
    this.#allDisputed = false
    return taken
  }

  /** An entry that any scan sees while an audit is open counts as seen by the audit. */
  markSeenByAudit(node: NodeId): void {
    if (this.auditMark === 0 || this.tree.auditMark(node) === this.auditMark) return
    this.tree.setAuditMark(node, this.auditMark)
    if (this.tree.has(node, flag.listedInFull)) this.tree.setFlags(node, 0, flag.listedInFull)
  }

  #recordSeen(scan: Scan | undefined, node: NodeId, row: FileRow): void {
    this.markSeenByAudit(node)
    scan?.seen(node)
    if (scan?.kind !== 'audit' || !this.tree.isDirectory(node)) return
    const skipped = row.audit_skipped === true
    if (skipped !== this.tree.has(node, flag.auditSkipped))
      this.tree.setFlags(node, skipped ? flag.auditSkipped : 0, skipped ? 0 : flag.auditSkipped)
    if (!scan.markers && !skipped) scan.fullyListed(node, row.modified_time ?? 0)
  }

  #delete(rowPath: string, event: CheckedEvent, context: ReportContext): boolean {
    const { tree } = this
    const path = plain(rowPath)
    const node = tree.find(path)
    if (node === root) throw new InvalidInput('Cannot delete the root of a source', { code: 'root' })
    if (event.origin !== 'realtime') return this.#deleteNotFound(path, node, context)
    const watermark = this.clock.watermark(context.nowMs / 1_000)
    this.tombstones.put(path, {
      // A file with an mtime in the future must not survive its own deletion.
      logical: node === none ? watermark : Math.max(watermark, tree.newest(node)),
      physicalAt: this.stamp(context.nowMs),
      seenAt: context.seenAt,
      agent: context.agent,
      createdTime: node === none ? undefined : tree.createdTime(node),
    })
    this.blindSpots.seenAgain(path)
    if (node === none) return false
    this.remove(node)
    return true
  }

  /** An on-demand scan did not find the path. Audits and snapshots report only what exists. */
  #deleteNotFound(path: string, node: NodeId, { scan }: ReportContext): boolean {
    if (node === none || scan?.kind !== 'scan') return false
    if (this.updatedSince(node, scan.beganAt)) return false
    this.remove(node)
    this.blindSpots.deleted(path)
    return true
  }

  /** Whether a realtime row changed the entry, or anything below it, at or after `at`. */
  updatedSince(node: NodeId, at: number): boolean {
    return this.tree.some(node, (each) => this.tree.lastUpdatedAt(each) >= at)
  }

  #knownEntry(node: NodeId): KnownEntry {
    const { tree } = this
    return {
      isDirectory: tree.isDirectory(node),
      isSymlink: tree.isSymlink(node),
      size: tree.size(node),
      modifiedTime: tree.modifiedTime(node),
      lastUpdatedAt: tree.lastUpdatedAt(node),
      agent: tree.agentOf(node),
      placeholder: tree.has(node, flag.placeholder),
    }
  }

  #tombstoneOver(path: string, node: NodeId): Tombstone | undefined {
    if (this.tombstones.size === 0) return undefined
    if (node !== none) return this.tombstones.get(path)
    return this.tombstones.over(path, (above) => this.tree.find(above) === none)
  }

  #parent(row: FileRow): { readonly modifiedTime: number; readonly lastUpdatedAt: number } | undefined {
    if (row.path === '/') return undefined
    const node = this.tree.find(row.parent_path ?? parentPath(row.path))
    if (node === none || this.tree.has(node, flag.placeholder)) return undefined
    return { modifiedTime: this.tree.modifiedTime(node), lastUpdatedAt: this.tree.lastUpdatedAt(node) }
  }
}

/** The path without a trailing slash. */
function plain(path: string): string {
  return path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path
}
