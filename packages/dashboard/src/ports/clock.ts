/** The browser's clock and timers; nothing else in the dashboard asks for the time or sets a timer. */
export const clock = {
  nowMs: (): number => Date.now(),
  /** Calls once, later; what it answers calls it off. */
  after(ms: number, act: () => void): () => void {
    const timer = setTimeout(act, ms)
    return () => clearTimeout(timer)
  },
  every(ms: number, act: () => void): () => void {
    const timer = setInterval(act, ms)
    return () => clearInterval(timer)
  },
  /** Fires after so long. */
  deadline: (ms: number): AbortSignal => AbortSignal.timeout(ms),
}

export type Clock = typeof clock
