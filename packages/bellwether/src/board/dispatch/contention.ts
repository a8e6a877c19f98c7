/**
 * Counts writes that did not get the lock in time and raises one alert per window with three or more of them (H4.2). The
 * window uses monotonic time. Such a write is retried as the policy says (H1.3), which is safe because nothing is decided or
 * written without the lock; after the last try the caller gets an error with the time of all tries.
 */
import type { Clock, Random } from '@bellwether/base'
import { classify, decideRetry, type RetryPolicy } from '../../ports/retry.js'
import { LockContention } from '../log/locks/locks.js'
import type { Alerts } from './alerts.js'
import type { Board } from '../log/task.js'

const contentionWindowMs = 600_000
const contentionMax = 3

export interface Contention {
  /** All timeouts so far, for metrics. */
  readonly timeouts: number
  /** Counts one timeout. */
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
  let total = 0
  const contention: Contention = {
    get timeouts() {
      return total
    },
    timedOut() {
      const nowMs = clock.monotonicMs()
      total += 1
      recent = [...recent.filter((at) => nowMs - at < contentionWindowMs), nowMs]
      if (recent.length < contentionMax) return
      const text = `lock contention: ${recent.length} writes did not get the board's lock in time within ${contentionWindowMs / 60_000} minutes`
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
    history: (taskId, max) => inner.history(taskId, max),
    async write(decide) {
      const startedMs = clock.monotonicMs()
      for (let tries = 1; ; tries += 1) {
        try {
          return await inner.write(decide)
        } catch (error) {
          if (!(error instanceof LockContention)) throw error
          contention.timedOut()
          const next = decideRetry(retry, tries, classify(error), random.next())
          if (!next.retry) throw new LockContention(clock.monotonicMs() - startedMs, error.obstacle)
          await clock.sleep(next.waitMs)
        }
      }
    },
    onChange: (listener) => inner.onChange(listener),
    close: () => inner.close(),
  }
  return { board, contention }
}
