/** The browser's clock and timers; no other module of the dashboard reads the time or sets a timer. */
export const clock = {
  nowMs: (): number => Date.now(),
  /** Calls `act` once after `ms`; the returned function cancels it. */
  after(ms: number, act: () => void): () => void {
    const timer = setTimeout(act, ms)
    return () => clearTimeout(timer)
  },
  every(ms: number, act: () => void): () => void {
    const timer = setInterval(act, ms)
    return () => clearInterval(timer)
  },
  /** Aborts after `ms`. */
  deadline: (ms: number): AbortSignal => AbortSignal.timeout(ms),
}

export type Clock = typeof clock
