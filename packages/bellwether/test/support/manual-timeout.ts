/** The system clock, except that sleeps of one length, a timeout, end only when the test lets them elapse. */
import { onAbort, systemClock, type Clock } from '@bellwether/base'

export interface ManualTimeout {
  readonly clock: Clock
  /** Ends the sleeps that are pending now. */
  elapse(): void
}

export function manualTimeout(timeoutMs: number): ManualTimeout {
  const pending = new Set<() => void>()
  const clock: Clock = {
    ...systemClock,
    sleep: (ms, signal) =>
      ms !== timeoutMs
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
