/** Wakes whoever follows a view's changes. It carries nothing: followers ask the tree with their token. */
export class Feed {
  readonly #waiting = new Set<() => void>()
  #rings = 0

  /** Rises with every ring: a follower who compares it misses none between a look and a wait. */
  get rings(): number {
    return this.#rings
  }

  ring(): void {
    this.#rings += 1
    if (this.#waiting.size === 0) return
    const waiting = [...this.#waiting]
    this.#waiting.clear()
    for (const wake of waiting) wake()
  }

  /** Resolves at the first ring after `seen`, or when the signal fires. */
  wait(seen: number, signal: AbortSignal): Promise<void> {
    if (this.#rings !== seen || signal.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      const wake = () => {
        this.#waiting.delete(wake)
        signal.removeEventListener('abort', wake)
        resolve()
      }
      this.#waiting.add(wake)
      signal.addEventListener('abort', wake, { once: true })
    })
  }
}
