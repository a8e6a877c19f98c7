/**
 * One source in memory: its tree and what arbitration needs beside it (clock of the files, tombstones, suspects, blind
 * spots, the audit that is going on). Carries out the arbiter's decisions, synchronously, row by row. Always: marks in the
 * tree and the lists beside it agree, and everything is removed through `remove`. Who may speak is left to sessions, the
 * order of batches to the lane, and what an audit concludes to `audit.ts`.
 */
import { InvalidInput, Terminal, type FileRow } from '@bellwether/protocol'
import { decide, type Keep, type Known, type Tombstone } from './arbiter.js'
import { authority } from './authority.js'
import { BlindSpots } from './blind-spots.js'
import { LogicalClock } from './logical-clock.js'
import { parentPath, wrongDeletion, wrongRow, type CheckedEvent } from './row-checks.js'
import { Suspects } from './suspects.js'
import { Tombstones } from './tombstones.js'
import { flag, none, root, type NodeId, type Tree } from '../tree/tree.js'

/** A look at the disk that reports back: an audit or a scan. Rows that belong to it are counted as seen in it. */
export interface Look {
  readonly kind: 'audit' | 'scan'
  /** Server ms, on the source's own scale (`begin`). */
  readonly beganAt: number
  readonly trust: 'routine' | 'asked' | 'settling'
  /** Whether a directory is scanned only once its closing marker has come. Without: once its own row has. */
  readonly markers: boolean
  seen(node: NodeId): void
  /** This directory's children were all reported. */
  closed(node: NodeId): void
  /** Nothing may be concluded about this directory's children. */
  spoiled(path: string): void
}

/** Who speaks, and when. */
export interface Speaker {
  readonly agent: string
  /** Server ms now. */
  readonly nowMs: number
  readonly monotonicMs: number
  /** Server ms at which the event was seen, as well as that is known. */
  readonly seenAt: number
  readonly look: Look | undefined
}

export interface Tally {
  applied: number
  rejected: number
  kept: number
  firstProblem: string | undefined
  /** Entries that found no room. */
  full: number
}

export const newTally = (): Tally => ({ applied: 0, rejected: 0, kept: 0, firstProblem: undefined, full: 0 })

export interface SourceOptions {
  readonly tree: Tree
  readonly hotSeconds: number
}

/** On a directory: the audit whose mark it carries has read it to the end. */
export const readToEnd = flag.spare1

// Scanning the parents of these settles them; more than this many means that a whole look disagrees.
const disputesMax = 10_000

export class Source {
  readonly tree: Tree
  readonly clock = new LogicalClock()
  readonly tombstones = new Tombstones()
  readonly suspects = new Suspects()
  readonly blindSpots = new BlindSpots()
  /** Paths about which two sources of evidence disagree. */
  readonly #disputes = new Set<string>()
  /** More than can be listed, or somebody was to look at everything and did not. */
  #allDisputed = false
  /** Marks entries seen while an audit is open; 0: none is. */
  auditMark = 0
  readonly #hotSeconds: number
  #stamp = 0

  constructor(options: SourceOptions) {
    this.tree = options.tree
    this.#hotSeconds = options.hotSeconds
  }

  /** Server ms of a realtime row: never goes back, and always after the looks that began before it. */
  stamp(nowMs: number): number {
    this.#stamp = Math.max(nowMs, this.#stamp)
    return this.#stamp
  }

