/**
 * One view: its sources, each with a tree, a pipe and a leader (V6.9), and its sessions, scan jobs and barriers. Session
 * changes are synchronous, so leadership, audits and jobs always agree about which sessions exist. A live view drops a source
 * when its last session ends; a persistent view stays readable (V6.8). Callers drive time with `sweep`; HTTP and API keys are
 * handled elsewhere.
 */
import { critical, type Clock, type Log } from '@bellwether/base'
import { Retryable, Terminal, type AgentStatus, type IngestResponse } from '@bellwether/protocol'
import type { Ids } from '../ports/ids.js'
import { Barriers, barriersMax, type BarrierEnd } from './sessions/barriers.js'
import { ChangeSignal } from './queries/change-signal.js'
import { httpReceiver, unitKey, type HealthRegistry } from './health.js'
import { ScanRequests } from './sessions/scan-requests.js'
import { FusionPipe, type Ingest } from './ingest/fusion-pipe.js'
import {
  negotiateTimeout,
  clientField,
  sessionFields,
  sessionObsolete,
  Sessions,
  type Connect,
  type EndReason,
  type Session,
} from './sessions/sessions.js'
import { NewDirectories } from './sessions/new-directories.js'
import { SensorUnits } from './sessions/sensor-units.js'
import { SourceState } from './arbitration/source-state.js'
import { Tree } from './tree/tree.js'
import { ViewUnit } from './view-unit.js'

export interface ViewSettings {
  readonly sessionTimeoutSeconds: number
  readonly auditIntervalSeconds: number
  readonly sentinelIntervalSeconds: number
  readonly hotFileThresholdSeconds: number
  readonly tombstoneTtlSeconds: number
  /** Serves only current data: empty without sessions, unavailable if its pipe failed. */
  readonly live: boolean
  /** Accepts one session only. */
  readonly strict?: boolean
  /** Maximum entries per source. */
  readonly entryMax?: number
}

export interface ViewOptions {
  readonly name: string
  readonly settings: ViewSettings
  readonly clock: Clock
  readonly ids: Ids
  readonly log: Log
  readonly health: HealthRegistry
  readonly seed?: number
}

/** One source of a view. */
export interface ViewSource {
  readonly id: string
  readonly pipe: FusionPipe
  readonly tree: Tree
  /** Whether its first snapshot is complete. */
  ready: boolean
  /** Why the last batch did not fit, if it did not. */
  full: string | undefined
  readonly newDirectories: NewDirectories
  /** Where each sensor mounts it, by sensor id. */
  readonly uris: Map<string, string>
}

export const defaultSourceId = 'default'
const sourcesMax = 64 // each has its own tree and leader
const suspectsPerSweep = 2_000 // takes 1 to 2 ms
const freedPerSweep = 10_000 // takes a few ms; one million removed entries are freed within a minute
const urisMax = 10_000

export class View {
  readonly name: string
  readonly settings: ViewSettings
  readonly changeSignal = new ChangeSignal()
  readonly sessions: Sessions
  readonly scans: ScanRequests
  readonly sources = new Map<string, ViewSource>()
  readonly #options: ViewOptions
  readonly #barriers = new Barriers()
  readonly #units: SensorUnits
  readonly #unit: ViewUnit

  constructor(options: ViewOptions) {
    this.#options = options
    this.name = options.name
    this.settings = options.settings
    this.#units = new SensorUnits(options.name, options.health)
    this.sessions = new Sessions((session) =>
      options.log.info({ view: this.name, ...sessionFields(session) }, 'session became leader'),
    )
    const { name, health, log, clock, ids } = options
    this.scans = new ScanRequests({ view: name, sessions: this.sessions, clock, ids, log })
    this.#unit = new ViewUnit({ name, live: options.settings.live, health, log })
  }

  get key(): string {
    return this.#unit.key
  }

  get ready(): boolean {
    for (const source of this.sources.values()) if (source.ready) return true
    return false
  }

  /** V1.1, V1.5, V6.5, V6.10. */
  connect(request: Connect): Session {
    const { clock, ids, log } = this.#options
    if (this.settings.strict === true && this.sessions.size > 0) {
      throw new Terminal('This view accepts one session and already has one', {
        code: 'view_taken',
        hint: 'End that session, or wait until it times out.',
      })
    }
    const infoField = (key: string) => clientField(request, key)
    const sourceId = infoField('source_id') ?? defaultSourceId
    const source = this.#source(sourceId)
    source.pipe.state.resetBlindSpots()
    const agentId = infoField('agent_id') ?? request.taskId
    const sourceUri = infoField('source_uri') ?? ''
    if (source.uris.size < urisMax && source.uris.get(agentId) !== sourceUri) {
      source.uris.set(agentId, sourceUri)
      source.tree.countSensorChange()
    }
    const session = this.sessions.create(
      {
        sessionId: ids.next(),
        taskId: request.taskId,
        agentId,
        sourceId,
        sourceUri,
        clientAddress: request.clientAddress,
        timeoutMs: negotiateTimeout(request.timeoutSeconds, this.settings.sessionTimeoutSeconds) * 1_000,
        createdAtMs: clock.wallMs(),
        inProcess: request.inProcess === true,
        key: request.key,
      },
      clock.monotonicMs(),
    )
    this.#putPipeUnit(source)
    log.info({ view: this.name, ...sessionFields(session), role: session.role }, 'session started')
    return session
  }

