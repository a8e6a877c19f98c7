/**
 * One view: its sources with a tree, a pipe and a leader each (V6.9), its sessions, scans and barriers. Everything that
 * happens to a session happens here, synchronously, so that a lead, an audit and a job never disagree about who is there.
 * A live view forgets a source when its last session ends; a persistent one stays readable (V6.8). HTTP, keys and loops
 * are left to others: time passes by `sweep`.
 */
import type { Clock, Log } from '@bellwether/base'
import { Retryable, Terminal, type AgentStatus, type IngestAnswer, type PipeCommand } from '@bellwether/protocol'
import type { Ids } from '../ports/ids.js'
import { Barriers, barriersMax, type BarrierEnd } from './sessions/barriers.js'
import { ScanLook } from './arbitration/scans.js'
import { Feed } from './queries/change-signal.js'
import { unitKey, type HealthBook } from './health.js'
import { Jobs, pendingMax, type Job } from './sessions/scan-jobs.js'
import { FusionPipe, type Ingest } from './ingest/fusion-pipe.js'
import { negotiateTimeout, Sessions, type EndReason, type Session } from './sessions/sessions.js'
import { SensorUnits } from './sessions/sensor-units.js'
import { Source } from './arbitration/source-state.js'
import { none, Tree } from './tree/tree.js'

export interface ViewSettings {
  readonly sessionTimeoutSeconds: number
  readonly auditIntervalSeconds: number
  readonly sentinelIntervalSeconds: number
  readonly hotFileThresholdSeconds: number
  readonly tombstoneTtlSeconds: number
  /** Worth nothing when it is not up to date: empty without sessions, unavailable with a failed pipe. */
  readonly live: boolean
  /** Takes one session. */
  readonly strict?: boolean
  /** Entries a source may have. */
  readonly entryMax?: number
}

export interface ViewOptions {
  readonly name: string
  readonly settings: ViewSettings
  readonly clock: Clock
  readonly ids: Ids
  readonly log: Log
  readonly health: HealthBook
  readonly seed?: number
}

/** What a view keeps of one source. */
export interface ViewSource {
  readonly id: string
  readonly pipe: FusionPipe
  readonly tree: Tree
  /** Whether the first look at it has been applied to its end. */
  ready: boolean
  full: boolean
  /** Where each sensor mounts it. */
  readonly uris: Map<string, string>
}

export interface Connect {
  readonly taskId: string
  readonly clientInfo: Readonly<Record<string, unknown>>
  readonly timeoutSeconds: number | null | undefined
  readonly clientAddress: string
}

export const defaultSourceId = 'default'
const sourcesMax = 64 // each has a tree, a leader and a place in every comparison
const jobTimeoutMs = 60_000
const suspectsAtOnce = 2_000 // judging these takes a millisecond or two
const tidiedAtOnce = 10_000 // a few milliseconds; a million removed entries are freed within a minute
const settlingMax = 64 // directories; beyond, one scan of everything is cheaper for the sensor than many small ones
const urisMax = 10_000

export class View {
  readonly name: string
  readonly settings: ViewSettings
  readonly feed = new Feed()
  readonly jobs = new Jobs()
  readonly sessions: Sessions
  readonly sources = new Map<string, ViewSource>()
  readonly #options: ViewOptions
  readonly #barriers = new Barriers()
  readonly #units: SensorUnits

  constructor(options: ViewOptions) {
    this.#options = options
    this.name = options.name
    this.settings = options.settings
    this.#units = new SensorUnits(options.name, options.health)
    this.sessions = new Sessions((session) =>
      options.log.info({ view: this.name, ...named(session) }, 'a session leads'),
    )
    this.#putUnit('ok', undefined)
  }

  get key(): string {
    return unitKey({ kind: 'view', name: this.name })
  }

  get ready(): boolean {
    for (const source of this.sources.values()) if (source.ready) return true
    return false
  }

