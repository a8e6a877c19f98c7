/**
 * Batches events: delivers them at most once per `everyMs`, the first one at once. If more than `most` wait, the
 * oldest are dropped and the receiver learns that it must refetch.
 */
import type { Clock } from '../ports/clock.js'

export interface Batcher<T> {
  push(items: readonly T[]): void
  stop(): void
}

export interface BatchOptions<T> {
  readonly everyMs: number
  readonly most: number
  readonly clock: Pick<Clock, 'nowMs' | 'after'>
  readonly flush: (items: readonly T[], isCut: boolean) => void
}

export function batchChanges<T>({ everyMs, most, clock, flush }: BatchOptions<T>): Batcher<T> {
  let items: T[] = []
  let isCut = false
  let lastMs = Number.NEGATIVE_INFINITY
  let cancel: (() => void) | undefined

  function send(): void {
    cancel = undefined
    lastMs = clock.nowMs()
    const batch = items
    const cut = isCut
    items = []
    isCut = false
    flush(batch, cut)
  }

  return {
    push(more) {
      items.push(...more)
      if (items.length > most) {
        items = items.slice(-most)
        isCut = true
      }
      cancel ??= clock.after(Math.max(0, lastMs + everyMs - clock.nowMs()), send)
    },
    stop() {
      cancel?.()
      cancel = undefined
      items = []
    },
  }
}
