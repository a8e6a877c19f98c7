/** A wait that somebody may end early. A ring while nobody waits ends the next wait at once: none is lost. */
import type { Clock } from '@bellwether/base'

export interface Wake {
  now(): void
  wait(ms: number, signal: AbortSignal): Promise<void>
}

export function makeWake(clock: Clock): Wake {
  let rung = false
  let end: (() => void) | undefined
  return {
    now() {
      rung = true
      end?.()
    },
    async wait(ms, signal) {
      if (!rung && !signal.aborted) {
        const over = new AbortController()
        const stop = () => over.abort()
        end = stop
        signal.addEventListener('abort', stop, { once: true })
        await clock.sleep(ms, over.signal)
        signal.removeEventListener('abort', stop)
        if (end === stop) end = undefined
      }
      rung = false
    },
  }
}
