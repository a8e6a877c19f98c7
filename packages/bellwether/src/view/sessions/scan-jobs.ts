/**
 * Scans on demand (V4.1, V4.2): a reader asks, a command goes to a sensor with its next heartbeat's answer, rows come
 * back under the job's id, and `job_complete` ends it. Always: a job ends, by its answer or its time-out; a reader joins
 * an older job only while no sensor has taken it, because otherwise the look began before the reader asked.
 */
import type { ScanLook } from '../arbitration/scans.js'

export type JobState = 'pending' | 'done' | 'failed' | 'timed_out'

export interface Job {
  readonly id: string
  readonly sourceId: string
  readonly path: string
  readonly recursive: boolean
  readonly look: ScanLook
  readonly until: number
  sessionId: string
  state: JobState
  error: string | undefined
  rows: number
  deleted: number
  readonly waiters: Set<() => void>
}

// Ended jobs are kept for those who ask how they ended.
const endedMax = 1_000
// What one view may have scanned at the same time: each is a walk on somebody's disk.
export const pendingMax = 256

export class Jobs {
  readonly #jobs = new Map<string, Job>()
  readonly #pending = new Map<string, Job>()

  get pending(): number {
    return this.#pending.size
  }

  get(id: string): Job | undefined {
    return this.#jobs.get(id)
  }

  add(job: Job): void {
    this.#jobs.set(job.id, job)
    this.#pending.set(job.id, job)
    for (const id of this.#jobs.keys()) {
      if (this.#jobs.size <= endedMax + pendingMax) break
      if (!this.#pending.has(id)) this.#jobs.delete(id)
    }
  }

  /** One for the same look that no sensor has taken yet. */
  untaken(sourceId: string, path: string, recursive: boolean, isQueued: (job: Job) => boolean): Job | undefined {
    for (const job of this.#pending.values()) {
      if (job.sourceId === sourceId && job.path === path && job.recursive === recursive && isQueued(job)) return job
    }
    return undefined
  }

  of(sessionId: string): Job[] {
    return [...this.#pending.values()].filter((job) => job.sessionId === sessionId)
  }

  end(job: Job, state: Exclude<JobState, 'pending'>, error?: string): void {
    if (job.state !== 'pending') return
    job.state = state
    job.error = error
    this.#pending.delete(job.id)
    if (state !== 'done') job.look.unsettled(job.path, job.recursive)
    job.look.forget()
    for (const wake of job.waiters) wake()
    job.waiters.clear()
  }

  overdue(monotonicMs: number): Job[] {
    return [...this.#pending.values()].filter((job) => job.until <= monotonicMs)
  }
}
