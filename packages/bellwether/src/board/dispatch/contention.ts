/**
 * Counts the writes that did not get the lock in time, and alerts when they come in numbers (H4.2). Always: the window is on
 * the monotonic scale; one alert a window, not one a failure after the third. Such a write is tried again as the policy says
 * (H1.3): nothing was decided or written without the lock. After the last try the error goes on to whoever wrote.
 */
import type { Clock, Random } from '@bellwether/base'
import { Retryable } from '@bellwether/protocol'
import { classify, decideRetry, type RetryPolicy } from '../../ports/retry.js'
import type { Alerts } from './alerts.js'
import type { Board } from '../log/task.js'

export const contentionWindowMs = 600_000
export const contentionMax = 3

export interface Contention {
  /** All timeouts so far: what a metrics page shows. */
  readonly timeouts: number
  /** Tells of one more: also for programs that met a lock elsewhere. */
  timedOut(): void
}

export interface ContentionPorts {
  readonly clock: Pick<Clock, 'monotonicMs' | 'sleep'>
  readonly random: Pick<Random, 'next'>
  readonly alerts: Pick<Alerts, 'raise'>
  readonly retry: RetryPolicy
}

export function countingContention(
  inner: Board,
  { clock, random, alerts, retry }: ContentionPorts,
): { readonly board: Board; readonly contention: Contention } {
  let recent: number[] = []
  let all = 0
  const contention: Contention = {
    get timeouts() {
      return all
    },
    timedOut() {
      const nowMs = clock.monotonicMs()
      all += 1
      recent = [...recent.filter((at) => nowMs - at < contentionWindowMs), nowMs]
      if (recent.length < contentionMax) return
      const text = `the board's lock was not free in time, ${recent.length} times in ${contentionWindowMs / 60_000} minutes`
      alerts.raise({ kind: 'lock_contention', text, details: { root: inner.root, timeouts: recent.length } })
      recent = []
    },
  }
  const board: Board = {
    root: inner.root,
    get state() {
      return inner.state
    },
    sync: () => inner.sync(),
    async write(decide) {
      for (let attempt = 1; ; attempt += 1) {
        try {
          return await inner.write(decide)
        } catch (error) {
          if (!(error instanceof Retryable) || error.code !== 'lock_contention') throw error
          contention.timedOut()
          const next = decideRetry(retry, attempt, classify(error), random.next())
          if (!next.retry) throw error
          await clock.sleep(next.waitMs)
        }
      }
    },
    close: () => inner.close(),
  }
  return { board, contention }
}
