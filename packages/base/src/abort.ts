/**
 * Links abort signals. `AbortSignal.any` is not used: on Node 20 each derived signal stays referenced by a long-lived parent,
 * so a process that links one signal per request grows without bound. Every link made here can be released.
 */

/**
 * Calls `act` once when `signal` aborts, at once if it already has. Returns a function that removes the listener; calling it
 * twice is harmless.
 */
export function onAbort(signal: AbortSignal | undefined, act: () => void): () => void {
  if (signal === undefined) return () => {}
  if (signal.aborted) {
    act()
    return () => {}
  }
  const listener = () => act()
  signal.addEventListener('abort', listener, { once: true })
  return () => signal.removeEventListener('abort', listener)
}

export interface LinkedAbort {
  readonly signal: AbortSignal
  /** Aborts this signal only, and releases the links. */
  abort(reason?: unknown): void
  /** Removes the listeners from the parents without aborting. */
  release(): void
}

/** A signal that aborts when any parent does, with that parent's reason. Call `abort` or `release` when the work is over. */
export function linkAbort(...parents: readonly (AbortSignal | undefined)[]): LinkedAbort {
  const controller = new AbortController()
  const releases: (() => void)[] = []
  const release = () => {
    for (const remove of releases.splice(0)) remove()
  }
  const abort = (reason?: unknown) => {
    release()
    controller.abort(reason)
  }
  for (const parent of parents) {
    if (controller.signal.aborted) break
    releases.push(onAbort(parent, () => abort(parent?.reason)))
  }
  if (controller.signal.aborted) release()
  return { signal: controller.signal, abort, release }
}

/** Resolves when `signal` aborts. Never rejects. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    onAbort(signal, resolve)
  })
}
