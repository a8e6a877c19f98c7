/**
 * The in-memory tree of one source, built for tens of millions of entries: typed-array columns, no JavaScript object per
 * entry. After every call the counts, sizes and change sequence agree with the entries; a call that throws changes nothing.
 * All calls are synchronous, and callers pass times in. Arbitration decides which rows may change the tree.
 */
import { InvalidInput, Terminal } from '@bellwether/protocol'
import { AgentPool } from './agent-pool.js'
import { ChangeLog, type Change, type Changes } from './change-log.js'
import { callerBits, entryPageBits, high, inSeq } from './columns.js'
import { checkRow, flag, none, root, shownFlags, type NodeId, type Row } from './entry.js'
import { TreeReader } from './reader.js'
import { Store } from './store.js'
import { entryLimit } from './child-table.js'

export { flag, none, root, type NodeId, type Row } from './entry.js'
export type { Change, Changes } from './change-log.js'

export interface TreeOptions {
  /** Identifies this tree in change tokens. A new id after a restart makes old tokens a fresh instance. */
  readonly id: string
  /** Maximum entries besides the root. Above it put() throws Terminal `view_full`. */
  readonly entryMax?: number | undefined
  /** A random number, so that an attacker cannot choose names that collide in the child table. */
  readonly seed?: number | undefined
}

const mask = (1 << entryPageBits) - 1
const marksMax = 65_535 // 16 bits per entry
// Changes per call; a reader gets the rest with its next call.
const changesMax = 10_000

export class Tree extends TreeReader {
  readonly id: string
  readonly entryMax: number
  private agents: AgentPool
  private log = new ChangeLog(0)
  private clears = 0
  private unlogged = 0
  private lastMark = 0

  constructor(options: TreeOptions) {
    super((options.seed ?? 0) | 0)
    this.id = options.id
    this.entryMax = Math.min(options.entryMax ?? entryLimit, entryLimit)
    this.agents = this.newAgentPool()
  }

  /** Creates or updates an entry. Missing parents, and a file that gets a child, become placeholder directories. */
  put(path: string, row: Row): NodeId {
    checkRow(row)
    const { parsed, store } = this
    const known = this.resolve(path)
    const agent = row.agent === undefined ? undefined : this.agents.numberOf(row.agent)
    if (known === parsed.depth) {
      this.apply(this.at, row, agent, false)
      return this.at
    }
    this.resolved = undefined
    const missing = parsed.depth - known
    if (this.count + missing > this.entryMax) throw this.viewFull()
    // Add the names first: only this step can still fail (a full pool), and an unused name does no harm.
    const names: number[] = []
    for (let i = known; i < parsed.depth; i += 1) names.push(this.nameRef(i))
    let node = this.at
    if (!store.isDirectory(node)) this.makePlaceholder(node)
    for (let i = known; i < parsed.depth; i += 1) {
      const isLast = i === parsed.depth - 1
      const isDirectory = !isLast || row.isDirectory
      node = store.make(
        node,
        names[i - known]!,
        parsed.hashes[i]!,
        isDirectory,
        isLast ? row.size : 0,
        isLast ? row.modifiedTime : 0,
      )
      if (isLast) this.apply(node, row, agent, true)
      else this.markPlaceholder(node)
    }
    return node
  }

  /** Removes the entry and everything below it; returns how many entries. The root cannot be removed: see clear(). */
  remove(node: NodeId): number {
    this.check(node)
    if (node === root) throw new InvalidInput('Cannot remove the root', { code: 'invalid_path', hint: 'Use clear().' })
    this.resolved = undefined
    this.logRemoved(this.pathOf(node), node)
    return this.store.discard(node)
  }

  /** Frees the memory of up to `max` entries of large removed directories. Readers see no difference. */
  freeRemoved(max: number): void {
    this.store.freeDetached(max)
  }

  /** Empties the tree; every token then gives a fresh instance. */
  clear(): void {
    this.resolved = undefined
    this.store = new Store(this.seed)
    this.agents = this.newAgentPool()
    this.log = new ChangeLog(this.log.seq)
    this.clears += 1
    this.unlogged += 1
  }

  setFlags(node: NodeId, set: number, clear: number): void {
    this.check(node)
    if (this.writeFlags(node, set, clear)) this.touch(node)
  }

  setAuditMark(node: NodeId, mark: number): void {
    this.check(node)
    this.store.page(node).audit[node & mask] = mark
  }

