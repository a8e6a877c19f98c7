/**
 * Changes that no sensor saw happen (V6.5): additions are entries (by node), deletions are removed paths. Only audits and
 * on-demand scans find them. Realtime rows, deletion, seeing a deleted path again, and a new session clear them. Above the
 * limit the count still grows but the list does not.
 */

// A list for people and for the next audit's comparison.
const deletionsMax = 100_000

export class BlindSpots {
  readonly additions = new Set<number>()
  readonly #deletions = new Set<string>()
  #unlisted = 0

  get any(): boolean {
    return this.additions.size > 0 || this.deletionCount > 0
  }

  get deletionCount(): number {
    return this.#deletions.size + this.#unlisted
  }

  deletions(max: number): string[] {
    const listed: string[] = []
    for (const path of this.#deletions) {
      if (listed.length >= max) break
      listed.push(path)
    }
    return listed
  }

  /** Whether another deletion would be listed instead of only counted. */
  get hasRoom(): boolean {
    return this.#deletions.size < deletionsMax
  }

  /** Counts deletions without listing their paths. */
  countDeleted(count: number): void {
    this.#unlisted += count
  }

  deleted(path: string): void {
    if (this.#deletions.has(path)) return
    if (this.#deletions.size < deletionsMax) this.#deletions.add(path)
    else this.#unlisted += 1
  }

  seenAgain(path: string): void {
    if (this.#deletions.size > 0) this.#deletions.delete(path)
  }

  reset(): void {
    this.additions.clear()
    this.#deletions.clear()
    this.#unlisted = 0
  }
}
