/** Wakes the followers of a view's changes. It carries no data: followers query the tree with their change token. */
import { onAbort } from '@bellwether/base'

export class ChangeSignal {
  readonly #waiting = new Set<() => void>()
  #rings = 0

  /** Counts rings: a follower that reads it before a query and passes it to `wait` misses no change in between. */
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

  /** Resolves at the first ring after `seen`, or when the signal aborts. */
  wait(seen: number, signal: AbortSignal): Promise<void> {
    if (this.#rings !== seen || signal.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      const wake = () => {
        this.#waiting.delete(wake)
        release()
        resolve()
      }
      this.#waiting.add(wake)
      const release = onAbort(signal, wake)
    })
  }
}
