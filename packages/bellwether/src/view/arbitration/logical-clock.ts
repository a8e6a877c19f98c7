/**
 * The clock of the files (V6.7): what time it is where mtimes are made. Watermark = server time − the most frequent skew
 * (server time − mtime) of recent realtime rows, in whole seconds. Always: one file, whatever its mtime, cannot move it;
 * without samples it is the server's own time. It keeps no time itself: whoever asks says what time the server has.
 */

// Enough for the mode to be steady, few enough to follow a file server whose clock was set.
const samplesMax = 8_192
// No clock is further off than this; a file that is (restored from last year, touched into 2050) says nothing about clocks.
const skewMaxSeconds = 86_400
// While no skew has the majority, the mode is looked for again this often at most: a look costs one pass over the buckets.
const lookEvery = 64

export class LogicalClock {
  readonly #ring = new Int32Array(samplesMax)
  readonly #counts = new Map<number, number>()
  #size = 0
  #at = 0
  #mode = 0
  #sinceLook = 0

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
    this.#judge(bucket, count)
  }

  /** What time it is for files, in seconds. */
  watermark(nowSeconds: number): number {
    return nowSeconds - this.skewSeconds
  }

  #forget(bucket: number): void {
    const count = this.#counts.get(bucket)! - 1
    if (count === 0) this.#counts.delete(bucket)
    else this.#counts.set(bucket, count)
  }

  #judge(bucket: number, count: number): void {
    const best = this.#counts.get(this.#mode) ?? 0
    if (bucket === this.#mode || best * 2 > this.#size) return
    if (better(bucket, count, this.#mode, best)) {
      this.#mode = bucket
      return
    }
    this.#sinceLook += 1
    if (this.#sinceLook < lookEvery) return
    this.#sinceLook = 0
    let [mode, most] = [this.#mode, best]
    for (const [candidate, votes] of this.#counts)
      if (better(candidate, votes, mode, most)) [mode, most] = [candidate, votes]
    this.#mode = mode
  }
}

/** More votes win; with as many, the smaller correction does: doubt favours the server's clock. */
function better(bucket: number, votes: number, than: number, thanVotes: number): boolean {
  if (votes !== thanVotes) return votes > thanVotes
  return Math.abs(bucket) < Math.abs(than) || (Math.abs(bucket) === Math.abs(than) && bucket < than)
}
