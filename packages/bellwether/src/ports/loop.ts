/**
 * Step, then loop: the step is a function that tests call; this only waits and calls it. A step that throws is reported and
 * tried again after a growing pause; the loop ends when its signal fires, and never of an error.
 */
import type { Clock, Log } from '@bellwether/base'
import { backoffMs } from './retry.js'

export interface LoopOptions {
  readonly name: string
  readonly intervalMs: number
  readonly clock: Clock
  readonly log: Log
  readonly signal: AbortSignal
  /** No growing pause after failures: a watchdog that stays away is one that was away (W2.10). */
  readonly steady?: boolean
}

/** What a loop waits on besides its interval. */
export interface Wake {
  /** Ends the present wait, or the next one if none is going on. */
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
        end = () => over.abort()
        signal.addEventListener('abort', end, { once: true })
        await clock.sleep(ms, over.signal)
        signal.removeEventListener('abort', end)
        end = undefined
      }
      rung = false
    },
  }
}

// After repeated failures a loop comes back at least this often: the first success must not wait for long.
const pauseMaxMs = 10_000

export async function loop(
  options: LoopOptions,
  step: () => Promise<unknown>,
  wake: Wake = makeWake(options.clock),
): Promise<void> {
  let failures = 0
  while (!options.signal.aborted) {
    try {
      await step()
      failures = 0
    } catch (error) {
      failures += 1
      options.log.error({ err: error, loop: options.name, failures }, `${options.name} failed and will be tried again`)
    }
    const { intervalMs: baseMs, steady } = options
    const backoff = { mode: 'linear', baseMs, multiplier: 1, maxMs: pauseMaxMs, jitterPct: 0 } as const
    await wake.wait(failures === 0 || steady ? baseMs : backoffMs({ backoff }, failures), options.signal)
  }
}
