/**
 * The sensor's only source of time and timers. The wall clock may be wrong by hours and says so nowhere: whoever compares
 * it with a file's time corrects it by the drift first. Waiting and judging silence go by the monotonic clock alone.
 */
export interface Clock {
  /** Milliseconds since the epoch, as this host believes. */
  wallMs(): number
  /** Milliseconds on a scale that never jumps back. */
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