  /** V1.1, V1.5, V6.5, V6.10. */
  connect(request: Connect): Session {
    const { clock, ids, log } = this.#options
    if (this.settings.strict === true && this.sessions.size > 0) {
      throw new Terminal('this view takes one session, and has one', {
        code: 'view_taken',
        hint: 'end that session, or wait until it times out',
      })
    }
    const word = (key: string) => {
      const value = request.clientInfo[key]
      return typeof value === 'string' && value !== '' ? value.slice(0, 1_024) : undefined
    }
    const sourceId = word('source_id') ?? defaultSourceId
    const source = this.#source(sourceId)
    source.pipe.source.resetBlindSpots()
    const agentId = word('agent_id') ?? request.taskId
    const sourceUri = word('source_uri') ?? ''
    if (source.uris.size < urisMax) source.uris.set(agentId, sourceUri)
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
      },
      clock.monotonicMs(),
    )
    log.info({ view: this.name, ...named(session), role: session.role }, 'a session began')
    return session
  }

  /** The session, or the error that tells a sensor to make a new one. */
  session(id: string): Session {
    const session = this.sessions.get(id)
    if (session !== undefined) return session
    throw new Terminal('this session is over, or never was', { code: 'session_obsolete', hint: 'make a new session' })
  }

  heartbeat(session: Session, canRealtime: boolean | undefined, status: AgentStatus | null | undefined): void {
    this.sessions.hear(session, this.#options.clock.monotonicMs())
    // Monotonic (V1.4): what could once follow changes is not said to be unable by an older heartbeat.
    if (canRealtime === true) session.canRealtime = true
    if (status === null || status === undefined) return
    session.agentStatus = status
    this.#units.report(session.id, status.units ?? [])
  }

  async ingest(session: Session, request: Ingest): Promise<IngestAnswer> {
    this.sessions.hear(session, this.#options.clock.monotonicMs())
    return this.#sourceOf(session).pipe.ingest(session, request)
  }

  startAudit(session: Session, auditId: string | undefined): Promise<string> {
    return this.#sourceOf(session).pipe.startAudit(session, auditId)
  }

  endAudit(session: Session, auditId: string | undefined, complete: boolean | undefined): Promise<'ended' | 'ignored'> {
    return this.#sourceOf(session).pipe.endAudit(session, auditId, complete)
  }

  end(session: Session, reason: EndReason): void {
    const { clock, log } = this.#options
    this.sessions.end(session, reason, clock.monotonicMs(), () => {
      log.info({ view: this.name, ...named(session), reason }, 'a session ended')
      const source = this.sources.get(session.facts.sourceId)
      if (source?.pipe.audit?.sessionId === session.id) source.pipe.abandonAudit('its session ended')
      this.#barriers.gone(session.id)
      this.#units.drop(session.id)
    })
    const source = this.sources.get(session.facts.sourceId)
    if (source === undefined) return
    for (const job of this.jobs.of(session.id)) this.#sendJob(job, source)
    if (this.settings.live && this.sessions.of(source.id).length === 0) this.#forget(source)
  }

  /** Asks a sensor to look at a path now; joins a question that no sensor has taken yet. */
  scan(source: ViewSource, wanted: string, recursive: boolean, trust: 'asked' | 'settling' = 'asked'): Job {
    const { clock, ids } = this.#options
    // Refuses what cannot be a path: no sensor ever hears of `..`.
    source.tree.find(wanted)
    const path = wanted.length > 1 && wanted.endsWith('/') ? wanted.slice(0, -1) : wanted
    const joined = this.jobs.untaken(source.id, path, recursive, (job) => this.#isQueued(job))
    if (joined !== undefined && joined.look.trust === trust) return joined
    if (this.jobs.pending >= pendingMax) {
      throw new Retryable('too many scans are going on', { code: 'scans_full', afterMs: 1_000 })
    }
    const job: Job = {
      id: ids.next(),
      sourceId: source.id,
      path,
      recursive,
      look: new ScanLook(source.pipe.source, source.pipe.source.begin(clock.wallMs()), trust),
      until: clock.monotonicMs() + jobTimeoutMs,
      sessionId: '',
      state: 'pending',
      error: undefined,
      rows: 0,
      deleted: 0,
      waiters: new Set(),
    }
    this.jobs.add(job)
    this.#sendJob(job, source)
    return job
  }

  /** Resolves when the job has ended or the signal fires. */
  jobEnd(job: Job, signal: AbortSignal): Promise<void> {
    if (job.state !== 'pending' || signal.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      const wake = () => {
        job.waiters.delete(wake)
        signal.removeEventListener('abort', wake)
        resolve()
      }
      job.waiters.add(wake)
      signal.addEventListener('abort', wake, { once: true })
    })
  }

  /** `sync to now`: asks every realtime sensor of these sources, or their leaders only. */
  async sync(sources: readonly ViewSource[], scope: 'all' | 'leader', timeUp: Promise<void>): Promise<BarrierEnd> {
    if (this.#barriers.size >= barriersMax) {
      throw new Retryable('too many readers wait for a barrier', { code: 'barriers_full', afterMs: 1_000 })
    }
    const id = this.#options.ids.next()
    const asked: string[] = []
    for (const source of sources) {
      for (const session of this.sessions.of(source.id)) {
        if (scope === 'leader' ? session.role !== 'leader' : !session.canRealtime && session.role !== 'leader') continue
        session.command({ type: 'barrier', barrier_id: id })
        asked.push(session.id)
      }
    }
    return this.#barriers.wait(id, asked, timeUp)
  }

  /** What is due by now. Called every `intervalMs`. */
  sweep(intervalMs: number): void {
    const { clock, log } = this.#options
    const monotonicMs = clock.monotonicMs()
    for (const session of this.sessions.expired(monotonicMs, intervalMs)) this.end(session, 'timed out')
    for (const job of this.jobs.overdue(monotonicMs)) {
      log.warn({ view: this.name, job_id: job.id, path: job.path }, 'a scan was not answered in time')
      this.jobs.end(job, 'timed_out')
    }
    for (const source of this.sources.values()) {
      source.pipe.sweep(monotonicMs)
      const before = source.pipe.source.suspects.size
      source.pipe.source.judgeSuspects(monotonicMs, suspectsAtOnce)
      if (source.pipe.source.suspects.size !== before) this.feed.ring()
      source.tree.tidy(tidiedAtOnce)
    }
  }

  /** Ends every session: the server stops. */
  close(): void {
    for (const session of [...this.sessions.all()]) this.end(session, 'closed')
  }

  #sourceOf(session: Session): ViewSource {
    const source = session.ended === undefined ? this.sources.get(session.facts.sourceId) : undefined
    if (source !== undefined) return source
    throw new Terminal('this session is over', { code: 'session_obsolete', hint: 'make a new session' })
  }

  #source(id: string): ViewSource {
    const known = this.sources.get(id)
    if (known !== undefined) return known
    if (this.sources.size >= sourcesMax) {
      throw new Terminal(`the view has ${sourcesMax} sources`, { code: 'too_many_sources' })
    }
    const { clock, ids, log, health, seed } = this.#options
    const name = `${this.name}/${id}`
    const tree = new Tree({ id: ids.next(), entryMax: this.settings.entryMax, seed })
    const key = unitKey({ kind: 'fusion_pipe', name })
    const pipe = new FusionPipe({
      name,
      source: new Source({ tree, hotSeconds: this.settings.hotFileThresholdSeconds }),
      clock,
      log,
      auditIntervalMs: this.settings.auditIntervalSeconds * 1_000,
      tombstoneTtlMs: this.settings.tombstoneTtlSeconds * 1_000,
      newId: () => ids.next(),
      isLeader: (session) => this.sessions.leader(id) === session,
      job: (jobId) => this.jobs.get(jobId),
      onSnapshotEnd: () => this.#becomeReady(source),
      onJobEnd: (job, error) => this.jobs.end(job, error === undefined ? 'done' : 'failed', error),
      onAuditEnd: () => this.settle(source),
      onBarrier: (barrierId, session) => this.#barriers.passed(barrierId, session.id),
      onRows: () => this.feed.ring(),
      onTrouble: (error) => {
        if (error === undefined) health.recover(key)
        else {
          log.error({ err: error, view: this.name, source_id: id }, 'a fusion pipe failed and will restart')
          health.fail(key, error.message)
        }
      },
      onFull: (problem) => {
        if (source.full === (problem !== undefined)) return
        source.full = problem !== undefined
        this.#putUnit(source.full ? 'degraded' : 'ok', problem)
      },
    })
    const source: ViewSource = { id, pipe, tree, ready: false, full: false, uris: new Map() }
    this.sources.set(id, source)
    health.put({ kind: 'fusion_pipe', name, state: 'ok', restarts: 0, error: undefined, dependsOn: ['receiver:http'] })
    this.#putUnit('ok', undefined)
    return source
  }

  #becomeReady(source: ViewSource): void {
    if (source.ready) return
    source.ready = true
    this.#options.log.info(
      { view: this.name, source_id: source.id, entries: source.tree.count },
      'a source is ready: its first snapshot is complete',
    )
  }

  #forget(source: ViewSource): void {
    this.sources.delete(source.id)
    this.#options.health.drop(unitKey({ kind: 'fusion_pipe', name: `${this.name}/${source.id}` }))
    this.#putUnit('ok', undefined)
    for (const job of this.jobs.overdue(Infinity))
      if (job.sourceId === source.id) this.jobs.end(job, 'failed', 'no sensor')
    this.feed.ring()
  }

  /** Evidence disagreed (an audit's with memory, a sentinel's): the leader looks again, and that look decides. */
  settle(source: ViewSource): void {
    const { paths, all } = source.pipe.source.takeDisputes()
    if (paths.length === 0 && !all) return
    try {
      if (all || paths.length > settlingMax) this.scan(source, '/', true, 'settling')
      else for (const path of paths) this.scan(source, path, false, 'settling')
    } catch (error) {
      if (!(error instanceof Retryable)) throw error
      // No room for more commands: after the next audit.
      for (const path of all ? ['/'] : paths) source.pipe.source.dispute(path, all)
      this.#options.log.warn({ view: this.name, source_id: source.id, paths: paths.length }, error.message)
    }
  }

  #sendJob(job: Job, source: ViewSource): void {
    const session = this.sessions.leader(source.id) ?? this.sessions.of(source.id)[0]
    if (session === undefined) {
      this.jobs.end(job, 'failed', 'no sensor is connected')
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

  #isQueued(job: Job): boolean {
    const session = this.sessions.get(job.sessionId)
    return session?.hasQueued((command: PipeCommand) => command.type === 'scan' && command.job_id === job.id) === true
  }

  #putUnit(state: 'ok' | 'degraded', error: string | undefined): void {
    this.#options.health.put({
      kind: 'view',
      name: this.name,
      state,
      error,
      restarts: 0,
      live: this.settings.live,
      dependsOn: [...this.sources.keys()].map((id) => unitKey({ kind: 'fusion_pipe', name: `${this.name}/${id}` })),
    })
  }
}

export function named(session: Session): { session_id: string; task_id: string; agent_id: string; source_id: string } {
  const { sessionId, taskId, agentId, sourceId } = session.facts
  return { session_id: sessionId, task_id: taskId, agent_id: agentId, source_id: sourceId }
}

/** The entry, or the answer 404. */
export function entryAt(source: ViewSource, path: string): number {
  const node = source.tree.find(path)
  if (node !== none) return node
  throw new Terminal(`there is no ${JSON.stringify(path.slice(0, 200))} in this view`, { code: 'unknown_path' })
}
