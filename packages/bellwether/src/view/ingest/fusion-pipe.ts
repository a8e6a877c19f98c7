/**
 * The server end of a pipe: applies the requests of all sensors of one source, in order. A session is checked when its rows
 * are applied, not when they arrive (hazard 22). A failed pipe affects no other pipe, restarts itself, and rejects requests
 * with a retry delay until then (V5.3). The view manages sessions; `session/sensor-pipe.ts` of the sensor is the other end.
 */
import { asError, type Clock, type Log } from '@bellwether/base'
import {
  InvalidInput,
  pipeLimits,
  Retryable,
  Terminal,
  type IngestResponse,
  type IngestMetadata,
  type SourceType,
} from '@bellwether/protocol'
import { backoffMs } from '../../ports/retry.js'
import { AuditWindow } from '../arbitration/scans.js'
import { yieldToEventLoop, runInSlices, SerialQueue } from './serial-queue.js'
import { DirectScan } from '../sessions/direct-scan.js'
import type { ScanJob } from '../sessions/scan-jobs.js'
import { persistentAt, restartBackoff } from '../view-unit.js'
import { checkEvent, type CheckedEvent } from '../arbitration/row-checks.js'
import type { Session } from '../sessions/sessions.js'
import { newTally, type Scan, type SourceState, type ReportContext, type Tally } from '../arbitration/source-state.js'

export interface Ingest {
  readonly events: readonly unknown[]
  readonly sourceType: SourceType
  readonly isEnd: boolean
  readonly metadata: IngestMetadata
}

export interface PipeOptions {
  readonly name: string
  readonly state: SourceState
  readonly clock: Clock
  readonly log: Log
  readonly auditIntervalMs: number
  readonly tombstoneTtlMs: number
  readonly newId: () => string
  readonly isLeader: (session: Session) => boolean
  readonly job: (id: string) => ScanJob | undefined
  readonly onSnapshotEnd: () => void
  readonly onJobEnd: (job: ScanJob, error: string | undefined) => void
  readonly onAuditEnd: () => void
  readonly onBarrier: (barrierId: string, session: Session) => void
  readonly onRows: () => void
  /** Called with the error when the pipe fails, and with undefined when it works again. */
  readonly onHealthChange: (error: Error | undefined) => void
  /** Called when requests keep failing: the state of the source may be broken. */
  readonly onPersistentFailure: () => void
  /** Called with the problem for each batch that did not fit, and with undefined for the first batch that fits again. */
  readonly onFull: (problem: string | undefined) => void
}

// At 2 to 4 µs per row, other callbacks wait at most about 1 ms for the event loop.
const sliceRows = 400

export class FusionPipe {
  audit: AuditWindow | undefined
  lastAuditStartAt: number | undefined
  lastAuditFinishedAt: number | undefined
  auditCycles = 0
  rowsApplied = 0
  rowsRejected = 0
  /** Monotonic ms at which rows were last applied. */
  lastRowsAt: number | undefined
  readonly #options: PipeOptions
  readonly #queue = new SerialQueue()
  #failures = 0
  #isDown = false
  #restartAt = 0

  constructor(options: PipeOptions) {
    this.#options = options
  }

  get state(): SourceState {
    return this.#options.state
  }

