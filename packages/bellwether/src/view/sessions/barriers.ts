/**
 * Barriers for `sync to now`: a reader that must see its own writes asks every realtime sensor to confirm that everything it
 * had seen by then is applied. A barrier ends when every sensor has confirmed or disconnected, or when the reader's time is
 * up. It is synced only if every sensor confirmed.
 */
import type { SyncReport } from '@bellwether/protocol/http'

export type BarrierEnd = Omit<SyncReport, 'token'>

interface Barrier {
  readonly waiting: Set<string>
  readonly lost: Set<string>
  resolve: () => void
}

export const barriersMax = 256 // concurrent readers; each one costs one command per sensor

export class Barriers {
  readonly #open = new Map<string, Barrier>()

  get size(): number {
    return this.#open.size
  }

  /** Waits until all `sessions` have passed barrier `id`, or until `timeUp`. */
  async wait(id: string, sessions: readonly string[], timeUp: Promise<void>): Promise<BarrierEnd> {
    const barrier: Barrier = { waiting: new Set(sessions), lost: new Set(), resolve: () => undefined }
    if (barrier.waiting.size > 0) {
      const passed = new Promise<void>((resolve) => {
        barrier.resolve = resolve
      })
      this.#open.set(id, barrier)
      await Promise.race([passed, timeUp])
      this.#open.delete(id)
    }
    const missing = [...barrier.waiting, ...barrier.lost]
    const sensors = sessions.length
    return { synced: missing.length === 0, sensors, passed: sensors - missing.length, missing }
  }

  passed(id: string, sessionId: string): void {
    const barrier = this.#open.get(id)
    if (barrier?.waiting.delete(sessionId) === true && barrier.waiting.size === 0) barrier.resolve()
  }

  /** A session that ended can no longer confirm. */
  sessionEnded(sessionId: string): void {
    for (const barrier of this.#open.values()) {
      if (!barrier.waiting.delete(sessionId)) continue
      barrier.lost.add(sessionId)
      if (barrier.waiting.size === 0) barrier.resolve()
    }
  }
}
