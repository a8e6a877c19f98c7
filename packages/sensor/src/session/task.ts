/**
 * A restartable task: runs a step again and again, and survives whatever the step does. Always: a step that fails is
 * counted and tried again after a pause from the recovery table; one that shows no progress for `stuckMs` is cancelled
 * and started again, even if it ignores the cancelling; the time in which this process was itself paused does not count.
 */
import { type Clock, critical, type Log } from '@bellwether/base'
import { kindOf, recoveryFor, textOf } from './recovery.js'

export interface TaskOptions {
  readonly name: string
  readonly clock: Clock
  readonly log: Log
  /** Ends the task for good. */
  readonly signal: AbortSignal
  readonly stuckMs: number
  /** Told of a session that the server has ended; the task then ends. */
  readonly onObsolete?: (error: unknown) => void
}

/** What a step may say of itself. */
export interface Progress {
  readonly signal: AbortSignal
  /** Something moved. */
  moved(): void
  /** Nothing will move until the promise settles, and that is as it should be. */
  rest<T>(promise: Promise<T>): Promise<T>
}

export interface TaskHealth {
  readonly name: string
  restarts: number
  consecutive: number
  stuck: number
  error: string | undefined
}

const judgeMs = 1_000

export interface Task {
  readonly health: TaskHealth
  /** Settles when the task has ended; never rejects. */
  readonly ended: Promise<void>
  cancel(): void
}

/** `step` answers after how many milliseconds it wants to be called again; undefined: it is finished. */
export function startTask(options: TaskOptions, step: (progress: Progress) => Promise<number | undefined>): Task {
  const { name, clock, log } = options
  const health: TaskHealth = { name, restarts: 0, consecutive: 0, stuck: 0, error: undefined }
  const over = new AbortController()
  const end = () => over.abort()
  if (options.signal.aborted) end()
  options.signal.addEventListener('abort', end, { once: true })

  async function attempt(): Promise<number | undefined> {
    const run = new AbortController()
    const cancel = () => run.abort()
    over.signal.addEventListener('abort', cancel, { once: true })
    let [silentMs, resting] = [0, 0]
    const progress: Progress = {
      signal: run.signal,
      moved: () => void (silentMs = 0),
      async rest(promise) {
        resting += 1
        try {
          return await promise
        } finally {
          resting -= 1
          silentMs = 0
        }
      },
    }
    /** Counts only what it saw itself: a jump of the clock is a pause of this process, not of the step. */
    async function judge(): Promise<never> {
      for (let beforeMs = clock.monotonicMs(); ;) {
        await clock.sleep(judgeMs, run.signal)
        if (run.signal.aborted) throw new DOMException('cancelled', 'AbortError')
        const nowMs = clock.monotonicMs()
        silentMs += resting > 0 ? 0 : Math.min(nowMs - beforeMs, 2 * judgeMs)
        beforeMs = nowMs
        if (silentMs < options.stuckMs) continue
        health.stuck += 1
        throw new Error(`no progress for ${Math.round(silentMs / 1_000)} s`)
      }
    }
    try {
      return await Promise.race([step(progress), judge()])
    } finally {
      over.signal.removeEventListener('abort', cancel)
      run.abort()
    }
  }

  async function run(): Promise<void> {
    while (!over.signal.aborted) {
      let pauseMs: number | undefined
      try {
        pauseMs = await attempt()
        health.consecutive = 0
        health.error = undefined
        if (pauseMs === undefined) return
      } catch (error) {
        const kind = kindOf(error, true)
        if (kind === 'session_obsolete') {
          options.onObsolete?.(error)
          return
        }
        const stopping = over.signal.aborted
        if (kind !== 'cancelled') health.consecutive += 1
        const recovery = recoveryFor({ kind, stopping, consecutive: health.consecutive })
        if (recovery.next === 'end') return
        health.restarts += 1
        health.error = textOf(error)
        pauseMs = recovery.pauseMs
        const fields = { task: name, error: health.error, restarts: health.restarts, pauseMs }
        if (recovery.isCritical) critical(log, fields, 'a task keeps failing; it is tried again for ever')
        else log.warn(fields, 'a task failed and is started again')
      }
      await clock.sleep(pauseMs, over.signal)
    }
  }

  const ended = run().finally(() => options.signal.removeEventListener('abort', end))
  return { health, ended, cancel: end }
}
