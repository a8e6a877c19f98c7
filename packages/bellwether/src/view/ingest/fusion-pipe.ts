/**
 * The fusion pipe of one source: takes what sessions send, in order, and writes it into the source. Always: who speaks is
 * checked when the rows are applied, not when they arrive (hazard 22); nothing of a failed pipe stops another; a failed
 * pipe restarts itself, and refuses with a time to come back until then (V5.3). Who is connected is left to the view.
 */
import type { Clock, Log } from '@bellwether/base'
import {
  InvalidInput,
  pipeLimits,
  Retryable,
  Terminal,
  type IngestAnswer,
  type IngestMetadata,
  type SourceType,
} from '@bellwether/protocol'
import { backoffMs } from '../../ports/retry.js'
import { AuditWindow } from '../arbitration/scans.js'
import { giveWay, inSlices, Lane } from './serial-queue.js'
import type { Job } from '../sessions/scan-jobs.js'
import { checkEvent, type CheckedEvent } from '../arbitration/row-checks.js'
import type { Session } from '../sessions/sessions.js'
import { newTally, type Look, type Source, type Speaker, type Tally } from '../arbitration/source-state.js'

export interface Ingest {
  readonly events: readonly unknown[]
  readonly sourceType: SourceType
  readonly isEnd: boolean
  readonly metadata: IngestMetadata
}

export interface PipeOptions {
  readonly name: string
  readonly source: Source
  readonly clock: Clock
  readonly log: Log
  readonly auditIntervalMs: number
  readonly tombstoneTtlMs: number
  readonly newId: () => string
  readonly isLeader: (session: Session) => boolean
  readonly job: (id: string) => Job | undefined
  readonly onSnapshotEnd: () => void
  readonly onJobEnd: (job: Job, error: string | undefined) => void
  readonly onAuditEnd: () => void
  readonly onBarrier: (barrierId: string, session: Session) => void
  readonly onRows: () => void
  /** Said when it stops working and when it works again. */
  readonly onTrouble: (error: Error | undefined) => void
  /** Said with each batch that found no room, and with the first one that did again. */
  readonly onFull: (problem: string | undefined) => void
}

// At 2 to 4 µs a row this is how long others wait for the event loop at most: about 1 ms.
const sliceRows = 400
const restarts = { mode: 'exponential', baseMs: 1_000, multiplier: 2, maxMs: 30_000, jitterPct: 0 } as const

export class FusionPipe {
  audit: AuditWindow | undefined
  lastAuditStartAt: number | undefined
  lastAuditFinishedAt: number | undefined
  auditCycles = 0
  rowsApplied = 0
  rowsRejected = 0
  /** Monotonic ms of the last rows that were applied. */
  heardAt: number | undefined
  readonly #options: PipeOptions
  readonly #lane = new Lane()
  #failures = 0
  #isDown = false
  #restartAt = 0

  constructor(options: PipeOptions) {
    this.#options = options
  }

  get source(): Source {
    return this.#options.source
  }

