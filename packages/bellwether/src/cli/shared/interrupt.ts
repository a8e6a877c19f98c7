/** Runs work that Ctrl-C ends: the first signal aborts it, the second exits at once. */

export interface Ended<T> {
  /** Undefined if the work was interrupted before its end. */
  readonly value: T | undefined
  readonly interrupted: boolean
}

const names = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
/** The exit code of shells for a program that Ctrl-C ended. */
export const interruptedCode = 130

export async function untilInterrupted<T>(work: (signal: AbortSignal) => Promise<T>): Promise<Ended<T>> {
  const stop = new AbortController()
  const interrupt = () => {
    if (stop.signal.aborted) process.exit(interruptedCode)
    stop.abort()
  }
  for (const name of names) process.on(name, interrupt)
  try {
    return { value: await work(stop.signal), interrupted: stop.signal.aborted }
  } catch (error) {
    // An error after the interrupt is its consequence, not a failure.
    if (!stop.signal.aborted) throw error
    return { value: undefined, interrupted: true }
  } finally {
    for (const name of names) process.off(name, interrupt)
  }
}
