/** Turns SIGINT and SIGTERM into an abort signal. A second signal exits at once. */
import { setMaxListeners } from 'node:events'

export interface Shutdown {
  /** Aborts at the first signal. */
  readonly signal: AbortSignal
  /** Removes the signal handlers. */
  release(): void
}

const numbers = { SIGINT: 2, SIGTERM: 15 } as const

export function handleShutdown(): Shutdown {
  const controller = new AbortController()
  setMaxListeners(0, controller.signal) // every scenario waits on it
  const onSignal = (name: NodeJS.Signals) => {
    if (controller.signal.aborted) process.exit(128 + numbers[name as keyof typeof numbers])
    controller.abort(name)
  }
  process.on('SIGTERM', onSignal)
  process.on('SIGINT', onSignal)
  return {
    signal: controller.signal,
    release() {
      process.off('SIGTERM', onSignal)
      process.off('SIGINT', onSignal)
    },
  }
}
