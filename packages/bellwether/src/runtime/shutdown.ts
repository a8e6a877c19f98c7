/**
 * What ends a process: SIGTERM or SIGINT once (drain), twice (leave at once), or, when asked, the end of the parent's
 * pipe on stdin, so that a parent that dies in any way takes its children along.
 */
import { setMaxListeners } from 'node:events'
import type { Log } from '@bellwether/base'

export interface Lifeline {
  /** Fires when the process should drain and go. */
  readonly signal: AbortSignal
  /** Nobody waits for us any more: a long drain helps no one. */
  orphaned(): boolean
  release(): void
}

const numbers = { SIGINT: 2, SIGTERM: 15 } as const

export function holdLifeline({ parentPipe, log }: { readonly parentPipe: boolean; readonly log: Log }): Lifeline {
  const abort = new AbortController()
  setMaxListeners(0, abort.signal) // everything in the process waits on it
  let orphan = false

  function onSignal(name: NodeJS.Signals): void {
    if (abort.signal.aborted) process.exit(128 + numbers[name as keyof typeof numbers])
    log.info({ signal: name }, 'stopping; a second signal ends it at once')
    abort.abort(name)
  }

  function onPipeClosed(): void {
    if (abort.signal.aborted) return
    orphan = true
    log.info({}, 'the parent is gone; stopping')
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
    release() {
      process.off('SIGTERM', onSignal)
      process.off('SIGINT', onSignal)
      if (parentPipe)
        process.stdin.off('end', onPipeClosed).off('close', onPipeClosed).off('error', onPipeClosed).destroy()
    },
  }
}