  ingest(session: Session, request: Ingest): Promise<IngestAnswer> {
    this.#refuseWhileDown()
    const events = checkEvents(request.events)
    return this.#lane.run(async () => {
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
    return this.#lane.run(() => {
      this.#mustLead(session)
      const { source, clock, log, newId, name } = this.#options
      if (this.audit !== undefined) {
        log.warn({ pipe: name, audit_id: this.audit.auditId }, 'an audit was begun again before it ended')
        this.audit.close()
      }
      const startedAt = clock.wallMs()
      this.audit = new AuditWindow(
        source,
        auditId ?? newId(),
        session.id,
        auditId !== undefined,
        source.begin(startedAt),
        startedAt,
        clock.monotonicMs(),
      )
      this.lastAuditStartAt = startedAt
      return this.audit.auditId
    })
  }

  endAudit(session: Session, auditId: string | undefined, complete: boolean | undefined): Promise<'ended' | 'ignored'> {
    return this.#lane.run(() => this.#endAudit(session, auditId, complete))
  }

  /** Closes the window of an audit that nobody will end any more; nothing is concluded from it (V2.3). */
  abandonAudit(why: string): void {
    if (this.audit === undefined) return
    const { log, name } = this.#options
    log.warn(
      { pipe: name, audit_id: this.audit.auditId, session_id: this.audit.sessionId, why },
      'an audit was abandoned',
    )
    this.audit.close()
    this.audit = undefined
  }

  sweep(monotonicMs: number): void {
    if (this.#isDown && monotonicMs >= this.#restartAt) this.#restart()
    if (this.audit !== undefined && monotonicMs - this.audit.openedAt > 2 * this.#options.auditIntervalMs)
      this.abandonAudit('no end came within two audit intervals')
  }

  /** Runs what must not meet half a batch. */
  alone<T>(task: () => T): Promise<T> {
    return this.#lane.run(task)
  }

  async #apply(session: Session, request: Ingest, events: CheckedEvents): Promise<IngestAnswer> {
    this.#mustBeAlive(session)
    const { metadata, sourceType } = request
    const tally: Tally = newTally()
    tally.rejected = events.refused
    tally.firstProblem = events.problem
    if (metadata.seq !== undefined && metadata.seq <= session.seq) {
      this.#passBarriers(session, metadata)
      return { status: 'ok', count: 0, stale: true }
    }
    if (events.good.some((event) => event.from === 'snapshot' || event.from === 'audit')) this.#mustLead(session)
    const job = this.#jobOf(metadata)
    const foreign = this.#foreignAudit(session, metadata)
    let ignored = 0
    for (const event of events.good) {
      if (event.from === 'audit' && foreign) {
        ignored += event.rows.length
        continue
      }
      await this.#applyEvent(event, session, this.#lookOf(event, session, job), tally)
    }
    if (metadata.seq !== undefined) session.seq = metadata.seq
    this.rowsApplied += tally.applied
    this.rowsRejected += tally.rejected
    if (job !== undefined) job.rows += tally.applied + tally.kept
    if (tally.applied + tally.kept > 0) this.heardAt = this.#options.clock.monotonicMs()
    this.#passBarriers(session, metadata)
    const ended = await this.#end(session, request, job)
    if (tally.rejected > 0)
      this.#options.log.warn(
        { pipe: this.#options.name, session_id: session.id, rejected: tally.rejected, problem: tally.firstProblem },
        'malformed rows were refused',
      )
    if (tally.full > 0 || tally.applied > 0) this.#options.onFull(tally.full > 0 ? tally.firstProblem : undefined)
    const nothing = foreign && (ignored > 0 || ended === 'ignored')
    return {
      status: tally.full > 0 ? 'full' : nothing ? 'ignored' : 'ok',
      count: tally.applied + tally.kept,
      ...(tally.rejected > 0 ? { rejected: tally.rejected, message: tally.firstProblem } : {}),
      ...(foreign ? { message: `these rows belong to no audit that is open (${sourceType})` } : {}),
    }
  }

  async #applyEvent(event: CheckedEvent, session: Session, look: Look | undefined, tally: Tally): Promise<void> {
    const { source, clock, onRows } = this.#options
    for (let from = 0; from < event.rows.length; from += sliceRows) {
      if (from > 0) {
        await giveWay()
        this.#mustBeAlive(session)
      }
      const nowMs = clock.wallMs()
      const speaker: Speaker = {
        agent: session.facts.agentId,
        nowMs,
        monotonicMs: clock.monotonicMs(),
        seenAt: seenAt(session, event, nowMs),
        look,
      }
      source.apply(event, from, Math.min(event.rows.length, from + sliceRows), speaker, tally)
      onRows()
    }
  }

  async #end(session: Session, request: Ingest, job: Job | undefined): Promise<'ended' | 'ignored' | undefined> {
    const { sourceType, isEnd, metadata } = request
    if (sourceType === 'job_complete' || (sourceType === 'on_demand_job' && isEnd)) {
      if (job !== undefined) await this.#endJob(job, metadata)
      return undefined
    }
    if (!isEnd) return undefined
    if (sourceType === 'snapshot') {
      this.#mustLead(session)
      this.#options.onSnapshotEnd()
    } else if (sourceType === 'audit') return this.#endAudit(session, metadata.audit_id, metadata.complete)
    return undefined
  }

  async #endJob(job: Job, metadata: IngestMetadata): Promise<void> {
    if (job.state !== 'pending') return
    const failed = metadata.error ?? (metadata.complete === false ? 'the scan was not complete' : undefined)
    if (failed === undefined) job.deleted = await inSlices(job.look.detectMissing())
    this.#options.onJobEnd(job, failed)
  }

  async #endAudit(session: Session, auditId: string | undefined, complete: boolean | undefined) {
    const { audit } = this
    const { source, clock, log, name, tombstoneTtlMs } = this.#options
    if (audit === undefined || audit.sessionId !== session.id || (auditId ?? audit.auditId) !== audit.auditId)
      return 'ignored'
    this.#mustLead(session)
    // The older protocol says nothing of completeness; the newer one must.
    const whole = complete ?? !audit.markers
    const deleted = whole ? await inSlices(audit.detectMissing()) : 0
    const dropped = source.tombstones.sweep(clock.wallMs(), tombstoneTtlMs, audit.beganAt)
    audit.close()
    this.audit = undefined
    this.lastAuditFinishedAt = clock.wallMs()
    this.auditCycles += 1
    log.info(
      { pipe: name, audit_id: audit.auditId, complete: whole, deleted, tombstones_dropped: dropped },
      'an audit ended',
    )
    this.#options.onRows()
    this.#options.onAuditEnd()
    return 'ended' as const
  }

  #passBarriers(session: Session, metadata: IngestMetadata): void {
    for (const id of metadata.barriers ?? []) this.#options.onBarrier(id, session)
  }

  #jobOf(metadata: IngestMetadata): Job | undefined {
    const job = metadata.job_id === undefined ? undefined : this.#options.job(metadata.job_id)
    return job?.look.source === this.source && job.state === 'pending' ? job : undefined
  }

  /** Rows that name an audit which is not the open one, or not this session's. Rows that name none belong to none. */
  #foreignAudit(session: Session, metadata: IngestMetadata): boolean {
    if (metadata.audit_id === undefined) return false
    return this.audit?.auditId !== metadata.audit_id || this.audit.sessionId !== session.id
  }

  #lookOf(event: CheckedEvent, session: Session, job: Job | undefined): Look | undefined {
    if (event.from === 'audit') return this.audit?.sessionId === session.id ? this.audit : undefined
    return event.from === 'on_demand_job' ? job?.look : undefined
  }

  #mustBeAlive(session: Session): void {
    if (session.ended === undefined) return
    throw new Terminal(`the session is over: ${session.ended}`, {
      code: 'session_obsolete',
      hint: 'make a new session',
    })
  }

  #mustLead(session: Session): void {
    this.#mustBeAlive(session)
    if (this.#options.isLeader(session)) return
    throw new Terminal('only the leader may send snapshots and audits', {
      code: 'not_leader',
      hint: 'the next heartbeat says who leads',
    })
  }

  #refuseWhileDown(): void {
    if (!this.#isDown) return
    const waitMs = this.#restartAt - this.#options.clock.monotonicMs()
    if (waitMs <= 0) return this.#restart()
    throw new Retryable('the pipe of this source failed and is restarting', { code: 'pipe_failed', afterMs: waitMs })
  }

  /** Up again; how long the next pause is depends on whether it then works. */
  #restart(): void {
    this.#isDown = false
    this.#options.onTrouble(undefined)
  }

  #failed(error: unknown): void {
    if (error instanceof Terminal || error instanceof Retryable) return
    this.#failures += 1
    this.#isDown = true
    this.#restartAt = this.#options.clock.monotonicMs() + backoffMs({ backoff: restarts }, this.#failures)
    this.#options.onTrouble(error instanceof Error ? error : new Error(String(error)))
  }
}

interface CheckedEvents {
  readonly good: readonly CheckedEvent[]
  readonly refused: number
  readonly problem: string | undefined
}

function checkEvents(values: readonly unknown[]): CheckedEvents {
  const good: CheckedEvent[] = []
  let refused = 0
  let rows = 0
  let problem: string | undefined
  for (const value of values) {
    const event = checkEvent(value)
    if (typeof event === 'string') {
      refused += 1
      problem ??= event
      continue
    }
    rows += event.rows.length
    good.push(event)
  }
  if (rows > pipeLimits.rowsMax) {
    throw new InvalidInput(`a request may hold ${pipeLimits.rowsMax} rows, this one holds ${rows}`, {
      code: 'too_many_rows',
      hint: 'send it in parts',
    })
  }
  return { good, refused, problem }
}

/** When the sensor saw it, in server ms: its own time, moved by the smallest difference between the two clocks so far. */
function seenAt(session: Session, event: CheckedEvent, nowMs: number): number {
  if (event.index === undefined) return nowMs
  if (event.from === 'realtime') session.offsetMs = Math.min(session.offsetMs, nowMs - event.index)
  return Number.isFinite(session.offsetMs) ? event.index + session.offsetMs : nowMs
}
