/**
 * A sorted list for many entries of which a few change. It is stored in blocks, so that a change moves the entries of one
 * block. No two entries may be equal for `compare`.
 */
const blockMax = 512

export class Sorted<T> {
  #blocks: T[][] = []
  #length = 0
  readonly #compare: (a: T, b: T) => number

  constructor(compare: (a: T, b: T) => number) {
    this.#compare = compare
  }

  get length(): number {
    return this.#length
  }

  first(count: number): readonly T[] {
    const found: T[] = []
    for (const block of this.#blocks) {
      if (found.length >= count) break
      found.push(...block.slice(0, count - found.length))
    }
    return found
  }

  /** Replaces all entries with one sort. */
  replaceAll(all: T[]): void {
    all.sort(this.#compare)
    this.#blocks = []
    this.#length = all.length
    // Half-full blocks: the first insertions need no split.
    for (let at = 0; at < all.length; at += blockMax / 2) this.#blocks.push(all.slice(at, at + blockMax / 2))
  }

  add(one: T): void {
    this.#length += 1
    const number = Math.min(this.#blockOf(one), this.#blocks.length - 1)
    const block = this.#blocks[number]
    if (block === undefined) {
      this.#blocks.push([one])
      return
    }
    block.splice(this.#placeIn(block, one), 0, one)
    if (block.length > blockMax) this.#blocks.splice(number + 1, 0, block.splice(blockMax / 2))
  }

  delete(one: T): void {
    const number = this.#blockOf(one)
    const block = this.#blocks[number]
    if (block === undefined) return
    const at = this.#placeIn(block, one)
    if (block[at] === undefined || this.#compare(block[at], one) !== 0) return
    block.splice(at, 1)
    this.#length -= 1
    if (block.length === 0) this.#blocks.splice(number, 1)
  }

  *[Symbol.iterator](): Generator<T, undefined> {
    for (const block of this.#blocks) yield* block
    return undefined
  }

  /** The first block whose last entry does not come before `one`. */
  #blockOf(one: T): number {
    let [from, to] = [0, this.#blocks.length]
    while (from < to) {
      const middle = (from + to) >>> 1
      if (this.#compare(this.#blocks[middle]!.at(-1)!, one) < 0) from = middle + 1
      else to = middle
    }
    return from
  }

  #placeIn(block: readonly T[], one: T): number {
    let [from, to] = [0, block.length]
    while (from < to) {
      const middle = (from + to) >>> 1
      if (this.#compare(block[middle]!, one) < 0) from = middle + 1
      else to = middle
    }
    return from
  }
}
