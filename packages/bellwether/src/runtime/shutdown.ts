/**
 * Turns signals into an orderly shutdown: the first SIGTERM or SIGINT drains, the second exits at once. With `parentPipe`, the end
 * of stdin also shuts down, so that children exit however their parent dies.
 */
import { setMaxListeners } from 'node:events'
import type { Log } from '@bellwether/base'

export interface Shutdown {
  /** Aborts when the process should drain and exit. */
  readonly signal: AbortSignal
  /** Whether the parent is gone, so that nothing waits for a long drain. */
  orphaned(): boolean
  /** Begins an orderly shutdown for a reason of the process itself. */
  begin(reason: string): void
  release(): void
}

/** Shorter than the 30 s after which Kubernetes and systemd kill a process. Other workers take over turns that did not end. */
export const drainSeconds = 20
/** A turn caused an uncaught error and failed: the worker drained and can be restarted at once (EX_TEMPFAIL). */
export const turnFailureExitCode = 75

const numbers = { SIGINT: 2, SIGTERM: 15 } as const

export interface ShutdownOptions {
  readonly parentPipe: boolean
  readonly log: Log
  /** Called before the second signal ends the process. */
  readonly onExit?: () => void
}

export function listenForShutdown({ parentPipe, log, onExit }: ShutdownOptions): Shutdown {
  const abort = new AbortController()
  setMaxListeners(0, abort.signal) // every part of the process listens to it
  let orphan = false

  function onSignal(name: NodeJS.Signals): void {
    if (abort.signal.aborted) {
      onExit?.()
      process.exit(128 + numbers[name as keyof typeof numbers])
    }
    log.info({ signal: name }, 'shutting down; a second signal exits at once')
    abort.abort(name)
  }

  function onPipeClosed(): void {
    if (abort.signal.aborted) return
    orphan = true
    log.info({}, 'parent process is gone; shutting down')
    abort.abort('parent_gone')
  }

  process.on('SIGTERM', onSignal)
  process.on('SIGINT', onSignal)
  if (parentPipe) {
    process.stdin.once('end', onPipeClosed).once('close', onPipeClosed).once('error', onPipeClosed)
    process.stdin.resume()
  }
  return {
    signal: abort.signal,
    orphaned: () => orphan,
    begin: (reason) => abort.abort(reason),
    release() {
      process.off('SIGTERM', onSignal)
      process.off('SIGINT', onSignal)
      if (parentPipe)
        process.stdin.off('end', onPipeClosed).off('close', onPipeClosed).off('error', onPipeClosed).destroy()
    },
  }
}
