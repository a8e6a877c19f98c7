/** The system clock, except that sleeps of one length, a timeout or what is left of it, end only when the test lets them elapse. */
import { onAbort, systemClock, type Clock } from '@bellwether/base'

export interface ManualTimeout {
  readonly clock: Clock
  /** Ends the sleeps that are pending now. */
  elapse(): void
}

export function manualTimeout(timeoutMs: number, leastLeftMs = timeoutMs): ManualTimeout {
  const pending = new Set<() => void>()
  const clock: Clock = {
    ...systemClock,
    sleep: (ms, signal) =>
      ms > timeoutMs || ms < leastLeftMs
        ? systemClock.sleep(ms, signal)
        : new Promise<void>((resolve) => {
            pending.add(resolve)
            onAbort(signal, resolve)
          }),
  }
  return {
    clock,
    elapse() {
      for (const resolve of pending) resolve()
      pending.clear()
    },
  }
}
