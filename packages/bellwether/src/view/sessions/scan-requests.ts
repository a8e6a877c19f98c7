/**
 * Has sensors scan paths on demand: for readers, and to settle disputes. A reader joins an equal job that no sensor has taken
 * yet; `scan-jobs.ts` stores the jobs.
 */
import { onAbort, type Clock, type Log } from '@bellwether/base'
import { Retryable, type PipeCommand } from '@bellwether/protocol'
import type { Ids } from '../../ports/ids.js'
import { OnDemandScan } from '../arbitration/scans.js'
import type { SourceState } from '../arbitration/source-state.js'
import { none, type Tree } from '../tree/tree.js'
import { pendingMax, ScanJobs, type ScanJob } from './scan-jobs.js'
import type { Sessions } from './sessions.js'

export interface ScanRequestOptions {
  /** The name of the view. */
  readonly view: string
  readonly sessions: Sessions
  readonly clock: Clock
  readonly ids: Ids
  readonly log: Log
}

/** A source as far as scans need it. */
interface ScannedSource {
  readonly id: string
  readonly tree: Tree
  readonly pipe: { readonly state: SourceState }
}

const jobTimeoutMs = 60_000
const settlingMax = 64 // directories; above that, one full scan costs the sensor less than many small ones

export class ScanRequests {
  readonly jobs = new ScanJobs()
  readonly #options: ScanRequestOptions

  constructor(options: ScanRequestOptions) {
    this.#options = options
  }

  /** Asks a sensor to scan a path now; joins an equal job that no sensor has taken yet. */
  request(
    source: ScannedSource,
    wanted: string,
    recursive: boolean,
    purpose: 'requested' | 'settling' = 'requested',
  ): ScanJob {
    const { clock, ids } = this.#options
    // Throws InvalidInput for an invalid path, so no sensor receives `..`.
    source.tree.find(wanted)
    const path = wanted.length > 1 && wanted.endsWith('/') ? wanted.slice(0, -1) : wanted
    const joined = this.jobs.findQueued(source.id, path, recursive, (job) => this.#isQueued(job))
    if (joined !== undefined && joined.scan.purpose === purpose) return joined
    if (this.jobs.pending >= pendingMax) {
      throw new Retryable('Too many scans are running; try again later', { code: 'scans_full', afterMs: 1_000 })
    }
    const job: ScanJob = {
      id: ids.next(),
      sourceId: source.id,
      path,
      recursive,
      scan: new OnDemandScan(source.pipe.state, source.pipe.state.beginScan(clock.wallMs()), purpose),
      until: clock.monotonicMs() + jobTimeoutMs,
      sessionId: '',
      state: 'pending',
      error: undefined,
      excluded: false,
      rows: 0,
      deleted: 0,
      direct: undefined,
      waiters: new Set(),
    }
    this.jobs.add(job)
    this.send(job, source)
    return job
  }

  /** Resolves when the job has ended or the signal aborts. */
  ended(job: ScanJob, signal: AbortSignal): Promise<void> {
    if (job.state !== 'pending' || signal.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      const wake = () => {
        job.waiters.delete(wake)
        release()
        resolve()
      }
      job.waiters.add(wake)
      const release = onAbort(signal, wake)
    })
  }

  /**
   * Has disputed paths scanned; the result of that scan decides. The sensor that reported the entry last scans it, because a
   * host whose cache is out of date would only repeat its own report.
   */
  settle(source: ScannedSource): void {
    const { paths, all } = source.pipe.state.takeDisputes()
    if (paths.length === 0 && !all) return
    try {
      if (all || paths.length > settlingMax) this.request(source, '/', true, 'settling')
      else for (const path of paths) this.request(source, path, false, 'settling')
    } catch (error) {
      if (!(error instanceof Retryable)) throw error
      // The command queue is full: dispute the paths again for the next audit.
      for (const path of all ? ['/'] : paths) source.pipe.state.dispute(path, all)
      this.#options.log.warn({ view: this.#options.view, source_id: source.id, paths: paths.length }, error.message)
    }
  }

  /** Gives the job to a sensor of the source, or ends it if there is none. */
  send(job: ScanJob, source: ScannedSource): void {
    const node = job.scan.purpose === 'settling' ? source.tree.find(job.path) : none
    const reporter = node === none ? undefined : this.#options.sessions.reporting(source.id, source.tree.agentOf(node))
    const session = reporter ?? this.#options.sessions.leader(source.id) ?? this.#options.sessions.of(source.id)[0]
    if (session === undefined) {
      this.jobs.end(job, 'failed', 'No sensor is connected')
      return
    }
    job.sessionId = session.id
    try {
      session.command({ type: 'scan', path: job.path, recursive: job.recursive, job_id: job.id })
    } catch (error) {
      if (!(error instanceof Retryable)) throw error
      this.jobs.end(job, 'failed', error.message)
    }
  }

  #isQueued(job: ScanJob): boolean {
    const session = this.#options.sessions.get(job.sessionId)
    return session?.hasQueued((command: PipeCommand) => command.type === 'scan' && command.job_id === job.id) === true
  }
}