  agentOf(node: NodeId): string | undefined {
    return this.agents.idOf(this.store.page(node).agent[node & mask]!)
  }

  /** A mark that no entry carries. After 65,535 audits all marks are reset, and an open audit must start again. */
  nextAuditMark(): number {
    if (this.lastMark === marksMax) {
      for (const page of this.store.entries.pages) page.audit.fill(0)
      this.lastMark = 0
    }
    this.lastMark += 1
    return this.lastMark
  }

  /** The number of the last change. */
  get seq(): number {
    return this.log.seq
  }

  /** Counts changes that readers see but that have no change number: another sensor of an entry, and clear(). */
  get unloggedChanges(): number {
    return this.unlogged
  }

  /** Where a sensor mounts the source has changed, which readers see in every entry of that sensor. */
  countSensorChange(): void {
    this.unlogged += 1
  }

  /** Whether neither the entry nor anything below it changed after `since`. False also if there were more than `max` changes. */
  isUnchangedBelow(node: NodeId, path: string, since: number, max: number): boolean {
    if (since === this.log.seq) return true
    if (this.log.seq - since > max || !this.log.reaches(since)) return false
    for (const changed of this.log.recentSince(since) ?? [])
      if (changed === root ? node === root : this.exists(changed) && this.isBelow(changed, node)) return false
    const top = path.endsWith('/') ? path : `${path}/`
    return this.log
      .removedSince(since, max)
      .every(({ path: gone }) => !`${gone}/`.startsWith(top) && !top.startsWith(`${gone}/`))
  }

  /** The token of the current position in the change sequence. */
  token(): string {
    return this.tokenAt(this.log.seq)
  }

  changesSince(token: string, max = changesMax): Changes {
    const seq = this.seqOf(token)
    if (seq === undefined || !this.log.reaches(seq))
      return { freshInstance: true, changes: [], token: this.token(), more: false }
    const limit = Math.max(1, Math.min(max, changesMax))
    const changed = this.changedSince(seq, limit + 1)
    const removed = this.log.removedSince(seq, limit + 1)
    const changes: Change[] = []
    for (let i = 0, j = 0; changes.length < limit && (i < changed.length || j < removed.length);) {
      const node = changed[i]
      const gone = removed[j]
      if (node === undefined || (gone !== undefined && gone.seq < this.changeSeq(node))) {
        changes.push(gone!)
        j += 1
      } else {
        changes.push(this.changeOf(node))
        i += 1
      }
    }
    const more = changes.length < changed.length + removed.length
    return { freshInstance: false, changes, token: more ? this.tokenAt(changes.at(-1)!.seq) : this.token(), more }
  }

  /** Files that a sensor saw change within a span of server ms, with the times, as far as the log reaches: 65,536 changes. */
  *filesSeenWithin(fromMs: number, toMs: number): Generator<readonly [node: NodeId, seenAt: number]> {
    for (const change of this.log.seenWithin(fromMs, toMs))
      if (this.exists(change[0]) && !this.isDirectory(change[0])) yield change
  }

  private changeOf(node: NodeId): Change {
    const kinds = { isDirectory: this.isDirectory(node), isSymlink: this.isSymlink(node) }
    return { seq: this.changeSeq(node), path: this.pathOf(node), kind: 'put', ...kinds }
  }

  private logRemoved(path: string, node: NodeId): void {
    this.log.remove(path, this.isDirectory(node), this.isSymlink(node))
  }

  /** The first `max` entries whose latest change is after `seq`, oldest first. */
  private changedSince(seq: number, max: number): NodeId[] {
    const recent = this.log.recentSince(seq)
    if (recent)
      return recent.filter((node, i) => this.exists(node) && this.changeSeq(node) === seq + 1 + i).slice(0, max)
    // One pass over all entries that keeps at most 2 × max of them, because a reader far behind calls many times.
    let oldest: NodeId[] = []
    let bound = Number.POSITIVE_INFINITY
    const cut = () => {
      oldest = oldest.toSorted((one, other) => this.changeSeq(one) - this.changeSeq(other)).slice(0, max)
      if (oldest.length === max) bound = this.changeSeq(oldest.at(-1)!)
    }
    for (let node = this.nextNode(none); node !== none; node = this.nextNode(node)) {
      const at = this.changeSeq(node)
      if (at <= seq || at > bound) continue
      oldest.push(node)
      if (oldest.length >= max * 2) cut()
    }
    cut()
    return oldest
  }