  async ingest(session: Session, request: Ingest): Promise<IngestResponse> {
    const job = this.#jobOf(request.metadata)
    if (job !== undefined && this.#isDirect(job)) return this.#respondDirectly(session, request, job)
    this.#rejectWhileDown()
    const events = checkEvents(request.events)
    return this.#queue.run(async () => {
      try {
        const answer = await this.#apply(session, request, events)
        this.#failures = 0
        return answer
      } catch (error) {
        this.#failed(error)
        throw error
      }
    })
  }

  startAudit(session: Session, auditId: string | undefined): Promise<string> {
    return this.#queue.run(() => {
      this.#requireLeader(session)
      const { state, clock, log, newId, name } = this.#options
      if (this.audit !== undefined) {
        log.warn({ pipe: name, audit_id: this.audit.auditId }, 'audit restarted before it ended')
        this.audit.close()
      }
      const startedAt = clock.wallMs()
      this.audit = new AuditWindow(
        state,
        auditId ?? newId(),
        session.id,
        auditId !== undefined,
        state.beginScan(startedAt),
        startedAt,
        clock.monotonicMs(),
      )
      this.lastAuditStartAt = startedAt
      return this.audit.auditId
    })
  }

  endAudit(session: Session, auditId: string | undefined, complete: boolean | undefined): Promise<'ended' | 'ignored'> {
    return this.#queue.run(() => this.#endAudit(session, auditId, complete))
  }

  /** Closes the window of an audit whose end will not arrive, and deletes nothing (V2.3). */
  abandonAudit(reason: string): void {
    if (this.audit === undefined) return
    const { log, name } = this.#options
    log.warn({ pipe: name, audit_id: this.audit.auditId, session_id: this.audit.sessionId, reason }, 'audit abandoned')
    this.audit.close()
    this.audit = undefined
  }

  sweep(monotonicMs: number): void {
    if (this.#isDown && monotonicMs >= this.#restartAt) this.#restart()
    if (this.audit !== undefined && monotonicMs - this.audit.openedAt > 2 * this.#options.auditIntervalMs)
      this.abandonAudit('no end came within two audit intervals')
  }

  /** Runs a task while no batch is half applied. */
  runExclusive<T>(task: () => T): Promise<T> {
    return this.#queue.run(task)
  }

  /** V5.7: while the pipe is down, a requested scan answers its reader; once it does, it continues so to its end. */
  #isDirect(job: ScanJob): boolean {
    if (job.direct !== undefined) return true
    if (!this.#isDown || job.scan.purpose !== 'requested' || this.#options.clock.monotonicMs() >= this.#restartAt)
      return false
    if (job.rows === 0) return true
    this.#options.onJobEnd(job, 'The pipe of this source failed during the scan; request the scan again')
    return false
  }

  #respondDirectly(session: Session, request: Ingest, job: ScanJob): IngestResponse {
    this.#requireLive(session)
    const { valid } = checkEvents(request.events)
    const direct = (job.direct ??= new DirectScan(this.#options.newId()))
    const before = job.rows
    try {
      for (const event of valid) job.rows += direct.add(event, session.info.agentId)
    } catch (error) {
      if (!(error instanceof Terminal)) throw error
      this.#options.onJobEnd(job, error.message)
    }
    if (endsJob(request)) this.#options.onJobEnd(job, jobProblem(request.metadata))
    return { status: 'ok', count: job.rows - before }
  }

  async #apply(session: Session, request: Ingest, events: CheckedEvents): Promise<IngestResponse> {
    this.#requireLive(session)
    const { metadata, sourceType } = request
    const tally: Tally = newTally()
    tally.rejected = events.rejected
    tally.firstProblem = events.problem
    if (metadata.seq !== undefined && metadata.seq <= session.seq) {
      this.#passBarriers(session, metadata)
      return { status: 'ok', count: 0, stale: true }
    }
    if (events.valid.some((event) => event.origin === 'snapshot' || event.origin === 'audit'))
      this.#requireLeader(session)
    const job = this.#jobOf(metadata)
    const isForeign = this.#isForeignAudit(session, metadata)
    let ignored = 0
    for (const event of events.valid) {
      if (event.origin === 'audit' && isForeign) {
        ignored += event.rows.length
        continue
      }
      await this.#applyEvent(event, session, this.#scanOf(event, session, job), tally)
    }
    if (metadata.seq !== undefined) session.seq = metadata.seq
    this.rowsApplied += tally.applied
    this.rowsRejected += tally.rejected
    if (job !== undefined) job.rows += tally.applied + tally.unchanged
    if (tally.applied + tally.unchanged > 0) this.lastRowsAt = this.#options.clock.monotonicMs()
    this.#passBarriers(session, metadata)
    const ended = await this.#end(session, request, job)
    if (tally.rejected > 0)
      this.#options.log.warn(
        { pipe: this.#options.name, session_id: session.id, rejected: tally.rejected, problem: tally.firstProblem },
        'malformed rows rejected',
      )
    if (tally.full > 0 || tally.applied > 0) this.#options.onFull(tally.full > 0 ? tally.firstProblem : undefined)
    const isIgnored = isForeign && (ignored > 0 || ended === 'ignored')
    return {
      status: tally.full > 0 ? 'full' : isIgnored ? 'ignored' : 'ok',
      count: tally.applied + tally.unchanged,
      ...(tally.rejected > 0 ? { rejected: tally.rejected, message: tally.firstProblem } : {}),
      ...(isForeign ? { message: `The ${sourceType} rows do not belong to the open audit of this session` } : {}),
    }
  }

  async #applyEvent(event: CheckedEvent, session: Session, scan: Scan | undefined, tally: Tally): Promise<void> {
    const { state, clock, onRows } = this.#options
    for (let from = 0; from < event.rows.length; from += sliceRows) {
      if (from > 0) {
        await yieldToEventLoop()
        this.#requireLive(session)
      }
      const nowMs = clock.wallMs()
      const context: ReportContext = {
        agent: session.info.agentId,
        nowMs,
        monotonicMs: clock.monotonicMs(),
        seenAt: seenAt(session, event, nowMs),
        scan,
      }
      state.apply(event, from, Math.min(event.rows.length, from + sliceRows), context, tally)
      onRows()
    }
  }

  async #end(session: Session, request: Ingest, job: ScanJob | undefined): Promise<'ended' | 'ignored' | undefined> {
    const { sourceType, isEnd, metadata } = request
    if (endsJob(request)) {
      if (job !== undefined) await this.#endJob(job, metadata)
      return undefined
    }
    if (!isEnd) return undefined
    if (sourceType === 'snapshot') {
      this.#requireLeader(session)
      this.#options.onSnapshotEnd()
    } else if (sourceType === 'audit') return this.#endAudit(session, metadata.audit_id, metadata.complete)
    return undefined
  }

  async #endJob(job: ScanJob, metadata: IngestMetadata): Promise<void> {
    if (job.state !== 'pending') return
    job.excluded = metadata.excluded === true
    const failed = jobProblem(metadata)
    if (failed === undefined) job.deleted = await runInSlices(job.scan.detectMissing())
    this.#options.onJobEnd(job, failed)
  }

  async #endAudit(session: Session, auditId: string | undefined, complete: boolean | undefined) {
    const { audit } = this
    const { state, clock, log, name, tombstoneTtlMs } = this.#options
    if (audit === undefined || audit.sessionId !== session.id || (auditId ?? audit.auditId) !== audit.auditId)
      return 'ignored'
    this.#requireLeader(session)
    // Sensors that send no audit id do not report completeness either; the others must.
    const isComplete = complete ?? !audit.markers
    const deleted = isComplete ? await runInSlices(audit.detectMissing()) : 0
    const dropped = state.tombstones.sweep(clock.wallMs(), tombstoneTtlMs, audit.beganAt)
    audit.close()
    this.audit = undefined
    this.lastAuditFinishedAt = clock.wallMs()
    this.auditCycles += 1
    log.info(
      { pipe: name, audit_id: audit.auditId, complete: isComplete, deleted, tombstones_dropped: dropped },
      'audit ended',
    )
    this.#options.onRows()
    this.#options.onAuditEnd()
    return 'ended' as const
  }

  #passBarriers(session: Session, metadata: IngestMetadata): void {
    for (const id of metadata.barriers ?? []) this.#options.onBarrier(id, session)
  }

  #jobOf(metadata: IngestMetadata): ScanJob | undefined {
    const job = metadata.job_id === undefined ? undefined : this.#options.job(metadata.job_id)
    return job?.scan.source === this.state && job.state === 'pending' ? job : undefined
  }

  /** Whether the rows name an audit that is not open or not this session's. Rows without an audit id are not foreign. */
  #isForeignAudit(session: Session, metadata: IngestMetadata): boolean {
    if (metadata.audit_id === undefined) return false
    return this.audit?.auditId !== metadata.audit_id || this.audit.sessionId !== session.id
  }

  #scanOf(event: CheckedEvent, session: Session, job: ScanJob | undefined): Scan | undefined {
    if (event.origin === 'audit') return this.audit?.sessionId === session.id ? this.audit : undefined
    return event.origin === 'on_demand_job' ? job?.scan : undefined
  }

  #requireLive(session: Session): void {
    if (session.ended === undefined) return
    throw new Terminal(`The session has ended: ${session.ended}`, {
      code: 'session_obsolete',
      hint: 'Create a new session.',
    })
  }

  #requireLeader(session: Session): void {
    this.#requireLive(session)
    if (this.#options.isLeader(session)) return
    throw new Terminal('Only the leader of a source may send snapshots and audits', {
      code: 'not_leader',
      hint: 'The next heartbeat reports the role of this session.',
    })
  }

  #rejectWhileDown(): void {
    if (!this.#isDown) return
    const waitMs = this.#restartAt - this.#options.clock.monotonicMs()
    if (waitMs <= 0) return this.#restart()
    throw new Retryable('The pipe of this source failed and is restarting', { code: 'pipe_failed', afterMs: waitMs })
  }

  /** Keeps the failure count: the next pause grows unless a request succeeds first. */
  #restart(): void {
    this.#isDown = false
    this.#options.onHealthChange(undefined)
  }

  #failed(error: unknown): void {
    if (error instanceof Terminal || error instanceof Retryable) return
    this.#failures += 1
    this.#isDown = true
    this.#restartAt = this.#options.clock.monotonicMs() + backoffMs({ backoff: restartBackoff }, this.#failures)
    this.#options.onHealthChange(asError(error))
    if (this.#failures % persistentAt === 0) this.#options.onPersistentFailure()
  }
}

