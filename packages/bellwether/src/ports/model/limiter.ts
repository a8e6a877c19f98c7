/**
 * One gate for everybody in this process who uses the same account at a provider, so that a fleet does not storm it. Always: at
 * most `width` requests at once; after "too many requests" nobody asks until the pause is over, then one alone tries, and
 * only its success opens the gate again, wider with every success. First come, first served.
 */
import type { Clock } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import { backoffMs, type Backoff } from '../retry.js'

export type Outcome = 'well' | 'busy' | 'failed'

export interface Permit {
  /** Once a pass. `afterMs`: the pause that the provider asked for. */
  release(outcome: Outcome, afterMs?: number): void
}

export interface Limiter {
  /** Waits for its turn; undefined when the signal fired first. */
  acquire(signal: AbortSignal): Promise<Permit | undefined>
  readonly waiting: number
}

// A worker has at most as many turns; more in line than this is a mistake that memory should not pay for.
const queueMax = 20_000
/** Where the provider names no pause. No provider's word stops a fleet for longer than the longest: one asks again then. */
const backoff: Backoff = { mode: 'exponential', baseMs: 1_000, multiplier: 2, maxMs: 120_000, jitterPct: 0 }

export function openLimiter({
  clock,
  maxConcurrent: widest,
}: {
  readonly clock: Clock
  readonly maxConcurrent: number
}): Limiter {
  const queue: { go: (pass: Permit | undefined) => void }[] = []
  let width = widest
  let inside = 0
  let pausedUntilMs = 0
  let refusals = 0
  /** Requests that began before a pause say nothing about the time after it. */
  let pauseGeneration = 0
  let waking: AbortController | undefined

  function open(): void {
    while (queue.length > 0 && inside < width) {
      if (clock.monotonicMs() < pausedUntilMs) return void wakeLater()
      inside += 1
      queue.shift()?.go(pass())
    }
  }

  async function wakeLater(): Promise<void> {
    if (waking !== undefined) return
    waking = new AbortController()
    const { signal } = waking
    for (;;) {
      const restMs = pausedUntilMs - clock.monotonicMs()
      if (restMs <= 0 || signal.aborted) break
      await clock.sleep(restMs, signal)
    }
    waking = undefined
    open()
  }

  function pass(): Permit {
    const generation = pauseGeneration
    let left = false
    return {
      release(outcome, afterMs = 0) {
        if (left) return
        left = true
        inside -= 1
        if (outcome === 'busy') {
          if (generation === pauseGeneration) {
            pauseGeneration += 1
            refusals += 1
            width = 1
          }
          const restMs = afterMs > 0 ? Math.min(backoff.maxMs, afterMs) : backoffMs({ backoff }, refusals)
          pausedUntilMs = Math.max(pausedUntilMs, clock.monotonicMs() + restMs)
        } else if (outcome === 'well' && generation === pauseGeneration) {
          refusals = 0
          width = Math.min(widest, width + 1)
        }
        open()
      },
    }
  }

  return {
    get waiting() {
      return queue.length
    },
    async acquire(signal) {
      if (signal.aborted) return undefined
      if (queue.length >= queueMax)
        throw new Retryable(`${queueMax} requests wait for this model's provider`, { code: 'model_queue_full' })
      return new Promise((resolve) => {
        const entry = {
          go: (pass: Permit | undefined) => {
            signal.removeEventListener('abort', cancel)
            resolve(pass)
          },
        }
        const cancel = () => {
          const at = queue.indexOf(entry)
          if (at >= 0) queue.splice(at, 1)
          // Nobody waits any more: no timer may keep the process from ending.
          if (queue.length === 0) waking?.abort()
          resolve(undefined)
        }
        signal.addEventListener('abort', cancel, { once: true })
        queue.push(entry)
        open()
      })
    },
  }
}
