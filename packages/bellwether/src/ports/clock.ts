/**
 * The only source of time and timers in TypeScript. Durable time is the database's (`state.now()`); this clock is for
 * waiting, for measuring on the monotonic scale, and for showing people the hour.
 */
export interface Clock {
  /** Milliseconds since the epoch, for people and ids. Never compared with a time from the database. */
  wallMs(): number
  /** Milliseconds on a scale that never jumps; stands still while the machine sleeps. */
  monotonicMs(): number
  /** Resolves after `ms`, or at once when the signal fires. Never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
}

export const systemClock: Clock = {
  wallMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted) return resolve()
      const done = () => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', done)
        resolve()
      }
      const timer = setTimeout(done, ms)
      signal?.addEventListener('abort', done, { once: true })
    }),
}
