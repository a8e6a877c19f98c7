/** Work that goes on until it ends or somebody has seen enough: the first Ctrl-C ends it in good order, the second at once. */

export interface Ended<T> {
  /** Undefined when it was interrupted before it came to its end. */
  readonly value: T | undefined
  readonly interrupted: boolean
}

const names = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
/** What shells say of a program that Ctrl-C has ended. */
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
    // What broke because we stopped it is no failure.
    if (!stop.signal.aborted) throw error
    return { value: undefined, interrupted: true }
  } finally {
    for (const name of names) process.off(name, interrupt)
  }
}
