/**
 * Limits the requests of this process per provider account: at most `width` at once, first come, first served. After "too many
 * requests" no request starts until the pause is over; then one request tries alone, and each success widens the limit again.
 */
import { type Clock, onAbort } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import { backoffMs, type Backoff } from '../retry.js'

type Outcome = 'ok' | 'busy' | 'failed'

export interface Permit {
  /** Call once per permit. `afterMs`: the pause that the provider requested. */
  release(outcome: Outcome, afterMs?: number): void
}

export interface Limiter {
  /** Waits for a permit; undefined if the signal aborts first. */
  acquire(signal: AbortSignal): Promise<Permit | undefined>
  readonly waiting: number
}

// More than the turns of any worker; a longer queue is a bug and must not use up the memory.
const queueMax = 20_000
/** Used if the provider names no pause; maxMs also limits a pause that the provider requests. */
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
  /** Counts the pauses: the outcome of a request that started before a pause is ignored after it. */
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
        } else if (outcome === 'ok' && generation === pauseGeneration) {
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
        throw new Retryable(`The queue for this model's provider is full (${queueMax} requests)`, {
          code: 'model_queue_full',
        })
      return new Promise((resolve) => {
        const entry = {
          go: (pass: Permit | undefined) => {
            release()
            resolve(pass)
          },
        }
        const cancel = () => {
          const at = queue.indexOf(entry)
          if (at >= 0) queue.splice(at, 1)
          // The queue is empty: stop the timer, which would keep the process alive.
          if (queue.length === 0) waking?.abort()
          resolve(undefined)
        }
        const release = onAbort(signal, cancel)
        queue.push(entry)
        open()
      })
    },
  }
}
