/**
 * Keeps the sessions of a view and elects the leader of each source (V1.1, V1.2, V1.5): its oldest session. Silence counts only while
 * sweeps run (hazard 26): after a gap between two sweeps every session gets a full timeout again. Callers pass monotonic ms.
 */
import { pipeLimits, Retryable, Terminal, type PipeCommand, type PipeRole } from '@bellwether/protocol'

export interface SessionInfo {
  readonly sessionId: string
  readonly taskId: string
  readonly agentId: string
  readonly sourceId: string
  readonly sourceUri: string
  readonly clientAddress: string
  readonly timeoutMs: number
  readonly createdAtMs: number
  /** The sensor runs in the process of the view. */
  readonly inProcess: boolean
  readonly key?: SessionKey | undefined
}

/** The API key that created a session. The session ends with it, however long its timeout is. */
export interface SessionKey {
  readonly id: string
  isLive(): boolean
}

export interface Connect {
  readonly taskId: string
  readonly clientInfo: Readonly<Record<string, unknown>>
  readonly timeoutSeconds: number | null | undefined
  readonly clientAddress: string
  /** The sensor runs in the process of the view, so its reports do not depend on the HTTP receiver. */
  readonly inProcess?: boolean
  readonly key?: SessionKey | undefined
}

export type EndReason = 'disconnected' | 'timed out' | 'key revoked' | 'ended by force' | 'closed' | 'source dropped'

export class Session {
  role: PipeRole = 'follower'
  canRealtime = false
  lastContactAt: number
  ended: EndReason | undefined
  /** Sequence number of the last applied realtime request. */
  seq = 0
  /** Server ms − sensor ms: the smallest difference seen, because network delay only adds to it. */
  offsetMs = Infinity
  /** Its position in the list of new directories. */
  directoriesAt = 0
  agentStatus: Readonly<Record<string, unknown>> | undefined
  #commands: PipeCommand[] = []
  #wake: (() => void) | undefined

  constructor(
    readonly info: SessionInfo,
    monotonicMs: number,
  ) {
    this.lastContactAt = monotonicMs
  }

  get id(): string {
    return this.info.sessionId
  }

  get commandCount(): number {
    return this.#commands.length
  }

  command(command: PipeCommand): void {
    if (this.#commands.length >= pipeLimits.commandsMax) {
      throw new Retryable('Too many commands are waiting for the sensor; try again later', {
        code: 'commands_full',
        afterMs: 1_000,
      })
    }
    this.#commands.push(command)
    this.wake()
  }

  hasQueued(matches: (command: PipeCommand) => boolean): boolean {
    return this.#commands.some(matches)
  }

  takeCommands(): PipeCommand[] {
    const taken = this.#commands
    this.#commands = []
    return taken
  }

  /** Resolves when there is a command or a role change, or the session ends. A second call ends the first wait. */
  waitForWork(): Promise<void> {
    this.wake()
    if (this.#commands.length > 0 || this.ended !== undefined) return Promise.resolve()
    return new Promise((resolve) => {
      this.#wake = resolve
    })
  }

  wake(): void {
    const wake = this.#wake
    this.#wake = undefined
    wake?.()
  }
}

// A view with more sensors should be split into several views.
const sessionsMax = 1_000
// One key, and a fleet that shares it, leaves places for the others.
const sessionsPerKey = 900
const gapSweeps = 3

export class Sessions {
  readonly #byId = new Map<string, Session>()
  readonly #leaders = new Map<string, Session>()
  readonly #onLead: (session: Session) => void
  #sweptAt: number | undefined
  #sweepingSince = 0

  constructor(onLead: (session: Session) => void) {
    this.#onLead = onLead
  }

  get size(): number {
    return this.#byId.size
  }

  get(id: string): Session | undefined {
    return this.#byId.get(id)
  }

  /** In the order of their creation. */
  all(): IterableIterator<Session> {
    return this.#byId.values()
  }

