/**
 * A restartable task: repeats a step and survives its failures. A failed step is counted and retried after the pause of the
 * recovery table. A step without progress for `stuckMs` is cancelled and started again, even if it ignores the cancellation;
 * time during which this process was paused does not count.
 */
import { type Clock, critical, linkAbort, type Log } from '@bellwether/base'
import { failureKind, recoveryFor, shortMessage } from './recovery.js'

export interface TaskOptions {
  readonly name: string
  readonly clock: Clock
  readonly log: Log
  /** Ends the task. */
  readonly signal: AbortSignal
  readonly stuckMs: number
  /** Called when the server has ended the session; the task then ends. */
  readonly onObsolete?: (error: unknown) => void
}

/** How a step reports its progress. */
export interface Progress {
  readonly signal: AbortSignal
  /** The step made progress. */
  moved(): void
  /** The step works, although it has not ended: resets the count of failures. */
  succeeded(): void
  /** The step waits for a promise; the wait does not count as a lack of progress. */
  idle<T>(promise: Promise<T>): Promise<T>
}

interface TaskHealth {
  readonly name: string
  restarts: number
  consecutive: number
  stuck: number
  error: string | undefined
}

const checkMs = 1_000

export interface Task {
  readonly health: TaskHealth
  /** Settles when the task has ended; never rejects. */
  readonly ended: Promise<void>
  cancel(): void
}

/** `step` returns the ms until its next call, or undefined when it is finished. */
export function startTask(options: TaskOptions, step: (progress: Progress) => Promise<number | undefined>): Task {
  const { name, clock, log } = options
  const health: TaskHealth = { name, restarts: 0, consecutive: 0, stuck: 0, error: undefined }
  const over = linkAbort(options.signal)

  async function runOnce(): Promise<number | undefined> {
    const run = linkAbort(over.signal)
    let [silentMs, resting] = [0, 0]
    const progress: Progress = {
      signal: run.signal,
      moved: () => void (silentMs = 0),
      succeeded: () => void ([silentMs, health.consecutive, health.error] = [0, 0, undefined]),
      async idle(promise) {
        resting += 1
        try {
          return await promise
        } finally {
          resting -= 1
          silentMs = 0
        }
      },
    }
    /** Counts at most two checks per wake-up: a longer gap is a pause of this process, not of the step. */
    async function watchProgress(): Promise<never> {
      for (let beforeMs = clock.monotonicMs(); ;) {
        await clock.sleep(checkMs, run.signal)
        if (run.signal.aborted) throw new DOMException('cancelled', 'AbortError')
        const nowMs = clock.monotonicMs()
        silentMs += resting > 0 ? 0 : Math.min(nowMs - beforeMs, 2 * checkMs)
        beforeMs = nowMs
        if (silentMs < options.stuckMs) continue
        health.stuck += 1
        throw new Error(`no progress for ${Math.round(silentMs / 1_000)} s`)
      }
    }
    try {
      return await Promise.race([step(progress), watchProgress()])
    } finally {
      run.abort()
    }
  }

  async function run(): Promise<void> {
    while (!over.signal.aborted) {
      let pauseMs: number | undefined
      try {
        pauseMs = await runOnce()
        health.consecutive = 0
        health.error = undefined
        if (pauseMs === undefined) return
      } catch (error) {
        const kind = failureKind(error, true)
        if (kind === 'session_obsolete') {
          options.onObsolete?.(error)
          return
        }
        const stopping = over.signal.aborted
        if (kind !== 'cancelled') health.consecutive += 1
        const recovery = recoveryFor({ kind, stopping, consecutive: health.consecutive })
        if (recovery.next === 'end') return
        health.restarts += 1
        health.error = shortMessage(error)
        pauseMs = recovery.pauseMs
        const fields = { task: name, error: health.error, restarts: health.restarts, pauseMs }
        if (recovery.isCritical) critical(log, fields, 'task keeps failing and is retried every minute')
        else log.warn(fields, 'task failed and will be retried')
      }
      await clock.sleep(pauseMs, over.signal)
    }
  }

  const ended = run().finally(() => {
    over.release()
    ;[health.consecutive, health.error] = [0, undefined]
  })
  return { health, ended, cancel: () => over.abort() }
}
