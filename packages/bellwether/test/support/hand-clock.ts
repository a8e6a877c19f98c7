/** A clock that stands still until a test moves it. Sleepers wake in the order of their deadlines. The wall clock can be set separately. */
import type { Clock } from '@bellwether/base'

export interface HandClock extends Clock {
  /** Moves both clocks and wakes the sleepers whose deadline has passed. */
  advance(ms: number): Promise<void>
  /** Moves the wall clock only, like an administrator. */
  jumpWall(ms: number): void
  readonly sleepers: number
}

export function handClock(startMs = Date.parse('2026-03-01T12:00:00Z')): HandClock {
  let wall = startMs
  let monotonic = 1_000
  const asleep: { until: number; wake: () => void }[] = []
  return {
    wallMs: () => wall,
    monotonicMs: () => monotonic,
    get sleepers() {
      return asleep.length
    },
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        if (signal?.aborted === true) return resolve()
        const entry = {
          until: monotonic + ms,
          wake: () => {
            const at = asleep.indexOf(entry)
            if (at >= 0) asleep.splice(at, 1)
            signal?.removeEventListener('abort', entry.wake)
            resolve()
          },
        }
        asleep.push(entry)
        signal?.addEventListener('abort', entry.wake, { once: true })
      }),
    async advance(ms) {
      const target = monotonic + ms
      for (;;) {
        const next = asleep.filter((one) => one.until <= target).sort((a, b) => a.until - b.until)[0]
        if (next === undefined) break
        wall += Math.max(0, next.until - monotonic)
        monotonic = Math.max(monotonic, next.until)
        next.wake()
        await settle()
      }
      wall += target - monotonic
      monotonic = target
      await settle()
    },
    jumpWall(ms) {
      wall += ms
    },
  }
}

/** Runs all pending work that needs neither time nor disk. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await new Promise<void>((resolve) => setImmediate(resolve))
}
