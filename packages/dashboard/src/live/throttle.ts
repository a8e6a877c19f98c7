/**
 * Runs each named action at most once per `everyMs`; calls in between are merged into one later run. Bounded by the
 * number of names.
 */
import type { Clock } from '../ports/clock.js'

export interface Throttle {
  touch(name: string, act: () => void): void
  stop(): void
}

// More names than the pages use; the oldest are forgotten, so their next action may run early.
const namesMax = 200

export function throttle(everyMs: number, clock: Pick<Clock, 'nowMs' | 'after'>): Throttle {
  const doneMs = new Map<string, number>()
  const waiting = new Map<string, () => void>()
  return {
    touch(name, act) {
      if (waiting.has(name)) return
      const waitMs = (doneMs.get(name) ?? Number.NEGATIVE_INFINITY) + everyMs - clock.nowMs()
      const run = () => {
        waiting.delete(name)
        doneMs.delete(name)
        doneMs.set(name, clock.nowMs())
        if (doneMs.size > namesMax) doneMs.delete(doneMs.keys().next().value!)
        act()
      }
      if (waitMs <= 0) run()
      else waiting.set(name, clock.after(waitMs, run))
    },
    stop() {
      for (const cancel of waiting.values()) cancel()
      waiting.clear()
    },
  }
}
