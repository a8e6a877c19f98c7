/**
 * Many small pieces of news become few: handed on at most once in `everyMs`, the first at once. Bounded: past `most` the oldest are
 * dropped and the receiver is told that something is missing, so that it asks instead.
 */
import type { Clock } from '../ports/clock.js'

export interface Gatherer<T> {
  push(items: readonly T[]): void
  stop(): void
}

export interface GatherOptions<T> {
  readonly everyMs: number
  readonly most: number
  readonly clock: Pick<Clock, 'nowMs' | 'after'>
  readonly flush: (items: readonly T[], isCut: boolean) => void
}

export function gather<T>({ everyMs, most, clock, flush }: GatherOptions<T>): Gatherer<T> {
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