  /** The session, or the error that makes a sensor create a new one. */
  session(id: string): Session {
    const session = this.sessions.get(id)
    if (session !== undefined) return session
    throw sessionObsolete()
  }

  heartbeat(session: Session, canRealtime: boolean | undefined, status: AgentStatus | null | undefined): void {
    this.sessions.recordContact(session, this.#options.clock.monotonicMs())
    // Monotonic (V1.4): a delayed older heartbeat does not take the capability away.
    if (canRealtime === true) session.canRealtime = true
    if (status === null || status === undefined) return
    session.agentStatus = status
    this.#units.report(session.id, status.units ?? [])
  }

  async ingest(session: Session, request: Ingest): Promise<IngestResponse> {
    this.sessions.recordContact(session, this.#options.clock.monotonicMs())
    return this.sourceOf(session).pipe.ingest(session, request)
  }

  startAudit(session: Session, auditId: string | undefined): Promise<string> {
    return this.sourceOf(session).pipe.startAudit(session, auditId)
  }

  endAudit(session: Session, auditId: string | undefined, complete: boolean | undefined): Promise<'ended' | 'ignored'> {
    return this.sourceOf(session).pipe.endAudit(session, auditId, complete)
  }

  end(session: Session, reason: EndReason): void {
    const { clock, log } = this.#options
    this.sessions.end(session, reason, clock.monotonicMs(), () => {
      log.info({ view: this.name, ...sessionFields(session), reason }, 'session ended')
      const source = this.sources.get(session.info.sourceId)
      if (source?.pipe.audit?.sessionId === session.id) source.pipe.abandonAudit('session ended')
      this.#barriers.sessionEnded(session.id)
      this.#units.drop(session.id)
    })
    const source = this.sources.get(session.info.sourceId)
    if (source === undefined) return
    for (const job of this.scans.jobs.of(session.id)) this.scans.send(job, source)
    if (this.settings.live && this.sessions.of(source.id).length === 0) this.#forget(source)
    else this.#putPipeUnit(source)
  }

  /** `sync to now`: sends a barrier to every realtime sensor of these sources, or to their leaders only. */
  async sync(sources: readonly ViewSource[], scope: 'all' | 'leader', timeUp: Promise<void>): Promise<BarrierEnd> {
    if (this.#barriers.size >= barriersMax) {
      throw new Retryable('Too many readers are waiting for a barrier; try again later', {
        code: 'barriers_full',
        afterMs: 1_000,
      })
    }
    const id = this.#options.ids.next()
    const sessionIds: string[] = []
    for (const source of sources) {
      for (const session of this.sessions.of(source.id)) {
        if (scope === 'leader' ? session.role !== 'leader' : !session.canRealtime && session.role !== 'leader') continue
        session.command({ type: 'barrier', barrier_id: id })
        sessionIds.push(session.id)
      }
    }
    return this.#barriers.wait(id, sessionIds, timeUp)
  }

  /** Sweeps. A sweep that keeps failing rebuilds all sources; other views are not affected. Called every `intervalMs`. */
  sweepAndRecover(intervalMs: number): void {
    const monotonicMs = this.#options.clock.monotonicMs()
    if (!this.#unit.isDue(monotonicMs)) return
    try {
      this.sweep(intervalMs)
      this.#unit.works()
    } catch (error) {
      if (this.#unit.failed(error, monotonicMs)) for (const source of [...this.sources.values()]) this.#rebuild(source)
    }
  }

  /** Ends what has timed out and does due maintenance. */
  sweep(intervalMs: number): void {
    const { clock, log } = this.#options
    const monotonicMs = clock.monotonicMs()
    for (const session of this.sessions.revoked()) this.end(session, 'key revoked')
    for (const session of this.sessions.expired(monotonicMs, intervalMs)) this.end(session, 'timed out')
    for (const job of this.scans.jobs.overdue(monotonicMs)) {
      log.warn({ view: this.name, job_id: job.id, path: job.path }, 'scan timed out')
      this.scans.jobs.end(job, 'timed_out')
    }
    for (const source of this.sources.values()) {
      source.pipe.sweep(monotonicMs)
      const before = source.pipe.state.suspects.size
      source.pipe.state.expireSuspects(monotonicMs, suspectsPerSweep)
      if (source.pipe.state.suspects.size !== before) this.changeSignal.ring()
      source.tree.freeRemoved(freedPerSweep)
      for (const session of this.sessions.of(source.id)) if (source.newDirectories.hasFor(session)) session.wake()
    }
  }

  /** Ends every session; the server calls it when it stops. */
  close(): void {
    for (const session of [...this.sessions.all()]) this.end(session, 'closed')
  }

  sourceOf(session: Session): ViewSource {
    const source = session.ended === undefined ? this.sources.get(session.info.sourceId) : undefined
    if (source !== undefined) return source
    throw sessionObsolete()
  }

  #source(id: string): ViewSource {
    const known = this.sources.get(id)
    if (known !== undefined) return known
    if (this.sources.size >= sourcesMax) {
      throw new Terminal(`The view already has ${sourcesMax} sources, the maximum`, { code: 'too_many_sources' })
    }
    const { clock, ids, log, health, seed } = this.#options
    const name = `${this.name}/${id}`
    const tree = new Tree({ id: ids.next(), entryMax: this.settings.entryMax, seed })
    const key = unitKey({ kind: 'fusion_pipe', name })
    const newDirectories = new NewDirectories()
    const pipe = new FusionPipe({
      name,
      state: new SourceState({
        tree,
        hotSeconds: this.settings.hotFileThresholdSeconds,
        onNewDirectory: (directory) => newDirectories.add(directory),
      }),
      clock,
      log,
      auditIntervalMs: this.settings.auditIntervalSeconds * 1_000,
      tombstoneTtlMs: this.settings.tombstoneTtlSeconds * 1_000,
      newId: () => ids.next(),
      isLeader: (session) => this.sessions.leader(id) === session,
      job: (jobId) => this.scans.jobs.get(jobId),
      onSnapshotEnd: () => this.#becomeReady(source),
      onJobEnd: (job, error) => this.scans.jobs.end(job, error === undefined ? 'done' : 'failed', error),
      onAuditEnd: () => this.scans.settle(source),
      onBarrier: (barrierId, session) => this.#barriers.passed(barrierId, session.id),
      onRows: () => this.changeSignal.ring(),
      onHealthChange: (error) => {
        if (error === undefined) health.recover(key)
        else {
          log.error({ err: error, view: this.name, source_id: id }, 'fusion pipe failed and will restart')
          health.fail(key, error.message)
        }
      },
      onFull: (problem) => {
        if ((source.full === undefined) === (problem === undefined)) return
        source.full = problem
        this.#putUnit()
      },
      onPersistentFailure: () => this.#rebuild(source),
    })
    const source: ViewSource = { id, pipe, tree, ready: false, full: undefined, newDirectories, uris: new Map() }
    this.sources.set(id, source)
    health.put({ kind: 'fusion_pipe', name, state: 'ok', restarts: 0, error: undefined, dependsOn: [] })
    this.#putUnit()
    return source
  }

  /** Drops a source whose state is broken. Its sensors create new sessions at once and send everything again. */
  #rebuild(source: ViewSource): void {
    critical(this.#options.log, { view: this.name, source_id: source.id }, 'source dropped; its sensors send it again')
    for (const session of this.sessions.of(source.id)) this.end(session, 'source dropped')
    if (this.sources.get(source.id) === source) this.#forget(source)
    this.#unit.countRestart()
  }

  #becomeReady(source: ViewSource): void {
    if (source.ready) return
    source.ready = true
    this.#options.log.info({ view: this.name, source_id: source.id, entries: source.tree.count }, 'source is ready')
  }

  #forget(source: ViewSource): void {
    this.sources.delete(source.id)
    this.#options.health.drop(this.#pipeKey(source.id))
    this.#putUnit()
    for (const job of this.scans.jobs.overdue(Infinity))
      if (job.sourceId === source.id) this.scans.jobs.end(job, 'failed', 'No sensor is connected')
    this.changeSignal.ring()
  }

  #pipeKey(sourceId: string): string {
    return unitKey({ kind: 'fusion_pipe', name: `${this.name}/${sourceId}` })
  }

  /** A pipe fails with the receiver if one of its sensors reports through it. */
  #putPipeUnit(source: ViewSource): void {
    const sessions = this.sessions.of(source.id)
    if (sessions.length === 0) return
    const dependsOn = sessions.some(({ info }) => !info.inProcess) ? [httpReceiver] : []
    this.#options.health.setDependencies(this.#pipeKey(source.id), dependsOn)
  }

  #putUnit(): void {
    const sources = [...this.sources.values()]
    const full = sources.find((source) => source.full !== undefined)?.full
    this.#unit.update(
      sources.map(({ id }) => this.#pipeKey(id)),
      full,
    )
  }
}
