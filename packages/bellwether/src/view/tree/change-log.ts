/**
 * What changed since a reader last looked. Every change has the next number of one sequence; an entry remembers its latest,
 * and what was removed is remembered here for a while. Always holds: a reader who hands in the token of the last answer
 * misses nothing, or is told that this is a fresh instance and reads everything again. Leaves to others: entries.
 */
// The latest changes are found without looking at every entry; a reader who is further behind costs a walk over all.
const recentMax = 1 << 16
// Removals have no entry to be remembered by. Readers that fall behind more than this start afresh.
const removedMax = 1 << 16
const removedCharactersMax = 16 << 20 // 65,536 paths of 4,096 characters would be a quarter of a gigabyte

export interface Change {
  readonly seq: number
  readonly path: string
  readonly kind: 'put' | 'removed'
  readonly isDirectory: boolean
}

export interface Changes {
  /** True: the token is too old or of another tree. `changes` is empty; read the whole tree, then ask with `token`. */
  readonly freshInstance: boolean
  /** Ordered by seq; an entry that changed twice stands here once; `removed` of a directory stands for all below it. */
  readonly changes: readonly Change[]
  /** Hand it in next time; when `more`, at once. */
  readonly token: string
  readonly more: boolean
}

export class ChangeLog {
  private readonly recent = new Uint32Array(recentMax)
  private removed: Change[] = []
  private first = 0
  private characters = 0
  /** Tokens below this have missed a removal that is forgotten. */
  private floor: number

  /** `seq` is the latest number given so far. */
  constructor(public seq: number) {
    this.floor = seq
  }

  next(node: number): number {
    this.seq += 1
    this.recent[this.seq % recentMax] = node
    return this.seq
  }

  remove(path: string, isDirectory: boolean): void {
    this.seq += 1
    // Entry 0 is the root, whose own number tells that this change was not its.
    this.recent[this.seq % recentMax] = 0
    this.removed.push({ seq: this.seq, path, kind: 'removed', isDirectory })
    this.characters += path.length
    while (this.removed.length - this.first > removedMax || this.characters > removedCharactersMax) this.forgetFirst()
  }

  /** Whether all removals after `seq` are still known. */
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

  /** The entries of the changes after `seq`, oldest first (an entry may come again), or undefined when there are too many. */
  recentSince(seq: number): number[] | undefined {
    if (this.seq - seq > recentMax) return undefined
    const nodes: number[] = []
    for (let at = seq + 1; at <= this.seq; at += 1) nodes.push(this.recent[at % recentMax]!)
    return nodes
  }

  private forgetFirst(): void {
    const first = this.removed[this.first]!
    this.floor = first.seq
    this.characters -= first.path.length
    this.first += 1
    // Cutting the array at every removal would copy it each time.
    if (this.first * 2 < this.removed.length) return
    this.removed = this.removed.slice(this.first)
    this.first = 0
  }
}