const endsJob = ({ sourceType, isEnd }: Ingest): boolean =>
  sourceType === 'job_complete' || (sourceType === 'on_demand_job' && isEnd)

/** Why the sensor could not finish the scan. */
const jobProblem = ({ error, complete }: IngestMetadata): string | undefined =>
  error ?? (complete === false ? 'The sensor could not scan everything' : undefined)

interface CheckedEvents {
  readonly valid: readonly CheckedEvent[]
  readonly rejected: number
  readonly problem: string | undefined
}

function checkEvents(values: readonly unknown[]): CheckedEvents {
  const valid: CheckedEvent[] = []
  let rejected = 0
  let rows = 0
  let problem: string | undefined
  for (const value of values) {
    const event = checkEvent(value)
    if (typeof event === 'string') {
      rejected += 1
      problem ??= event
      continue
    }
    rows += event.rows.length
    valid.push(event)
  }
  if (rows > pipeLimits.rowsMax) {
    throw new InvalidInput(`A request may contain at most ${pipeLimits.rowsMax} rows (got ${rows})`, {
      code: 'too_many_rows',
      hint: 'Send the rows in several requests.',
    })
  }
  return { valid, rejected, problem }
}

/** When the sensor saw the event, in server ms: the sensor's time plus the smallest clock difference measured so far. */
function seenAt(session: Session, event: CheckedEvent, nowMs: number): number {
  if (event.index === undefined) return nowMs
  if (event.origin === 'realtime') session.offsetMs = Math.min(session.offsetMs, nowMs - event.index)
  return Number.isFinite(session.offsetMs) ? event.index + session.offsetMs : nowMs
}
