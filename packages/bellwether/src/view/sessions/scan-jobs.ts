/**
 * On-demand scans (V4.1, V4.2): a reader requests a scan, the sensor gets the command with its next heartbeat response, sends
 * rows with the job id, and ends the job with `job_complete`. Every job ends, by its result or by its timeout. A reader
 * joins an older job only while no sensor has taken it; otherwise that scan began before the reader asked. While the pipe of
 * the source is down, the rows go to the reader and not into the view (`direct`).
 */
import type { DirectScan } from './direct-scan.js'
import type { OnDemandScan } from '../arbitration/scans.js'

export type ScanJobState = 'pending' | 'done' | 'failed' | 'timed_out'

export interface ScanJob {
  readonly id: string
  readonly sourceId: string
  readonly path: string
  readonly recursive: boolean
  readonly scan: OnDemandScan
  readonly until: number
  sessionId: string
  state: ScanJobState
  error: string | undefined
  /** The sensor does not report the path. */
  excluded: boolean
  rows: number
  deleted: number
  /** What the sensor reported while the pipe was down; the view is unchanged. */
  direct: DirectScan | undefined
  readonly waiters: Set<() => void>
}

// Ended jobs stay readable so that a client can poll their result.
const endedMax = 1_000
// Concurrent scans per view: each one walks a disk.
export const pendingMax = 256

export class ScanJobs {
  readonly #jobs = new Map<string, ScanJob>()
  readonly #pending = new Map<string, ScanJob>()

  get pending(): number {
    return this.#pending.size
  }

  get(id: string): ScanJob | undefined {
    return this.#jobs.get(id)
  }

  add(job: ScanJob): void {
    this.#jobs.set(job.id, job)
    this.#pending.set(job.id, job)
    for (const id of this.#jobs.keys()) {
      if (this.#jobs.size <= endedMax + pendingMax) break
      if (!this.#pending.has(id)) this.#jobs.delete(id)
    }
  }

  /** A pending job for the same scan that no sensor has taken yet. */
  findQueued(
    sourceId: string,
    path: string,
    recursive: boolean,
    isQueued: (job: ScanJob) => boolean,
  ): ScanJob | undefined {
    for (const job of this.#pending.values()) {
      if (job.sourceId === sourceId && job.path === path && job.recursive === recursive && isQueued(job)) return job
    }
    return undefined
  }

  of(sessionId: string): ScanJob[] {
    return [...this.#pending.values()].filter((job) => job.sessionId === sessionId)
  }

  end(job: ScanJob, state: Exclude<ScanJobState, 'pending'>, error?: string): void {
    if (job.state !== 'pending') return
    job.state = state
    job.error = error
    this.#pending.delete(job.id)
    if (state !== 'done') job.scan.reopenDispute(job.path, job.recursive)
    job.scan.clear()
    for (const wake of job.waiters) wake()
    job.waiters.clear()
  }

  overdue(monotonicMs: number): ScanJob[] {
    return [...this.#pending.values()].filter((job) => job.until <= monotonicMs)
  }
}
