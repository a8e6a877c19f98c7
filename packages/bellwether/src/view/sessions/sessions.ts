/**
 * Who is connected to a view, and who leads each source (V1.1, V1.2, V1.5). The first session of a source leads, later
 * ones follow; nobody takes the lead away; when the leader's session ends, the first follower gets it in the same call.
 * Silence counts only while the judge was watching (hazard 26): after a gap between two sweeps every session gets a full
 * timeout again. Time comes in as arguments, on the monotonic scale.
 */
import { pipeLimits, Retryable, type PipeCommand, type PipeRole } from '@bellwether/protocol'

export interface SessionFacts {
  readonly sessionId: string
  readonly taskId: string
  readonly agentId: string
  readonly sourceId: string
  readonly sourceUri: string
  readonly clientAddress: string
  readonly timeoutMs: number
  readonly createdAtMs: number
}

export type EndReason = 'disconnected' | 'timed out' | 'ended by force' | 'closed'

export class Session {
  role: PipeRole = 'follower'
  canRealtime = false
  heardAt: number
  ended: EndReason | undefined
  /** Highest number of a realtime request that was applied. */
  seq = 0
  /** Server ms − the sensor's ms: the least seen, so that delays on the way count as little as possible. */
  offsetMs = Infinity
  agentStatus: Readonly<Record<string, unknown>> | undefined
  #commands: PipeCommand[] = []
  #wake: (() => void) | undefined

  constructor(
    readonly facts: SessionFacts,
    monotonicMs: number,
  ) {
    this.heardAt = monotonicMs
  }

  get id(): string {
    return this.facts.sessionId
  }

  get commandCount(): number {
    return this.#commands.length
  }

  command(command: PipeCommand): void {
    if (this.#commands.length >= pipeLimits.commandsMax) {
      throw new Retryable('the sensor has too many commands waiting', { code: 'commands_full', afterMs: 1_000 })
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

  /** Resolves when there is something to tell. A second wait ends the first. */
  somethingToTell(): Promise<void> {
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

// A view with more sensors than this is several views.
const sessionsMax = 1_000
const gapSweeps = 3

export class Sessions {
  readonly #byId = new Map<string, Session>()
  readonly #leaders = new Map<string, Session>()
  readonly #onLead: (session: Session) => void
  #sweptAt: number | undefined
  #watchingSince = 0

  constructor(onLead: (session: Session) => void) {
    this.#onLead = onLead
  }

  get size(): number {
    return this.#byId.size
  }

  get(id: string): Session | undefined {
    return this.#byId.get(id)
  }

  /** In the order in which they came. */
  all(): IterableIterator<Session> {
    return this.#byId.values()
  }

  of(sourceId: string): Session[] {
    return [...this.#byId.values()].filter((session) => session.facts.sourceId === sourceId)
  }

  leader(sourceId: string): Session | undefined {
    return this.#leaders.get(sourceId)
  }

  create(facts: SessionFacts, monotonicMs: number): Session {
    if (this.#byId.size >= sessionsMax) {
      throw new Retryable(`the view has ${sessionsMax} sessions`, { code: 'too_many_sessions', afterMs: 10_000 })
    }
    const session = new Session(facts, monotonicMs)
    this.#byId.set(session.id, session)
    this.#tryBecomeLeader(session)
    return session
  }

  hear(session: Session, monotonicMs: number): void {
    session.heardAt = Math.max(session.heardAt, monotonicMs)
  }

  /** Ends it, and hands its lead on at once. `onEnded` runs in between, while nobody leads. */
  end(session: Session, reason: EndReason, monotonicMs: number, onEnded: (session: Session) => void): void {
    if (!this.#byId.delete(session.id)) return
    session.ended = reason
    const { sourceId } = session.facts
    const led = this.#leaders.get(sourceId) === session
    if (led) this.#leaders.delete(sourceId)
    onEnded(session)
    session.wake()
    if (!led) return
    const followers = this.of(sourceId)
    const responsive = followers.filter(
      (follower) => this.#silence(follower, monotonicMs) < follower.facts.timeoutMs / 2,
    )
    for (const follower of [...responsive, ...followers]) if (this.#tryBecomeLeader(follower)) return
  }

  /** Sessions that were silent for longer than their timeout, under the judge's eyes. Called every `intervalMs`. */
  expired(monotonicMs: number, intervalMs: number): Session[] {
    if (this.#sweptAt === undefined || monotonicMs - this.#sweptAt > gapSweeps * intervalMs)
      this.#watchingSince = monotonicMs
    this.#sweptAt = monotonicMs
    return [...this.#byId.values()].filter((session) => this.#silence(session, monotonicMs) > session.facts.timeoutMs)
  }

  #silence(session: Session, monotonicMs: number): number {
    return monotonicMs - Math.max(session.heardAt, this.#watchingSince)
  }

  #tryBecomeLeader(session: Session): boolean {
    const { sourceId } = session.facts
    if (this.#leaders.has(sourceId)) return false
    this.#leaders.set(sourceId, session)
    session.role = 'leader'
    this.#onLead(session)
    session.wake()
    return true
  }
}

/** V1.5: the longer of what the sensor asks for and what the server is set to. */
export function negotiateTimeout(hintSeconds: number | null | undefined, defaultSeconds: number): number {
  return Math.max(hintSeconds ?? 0, defaultSeconds)
}
