/**
 * Files that may be incomplete (V6.4), each with its expiry and its mtime when it was marked. At expiry a file whose mtime is
 * the same is cleared; one whose mtime changed gets another period. Keyed by node: removing an entry must also clear it here,
 * because node ids are reused. The mark itself is a flag in the tree.
 */

export interface Suspect {
  readonly expiresAt: number
  readonly modifiedTime: number
}

export class Suspects {
  readonly #byNode = new Map<number, Suspect>()
  /** A binary heap of [expiresAt, node] pairs; pairs that no longer match the map are skipped when they reach the top. */
  #times: number[] = []
  #nodes: number[] = []

  get size(): number {
    return this.#byNode.size
  }

  nodes(): IterableIterator<number> {
    return this.#byNode.keys()
  }

  get(node: number): Suspect | undefined {
    return this.#byNode.get(node)
  }

  mark(node: number, modifiedTime: number, expiresAt: number): void {
    const before = this.#byNode.get(node)
    this.#byNode.set(node, { modifiedTime, expiresAt })
    // A file that is written constantly would fill the heap. Its earlier pending pair reads the new expiry anyway.
    if (before !== undefined && before.expiresAt <= expiresAt) return
    this.#push(expiresAt, node)
  }

  clear(node: number): boolean {
    return this.#byNode.delete(node)
  }

  clearAll(): void {
    this.#byNode.clear()
    this.#times = []
    this.#nodes = []
  }

  /** The soonest to expire first, if the list is cut. */
  list(max: number): { readonly node: number; readonly modifiedTime: number; readonly expiresAt: number }[] {
    const all = Array.from(this.#byNode, ([node, suspect]) => ({ node, ...suspect }))
    if (all.length > max) all.sort((a, b) => a.expiresAt - b.expiresAt)
    return all.slice(0, max)
  }

  /** Clears or renews up to `max` suspects that are due, by comparing their mtime with the recorded one. */
  expire(
    nowMs: number,
    renewMs: number,
    max: number,
    mtimeOf: (node: number) => number,
    release: (node: number) => void,
  ): { readonly cleared: number; readonly renewed: number; readonly more: boolean } {
    let cleared = 0
    let renewed = 0
    while (this.#times.length > 0 && this.#times[0]! <= nowMs && cleared + renewed < max) {
      const node = this.#pop()
      const suspect = this.#byNode.get(node)
      if (suspect === undefined) continue
      if (suspect.expiresAt > nowMs) {
        this.#push(suspect.expiresAt, node)
        continue
      }
      const modifiedTime = mtimeOf(node)
      if (modifiedTime === suspect.modifiedTime) {
        this.#byNode.delete(node)
        release(node)
        cleared += 1
      } else {
        this.#byNode.set(node, { modifiedTime, expiresAt: nowMs + renewMs })
        this.#push(nowMs + renewMs, node)
        renewed += 1
      }
    }
    return { cleared, renewed, more: this.#times.length > 0 && this.#times[0]! <= nowMs }
  }

  #push(time: number, node: number): void {
    let at = this.#times.length
    this.#times.push(time)
    this.#nodes.push(node)
    while (at > 0) {
      const above = (at - 1) >> 1
      if (this.#times[above]! <= time) break
      this.#times[at] = this.#times[above]!
      this.#nodes[at] = this.#nodes[above]!
      at = above
    }
    this.#times[at] = time
    this.#nodes[at] = node
  }

  #pop(): number {
    const top = this.#nodes[0]!
    const time = this.#times.pop()!
    const node = this.#nodes.pop()!
    const length = this.#times.length
    if (length === 0) return top
    let at = 0
    for (;;) {
      let below = 2 * at + 1
      if (below >= length) break
      if (below + 1 < length && this.#times[below + 1]! < this.#times[below]!) below += 1
      if (this.#times[below]! >= time) break
      this.#times[at] = this.#times[below]!
      this.#nodes[at] = this.#nodes[below]!
      at = below
    }
    this.#times[at] = time
    this.#nodes[at] = node
    return top
  }
}
