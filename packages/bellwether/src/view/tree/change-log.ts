/**
 * The change sequence of a tree. Every change gets the next number; an entry stores its latest number, and this log remembers
 * recent changes and removals. A reader that passes its last token misses no change, or learns that this is a fresh instance
 * and reads everything again. The log also has the times of recent changes that a sensor saw happen.
 */
// These changes are found without a walk. A reader that is further behind costs one walk over all entries.
const recentMax = 1 << 16
// Removed entries cannot store their number. Readers that fall further behind get a fresh instance.
const removedMax = 1 << 16
const removedCharactersMax = 16 << 20 // 65,536 paths of 4,096 characters would be a quarter of a gigabyte

export interface Change {
  readonly seq: number
  readonly path: string
  readonly kind: 'put' | 'removed'
  readonly isDirectory: boolean
  readonly isSymlink: boolean
}

export interface Changes {
  /** True: the token is too old or from another tree. `changes` is empty; read the whole tree, then continue with `token`. */
  readonly freshInstance: boolean
  /** Ordered by seq; one item per changed entry; `removed` of a directory includes everything below it. */
  readonly changes: readonly Change[]
  /** The token for the next call; if `more`, call again at once. */
  readonly token: string
  readonly more: boolean
}

export class ChangeLog {
  private readonly recent = new Uint32Array(recentMax)
  /** Server ms at which a sensor saw the change; 0 for a change that no sensor saw happen. */
  private readonly seenAt = new Float64Array(recentMax)
  /** 1: with this change the number of the entry got another file. Earlier changes of the number are not its own. */
  private readonly isFirst = new Uint8Array(recentMax)
  private removed: Change[] = []
  private first = 0
  private characters = 0
  /** Tokens below this missed a removal that the log has dropped. */
  private floor: number

  /** `seq` is the last number in use. */
  constructor(public seq: number) {
    this.floor = seq
  }

  next(node: number, isFirst: boolean, seenAt: number): number {
    this.seq += 1
    this.write(node, isFirst, seenAt)
    return this.seq
  }

  remove(path: string, isDirectory: boolean, isSymlink: boolean): void {
    this.seq += 1
    // Entry 0 is the root; its stored number differs, so readers skip this slot.
    this.write(0, false, 0)
    this.removed.push({ seq: this.seq, path, kind: 'removed', isDirectory, isSymlink })
    this.characters += path.length
    while (this.removed.length - this.first > removedMax || this.characters > removedCharactersMax) this.forgetFirst()
  }

  /** Whether the log still has all removals after `seq`. */
  reaches(seq: number): boolean {
    return seq >= this.floor && seq <= this.seq
  }

  /** The first `max` removals after `seq`. */
  removedSince(seq: number, max: number): Change[] {
    let low = this.first
    for (let above = this.removed.length; low < above;) {
      const middle = (low + above) >>> 1
      if (this.removed[middle]!.seq > seq) above = middle
      else low = middle + 1
    }
    return this.removed.slice(low, low + max)
  }

  /** The entries of the changes after `seq`, oldest first and with repeats; undefined if there are too many. */
  recentSince(seq: number): number[] | undefined {
    if (this.seq - seq > recentMax) return undefined
    const nodes: number[] = []
    for (let at = seq + 1; at <= this.seq; at += 1) nodes.push(this.recent[at % recentMax]!)
    return nodes
  }

  /** The recent changes that a sensor saw within a span of server ms: the entries with the times, newest first. */
  *seenWithin(fromMs: number, toMs: number): Generator<readonly [node: number, seenAt: number]> {
    const reused = new Set<number>()
    for (let seq = this.seq; seq > 0 && seq > this.seq - recentMax; seq -= 1) {
      const slot = seq % recentMax
      const node = this.recent[slot]!
      const seenAt = this.seenAt[slot]!
      if (seenAt >= fromMs && seenAt <= toMs && seenAt > 0 && !reused.has(node)) yield [node, seenAt]
      if (this.isFirst[slot] === 1) reused.add(node)
    }
  }

  private write(node: number, isFirst: boolean, seenAt: number): void {
    const slot = this.seq % recentMax
    this.recent[slot] = node
    this.seenAt[slot] = seenAt
    this.isFirst[slot] = isFirst ? 1 : 0
  }

  private forgetFirst(): void {
    const first = this.removed[this.first]!
    this.floor = first.seq
    this.characters -= first.path.length
    this.first += 1
    // Cut the array only when half of it is unused: each cut copies it.
    if (this.first * 2 < this.removed.length) return
    this.removed = this.removed.slice(this.first)
    this.first = 0
  }
}
