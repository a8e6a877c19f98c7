/**
 * Calls a step again and again until the signal aborts. If the step throws, the loop logs the error and retries after a
 * growing pause. Tests call the step directly.
 */
import { type Clock, type Log, makeWake, type Wake } from '@bellwether/base'
import { backoffMs } from './retry.js'

export interface LoopOptions {
  readonly name: string
  readonly intervalMs: number
  readonly clock: Clock
  readonly log: Log
  readonly signal: AbortSignal
  /** No growing pause after failures: a watchdog that pauses too long has to start its watch window again (W2.10). */
  readonly steady?: boolean
  /** While the step returns `quiet`, the interval doubles up to this one. A wake-up still ends the wait. */
  readonly quietMaxMs?: number
}

// The longest pause after failures: a step that can succeed again does not wait longer.
const pauseMaxMs = 10_000

export async function loop(
  options: LoopOptions,
  step: () => Promise<unknown>,
  wake: Wake = makeWake(options.clock),
): Promise<void> {
  let failures = 0
  let quietMs = 0
  while (!options.signal.aborted) {
    try {
      const isQuiet = (await step()) === 'quiet'
      quietMs = isQuiet ? Math.min(options.quietMaxMs ?? 0, Math.max(quietMs, options.intervalMs) * 2) : 0
      failures = 0
    } catch (error) {
      failures += 1
      options.log.error({ err: error, loop: options.name, failures }, `${options.name} failed and will be retried`)
    }
    const { intervalMs: baseMs, steady } = options
    const backoff = { mode: 'linear', baseMs, multiplier: 1, maxMs: pauseMaxMs, jitterPct: 0 } as const
    await wake.wait(
      failures === 0 || steady ? Math.max(baseMs, quietMs) : backoffMs({ backoff }, failures),
      options.signal,
    )
  }
}