  of(sourceId: string): Session[] {
    return [...this.#byId.values()].filter((session) => session.info.sourceId === sourceId)
  }

  /** The session in which this sensor reports changes of the source. */
  reporting(sourceId: string, agentId: string | undefined): Session | undefined {
    return this.of(sourceId).find(({ info, canRealtime }) => canRealtime && info.agentId === agentId)
  }

  leader(sourceId: string): Session | undefined {
    return this.#leaders.get(sourceId)
  }

  create(facts: SessionInfo, monotonicMs: number): Session {
    if (this.#byId.size >= sessionsMax) throw tooMany(`The view already has ${sessionsMax} sessions`)
    const keyId = facts.key?.id
    if (keyId !== undefined && this.#byId.size >= sessionsPerKey) {
      const own = [...this.#byId.values()].filter(({ info }) => info.key?.id === keyId)
      if (own.length >= sessionsPerKey) throw tooMany(`This key already has ${sessionsPerKey} sessions of the view`)
    }
    const session = new Session(facts, monotonicMs)
    this.#byId.set(session.id, session)
    this.#tryBecomeLeader(session)
    return session
  }

  recordContact(session: Session, monotonicMs: number): void {
    session.lastContactAt = Math.max(session.lastContactAt, monotonicMs)
  }

  /** Ends a session and promotes a follower if it led. `onEnded` runs in between, while the source has no leader. */
  end(session: Session, reason: EndReason, monotonicMs: number, onEnded: (session: Session) => void): void {
    if (!this.#byId.delete(session.id)) return
    session.ended = reason
    const { sourceId } = session.info
    const led = this.#leaders.get(sourceId) === session
    if (led) this.#leaders.delete(sourceId)
    onEnded(session)
    session.wake()
    if (!led) return
    const followers = this.of(sourceId)
    const responsive = followers.filter(
      (follower) => this.#silence(follower, monotonicMs) < follower.info.timeoutMs / 2,
    )
    for (const follower of [...responsive, ...followers]) if (this.#tryBecomeLeader(follower)) return
  }

  /** Sessions whose key was revoked or rotated. */
  revoked(): Session[] {
    return [...this.#byId.values()].filter(({ info }) => info.key?.isLive() === false)
  }

  /** Sessions that were silent for longer than their timeout while sweeps ran. Called every `intervalMs`. */
  expired(monotonicMs: number, intervalMs: number): Session[] {
    if (this.#sweptAt === undefined || monotonicMs - this.#sweptAt > gapSweeps * intervalMs)
      this.#sweepingSince = monotonicMs
    this.#sweptAt = monotonicMs
    return [...this.#byId.values()].filter((session) => this.#silence(session, monotonicMs) > session.info.timeoutMs)
  }

  #silence(session: Session, monotonicMs: number): number {
    return monotonicMs - Math.max(session.lastContactAt, this.#sweepingSince)
  }

  #tryBecomeLeader(session: Session): boolean {
    const { sourceId } = session.info
    if (this.#leaders.has(sourceId)) return false
    this.#leaders.set(sourceId, session)
    session.role = 'leader'
    this.#onLead(session)
    session.wake()
    return true
  }
}

const tooMany = (what: string) =>
  new Retryable(`${what}; try again later`, { code: 'too_many_sessions', afterMs: 10_000 })

export const sessionObsolete = () =>
  new Terminal('The session has ended or is unknown', { code: 'session_obsolete', hint: 'Create a new session.' })

/** V1.5: the longer of the sensor's request and the server's setting. */
export function negotiateTimeout(hintSeconds: number | null | undefined, defaultSeconds: number): number {
  return Math.max(hintSeconds ?? 0, defaultSeconds)
}

/** A text field of `client_info`, shortened. */
export function clientField({ clientInfo }: Connect, key: string): string | undefined {
  const value = clientInfo[key]
  return typeof value === 'string' && value !== '' ? value.slice(0, 1_024) : undefined
}

/** The log fields of a session. */
export function sessionFields(session: Session): {
  session_id: string
  task_id: string
  agent_id: string
  source_id: string
} {
  const { sessionId, taskId, agentId, sourceId } = session.info
  return { session_id: sessionId, task_id: taskId, agent_id: agentId, source_id: sourceId }
}