  private tokenAt(seq: number): string {
    return `${this.id}.${this.clears}:${seq}`
  }

  private seqOf(token: string): number | undefined {
    const instance = `${this.id}.${this.clears}:`
    const digits = token.slice(instance.length)
    return token.startsWith(instance) && /^\d{1,15}$/.test(digits) ? Number(digits) : undefined
  }

  private isBelow(node: NodeId, top: NodeId): boolean {
    for (let up = node; ; up = this.parentOf(up)) {
      if (up === top) return true
      if (up === root) return false
    }
  }

  private nameRef(i: number): number {
    const { parsed } = this
    return this.store.names.add(parsed.bytes, parsed.starts[i]!, parsed.ends[i]!, parsed.hashes[i]!)
  }

  private apply(node: NodeId, row: Row, agent: number | undefined, isNew: boolean): void {
    const { store } = this
    if (node === root && !row.isDirectory)
      throw new InvalidInput('The row of the root must have "is_directory": true', { code: 'invalid_row' })
    const page = store.page(node)
    const at = node & mask
    const isOtherKind = store.isDirectory(node) !== row.isDirectory
    let changed = isNew || row.lastUpdatedAt !== undefined
    if (isOtherKind) {
      // Readers must drop what was below, even if the entry is a directory again at their next call.
      if (!row.isDirectory) this.logRemoved(this.pathOf(node), node)
      this.resolved = undefined
      store.changeType(node, row.isDirectory, row.size)
      changed = true
    } else if (store.sizeOf(node) !== row.size) {
      store.setSize(node, row.size)
      changed = true
    }
    if (page.modified[at] !== row.modifiedTime) {
      store.setModified(node, row.modifiedTime)
      changed = true
    }
    if (row.createdTime !== undefined && page.created[at] !== row.createdTime) {
      page.created[at] = row.createdTime
      changed = true
    }
    if (row.lastUpdatedAt !== undefined) this.writeUpdated(node, row.lastUpdatedAt)
    const isOtherAgent = agent !== undefined && page.agent[at] !== agent
    if (agent !== undefined) page.agent[at] = agent
    if (this.writeFlags(node, row.set ?? 0, (row.clear ?? 0) | flag.placeholder)) changed = true
    if (changed) this.touch(node, isNew || isOtherKind, row.seenAt)
    else if (isOtherAgent) this.unlogged += 1
  }

  private makePlaceholder(node: NodeId): void {
    this.store.changeType(node, true, 0)
    this.markPlaceholder(node)
  }

  private markPlaceholder(node: NodeId): void {
    this.writeFlags(node, flag.placeholder, flag.symlink)
    this.touch(node, true)
  }

  private touch(node: NodeId, isFirst = false, seenAt = 0): void {
    const seq = this.log.next(node, isFirst, seenAt)
    const page = this.store.page(node)
    const upper = Math.floor(seq / high)
    page.seqHigh[node & mask] = upper
    page.links[(node & mask) * 4 + inSeq] = seq - upper * high
  }

  /** Returns whether a bit changed that readers see. */
  private writeFlags(node: NodeId, set: number, clear: number): boolean {
    const { flags } = this.store.page(node)
    const before = flags[node & mask]!
    const after = (before & ~(clear & callerBits)) | (set & callerBits)
    flags[node & mask] = after
    return ((before ^ after) & shownFlags) !== 0
  }

  private writeUpdated(node: NodeId, ms: number): void {
    const page = this.store.page(node)
    const upper = Math.floor(ms / high)
    page.updatedHigh[node & mask] = upper
    page.updatedLow[node & mask] = ms - upper * high
  }

  private check(node: NodeId): void {
    if (!this.exists(node)) throw new Terminal(`There is no entry ${node}`, { code: 'unknown_entry' })
  }

  private newAgentPool(): AgentPool {
    return new AgentPool(() => {
      const inUse = new Set<number>()
      for (const page of this.store.entries.pages) for (const agent of page.agent) inUse.add(agent)
      return inUse
    })
  }

  private viewFull(): Terminal {
    return new Terminal(`The view is full: it has ${this.count} of at most ${this.entryMax} entries`, {
      code: 'view_full',
      hint: 'Raise the limit, or watch a smaller root.',
    })
  }
}