  /** Server ms at which a look begins: after every row before it, before every row after it. */
  begin(nowMs: number): number {
    const at = Math.max(nowMs, this.#stamp + 1)
    this.#stamp = at + 1
    return at
  }

  apply(event: CheckedEvent, from: number, to: number, speaker: Speaker, tally: Tally): void {
    for (let at = from; at < to; at += 1) {
      const value = event.rows[at]
      const wrong = event.type === 'delete' ? wrongDeletion(value) : wrongRow(value)
      if (wrong !== undefined) {
        this.#reject(value, wrong, speaker, tally)
        continue
      }
      try {
        const took =
          event.type === 'delete'
            ? this.#delete((value as FileRow).path, event, speaker)
            : this.#upsert(value as FileRow, event, speaker)
        if (took) tally.applied += 1
        else tally.kept += 1
      } catch (error) {
        const full = error instanceof Terminal && error.code === 'view_full'
        if (!(error instanceof InvalidInput) && !full) throw error
        if (full) tally.full += 1
        this.#reject(value, error.message, speaker, tally)
      }
    }
  }

  /** The entry and all below it, with every mark on them. */
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

  /** A session starts: blind spots are looked for anew (V6.5). */
  resetBlindSpots(): void {
    for (const node of this.blindSpots.additions) this.tree.setFlags(node, 0, flag.blindSpot)
    this.blindSpots.reset()
  }

  /** Judges suspects that are due; true when more of them are (V6.4). */
  judgeSuspects(monotonicMs: number, max: number): boolean {
    return this.suspects.judge(
      monotonicMs,
      this.#hotSeconds * 1_000,
      max,
      (node) => this.tree.modifiedTime(node),
      (node) => this.tree.setFlags(node, 0, flag.integritySuspect),
    ).more
  }

  /** What a sentinel saw of a suspect: the same mtime clears it, another one is recorded and watched for a full round. */
  sentinelSaw(path: string, modifiedTime: number, monotonicMs: number): 'cleared' | 'renewed' | 'unknown' {
    const node = this.tree.find(path)
    const recorded = node === none ? undefined : this.suspects.modifiedTime(node)
    if (recorded === undefined) return 'unknown'
    if (recorded === modifiedTime) {
      this.suspects.clear(node)
      this.tree.setFlags(node, 0, flag.integritySuspect)
      return 'cleared'
    }
    this.tree.update(node, { isDirectory: false, size: this.tree.size(node), modifiedTime })
    this.suspects.mark(node, modifiedTime, monotonicMs + this.#hotSeconds * 1_000)
    return 'renewed'
  }

  /** By the entries or by the marks, whichever are fewer: a million files under one mark are no reason to look at each. */
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

  #reject(value: unknown, problem: string, { look }: Speaker, tally: Tally): void {
    tally.rejected += 1
    const path = (value as { path?: unknown } | null)?.path
    tally.firstProblem ??= typeof path === 'string' ? `${problem} (${JSON.stringify(path.slice(0, 200))})` : problem
    // It may well be there, only badly described: do not conclude that it is gone.
    if (typeof path === 'string' && path.startsWith('/')) look?.spoiled(parentPath(path))
  }

  #upsert(row: FileRow, event: CheckedEvent, speaker: Speaker): boolean {
    const { tree } = this
    const { look } = speaker
    const path = plain(row.path)
    const node = tree.find(path)
    const isDirectory = row.is_directory === true
    const size = isDirectory ? 0 : (row.size ?? 0)
    const modifiedTime = row.modified_time ?? 0
    if (row.scan_complete === true && event.from !== 'realtime') {
      // Only a marker: its directory has had its own row.
      if (node !== none && tree.isDirectory(node)) look?.closed(node)
      return false
    }
    const known = node === none ? undefined : this.#known(node)
    const tombstone = this.#tombstoneOver(path, node)
    const decision = decide(
      {
        from: event.from,
        isDirectory,
        size,
        modifiedTime,
        atomic: row.is_atomic_write !== false,
        parentMtime: row.parent_mtime ?? undefined,
        agent: speaker.agent,
        seenAt: speaker.seenAt,
      },
      {
        known,
        tombstone,
        parent: known === undefined && authority[event.from].bowsToNewerParent ? this.#parent(row) : undefined,
        watermark: this.clock.watermark(speaker.nowMs / 1_000),
        hotSeconds: this.#hotSeconds,
        lookBeganAt: look?.beganAt,
        look: look?.trust ?? 'routine',
      },
    )
    if (!decision.take) {
      this.#keep(decision, path, node, event)
      if (node !== none && event.from !== 'realtime') this.#sawIn(look, node, row)
      return false
    }
    if (decision.samplesClock) this.clock.sample(speaker.nowMs / 1_000, modifiedTime)
    if (tombstone !== undefined) this.tombstones.lift(path)
    if (known !== undefined && known.isDirectory !== isDirectory && node !== root) this.remove(node)

    let set = 0
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
      lastUpdatedAt: decision.touches ? this.stamp(speaker.nowMs) : undefined,
      agent: speaker.agent,
      set,
      clear,
    })
    if (decision.suspect === 'mark')
      this.suspects.mark(at, modifiedTime, speaker.monotonicMs + decision.suspectSeconds * 1_000)
    else if (decision.suspect === 'clear') this.suspects.clear(at)
    if (decision.blindSpot === 'mark') this.blindSpots.additions.add(at)
    else if (decision.blindSpot === 'clear') this.blindSpots.additions.delete(at)
    if (decision.blindSpot !== 'leave') this.blindSpots.seenAgain(path)
    if (event.from !== 'realtime') this.#sawIn(look, at, row)
    return true
  }

  #keep(decision: Keep, path: string, node: NodeId, event: CheckedEvent): void {
    if (decision.reason === 'same' && event.from === 'snapshot') this.tree.setFlags(node, flag.knownByAgent, 0)
    if (node !== none && event.from === 'audit') this.blindSpots.seenAgain(path)
    if (decision.disputed !== 'no') this.dispute(decision.disputed === 'path' ? path : parentPath(path), false)
  }

  /** Somebody must look again: at the path, or at all that is below it too. */
  dispute(path: string, recursive: boolean): void {
    if (recursive || this.#disputes.size >= disputesMax) this.#allDisputed = true
    else this.#disputes.add(path)
  }

  /** What is to be looked at again; whoever takes it sees to it. */
  takeDisputes(): { readonly paths: readonly string[]; readonly all: boolean } {
    const taken = { paths: [...this.#disputes], all: this.#allDisputed }
    this.#disputes.clear()
    this.#allDisputed = false
    return taken
  }

  /** Whatever any look sees while an audit is open is there, also for the audit. */
  markSeen(node: NodeId): void {
    if (this.auditMark === 0 || this.tree.auditMark(node) === this.auditMark) return
    this.tree.setAuditMark(node, this.auditMark)
    if (this.tree.has(node, readToEnd)) this.tree.setFlags(node, 0, readToEnd)
  }

  #sawIn(look: Look | undefined, node: NodeId, row: FileRow): void {
    this.markSeen(node)
    look?.seen(node)
    if (look?.kind !== 'audit' || !this.tree.isDirectory(node)) return
    const skipped = row.audit_skipped === true
    if (skipped !== this.tree.has(node, flag.auditSkipped))
      this.tree.setFlags(node, skipped ? flag.auditSkipped : 0, skipped ? 0 : flag.auditSkipped)
    if (!look.markers && !skipped) look.closed(node)
  }

  #delete(told: string, event: CheckedEvent, speaker: Speaker): boolean {
    const { tree } = this
    const path = plain(told)
    const node = tree.find(path)
    if (node === root) throw new InvalidInput('the root cannot be deleted', { code: 'root' })
    if (event.from !== 'realtime') return this.#lookMissed(path, node, speaker)
    const watermark = this.clock.watermark(speaker.nowMs / 1_000)
    this.tombstones.put(path, {
      // A file from the future must not outlive its own deletion.
      logical: node === none ? watermark : Math.max(watermark, tree.newest(node)),
      physicalAt: this.stamp(speaker.nowMs),
      seenAt: speaker.seenAt,
      agent: speaker.agent,
    })
    this.blindSpots.seenAgain(path)
    if (node === none) return false
    this.remove(node)
    return true
  }

  /** A scan was asked for a path that is not there. Routine looks report what is there, and nothing else. */
  #lookMissed(path: string, node: NodeId, { look }: Speaker): boolean {
    if (node === none || look?.kind !== 'scan') return false
    if (this.updatedSince(node, look.beganAt)) return false
    this.remove(node)
    this.blindSpots.deleted(path)
    return true
  }

  /** Whether a realtime row touched the entry, or anything below it, at or after `at`. */
  updatedSince(node: NodeId, at: number): boolean {
    return this.tree.some(node, (each) => this.tree.lastUpdatedAt(each) >= at)
  }

  #known(node: NodeId): Known {
    const { tree } = this
    return {
      isDirectory: tree.isDirectory(node),
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

/** One slash at the end names the same entry. */
function plain(path: string): string {
  return path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path
}
