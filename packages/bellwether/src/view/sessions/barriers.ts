/**
 * `sync to now`: a reader who must see its own writes asks every realtime sensor to say when whatever it had seen by then
 * has been applied. Always: a barrier ends when the last asked sensor has answered, or is gone, or the reader's time is
 * up; it is in sync only if all that were asked have answered.
 */
export interface BarrierEnd {
  readonly synced: boolean
  readonly asked: number
  readonly passed: number
  /** Sessions that did not answer. */
  readonly missing: readonly string[]
}

interface Barrier {
  readonly waiting: Set<string>
  readonly lost: Set<string>
  readonly asked: number
  resolve: () => void
}

export const barriersMax = 256 // readers that wait at the same time; each costs every sensor a command

export class Barriers {
  readonly #open = new Map<string, Barrier>()

  get size(): number {
    return this.#open.size
  }

  /** Waits for `sessions` to pass `id`, or for `timeUp`. */
  async wait(id: string, sessions: readonly string[], timeUp: Promise<void>): Promise<BarrierEnd> {
    const barrier: Barrier = {
      waiting: new Set(sessions),
      lost: new Set(),
      asked: sessions.length,
      resolve: () => undefined,
    }
    if (barrier.waiting.size > 0) {
      const passed = new Promise<void>((resolve) => {
        barrier.resolve = resolve
      })
      this.#open.set(id, barrier)
      await Promise.race([passed, timeUp])
      this.#open.delete(id)
    }
    const missing = [...barrier.waiting, ...barrier.lost]
    return { synced: missing.length === 0, asked: barrier.asked, passed: barrier.asked - missing.length, missing }
  }

  passed(id: string, sessionId: string): void {
    const barrier = this.#open.get(id)
    if (barrier?.waiting.delete(sessionId) === true && barrier.waiting.size === 0) barrier.resolve()
  }

  /** A session that ends cannot say what it had seen. */
  gone(sessionId: string): void {
    for (const barrier of this.#open.values()) {
      if (!barrier.waiting.delete(sessionId)) continue
      barrier.lost.add(sessionId)
      if (barrier.waiting.size === 0) barrier.resolve()
    }
  }
}
