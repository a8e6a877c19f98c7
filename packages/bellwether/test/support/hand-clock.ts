/** A clock that stands still until a test moves it; sleepers wake in the order of their time. The wall can be set apart. */
import type { Clock } from '@bellwether/base'

export interface HandClock extends Clock {
  /** Moves both scales, and lets everybody whose time has come go on. */
  advance(ms: number): Promise<void>
  /** Sets the wall clock alone, as an administrator would. */
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

/** Lets everything that can go on without time or disk go on. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await new Promise<void>((resolve) => setImmediate(resolve))
}
