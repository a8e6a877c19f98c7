/** A wait that can be ended early. A call of `now` while no wait is active ends the next one at once, so none is lost. */
import { linkAbort, type Clock } from '@bellwether/base'

export interface Wake {
  now(): void
  wait(ms: number, signal: AbortSignal): Promise<void>
}

export function makeWake(clock: Clock): Wake {
  let called = false
  let end: (() => void) | undefined
  return {
    now() {
      called = true
      end?.()
    },
    async wait(ms, signal) {
      if (!called && !signal.aborted) {
        const over = linkAbort(signal)
        const stop = () => over.abort()
        end = stop
        await clock.sleep(ms, over.signal)
        over.release()
        if (end === stop) end = undefined
      }
      called = false
    },
  }
}
