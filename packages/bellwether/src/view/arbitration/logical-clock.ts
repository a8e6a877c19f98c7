/**
 * The logical clock of a source (V6.7): the time on the host that sets mtimes. Watermark = server time − the most frequent
 * skew (server time − mtime) of recent realtime rows, in whole seconds. One file cannot move it, whatever its mtime. Without
 * samples it equals server time, which callers pass in.
 */

// Enough samples for a stable mode, few enough to follow a file server whose clock was changed.
const samplesMax = 8_192
// No clock is further off than this; a file that is (restored from last year, or touched to 2050) shows nothing about a clock.
const skewMaxSeconds = 86_400
// While no skew has the majority, the mode is recounted at most once per this many samples: one pass over the buckets.
const recountEvery = 64

export class LogicalClock {
  readonly #ring = new Int32Array(samplesMax)
  readonly #counts = new Map<number, number>()
  #size = 0
  #at = 0
  #mode = 0
  #sinceRecount = 0

  get samples(): number {
    return this.#size
  }

  /** The skew in use, in seconds; 0 without samples. */
  get skewSeconds(): number {
    return this.#size === 0 ? 0 : this.#mode
  }

  sample(nowSeconds: number, modifiedTime: number): void {
    const skew = nowSeconds - modifiedTime
    if (!(Math.abs(skew) <= skewMaxSeconds)) return
    const bucket = Math.round(skew)
    if (this.#size === samplesMax) this.#forget(this.#ring[this.#at]!)
    else this.#size += 1
    this.#ring[this.#at] = bucket
    this.#at = (this.#at + 1) % samplesMax
    const count = (this.#counts.get(bucket) ?? 0) + 1
    this.#counts.set(bucket, count)
    this.#updateMode(bucket, count)
  }

  /** The current time on the files' clock, in seconds. */
  watermark(nowSeconds: number): number {
    return nowSeconds - this.skewSeconds
  }

  #forget(bucket: number): void {
    const count = this.#counts.get(bucket)! - 1
    if (count === 0) this.#counts.delete(bucket)
    else this.#counts.set(bucket, count)
  }

  #updateMode(bucket: number, count: number): void {
    const best = this.#counts.get(this.#mode) ?? 0
    if (bucket === this.#mode || best * 2 > this.#size) return
    if (better(bucket, count, this.#mode, best)) {
      this.#mode = bucket
      return
    }
    this.#sinceRecount += 1
    if (this.#sinceRecount < recountEvery) return
    this.#sinceRecount = 0
    let [mode, most] = [this.#mode, best]
    for (const [candidate, votes] of this.#counts)
      if (better(candidate, votes, mode, most)) [mode, most] = [candidate, votes]
    this.#mode = mode
  }
}

/** More votes win; between equal counts the smaller correction wins, which favours the server's clock. */
function better(bucket: number, votes: number, than: number, thanVotes: number): boolean {
  if (votes !== thanVotes) return votes > thanVotes
  return Math.abs(bucket) < Math.abs(than) || (Math.abs(bucket) === Math.abs(than) && bucket < than)
}
