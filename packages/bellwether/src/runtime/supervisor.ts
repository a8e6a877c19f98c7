/**
 * Keeps the parts of one machine's house running: each is a child process, started again when it ends, put in quarantine when it
 * never gets anywhere, and stopped in the reverse order of its start. Always: a part that fails stops no other part; what
 * became of each is known (`parts`) and told (`onChange`); after `stop` nothing that was started here is left.
 */
import { type Clock, errorMessage, type Log } from '@bellwether/base'
import type { Ended, Member } from './child-process.js'
import { restartOf, usualRules, type RestartRules } from './restart-policy.js'

export interface Part {
  readonly name: string
  /** Starts the process and resolves when it is ready for work. */
  start(): Promise<Member>
}

export type PartStatus = 'starting' | 'ready' | 'waiting' | 'quarantined' | 'stopped'

export interface PartState {
  readonly name: string
  readonly status: PartStatus
  readonly pid: number | null
  readonly restarts: number
  /** What it died of, the last time. */
  readonly lastEnd: string | null
  /** When it came to its status, and when it is started again if it waits for that: on the wall clock, for people. */
  readonly sinceMs: number
  readonly nextStartMs: number | null
}

export interface Supervisor {
  /**
   * Starts a part and keeps it; resolves when it was ready for the first time. Rejects when its first start fails, to say so: it
   * is tried again all the same, until `stop`.
   */
  keep(part: Part): Promise<Member>
  /** Its cause may have passed: a part that waits, in quarantine too, is started now, and what it did before is forgiven. */
  nudge(name: string): void
  readonly parts: readonly PartState[]
  /** Stops everything, the newest first. `hurry`: work in progress is left to others. */
  stop(hurry?: boolean): Promise<void>
}

export interface SupervisorOptions {
  readonly clock: Clock
  readonly log: Log
  readonly rules?: RestartRules
  /** How long a part may take to stop before it is killed: longer than its own drain. */
  readonly stopMs?: number
  readonly onChange?: (part: PartState) => void
}

// A worker drains for 20 s; a part that has not gone by then will not.
const stopMsUsual = 25_000
// Endings that are remembered: more than a crash loop needs.
const endingsMax = 20

export function openSupervisor(options: SupervisorOptions): Supervisor {
  const { clock, log, rules = usualRules, stopMs = stopMsUsual } = options
  const keepers: Keeper[] = []
  const over = new AbortController()

  class Keeper {
    #state: PartState
    #member: Member | undefined
    readonly #ended: number[] = []
    #running: Promise<void> = Promise.resolve()
    #nudged = new AbortController()

    constructor(readonly part: Part) {
      const sinceMs = clock.wallMs()
      this.#state = {
        name: part.name,
        status: 'starting',
        pid: null,
        restarts: 0,
        lastEnd: null,
        sinceMs,
        nextStartMs: null,
      }
    }

    get state(): PartState {
      return this.#state
    }

    #change(changed: Partial<PartState>): void {
      const isNew = changed.status !== undefined && changed.status !== this.#state.status
      const times = isNew ? { sinceMs: clock.wallMs(), nextStartMs: null } : {}
      this.#state = { ...this.#state, ...times, ...changed }
      options.onChange?.(this.#state)
    }

    begin(): Promise<Member> {
      const first = this.#start()
      this.#running = first.then(
        (member) => this.#keep(member),
        (error: unknown) => this.#keep(notStarted(error)),
      )
      return first
    }

    nudge(): void {
      if (this.#state.status !== 'waiting' && this.#state.status !== 'quarantined') return
      this.#ended.length = 0
      this.#nudged.abort()
    }

    async #start(): Promise<Member> {
      this.#change({ status: 'starting', pid: null })
      const member = await this.part.start()
      this.#member = member
      this.#change({ status: 'ready', pid: member.pid })
      return member
    }

    /** From a member, or from the words for why there is none. */
    async #keep(first: Member | string): Promise<void> {
      let member = first
      while (!over.signal.aborted) {
        const end: string = typeof member === 'string' ? member : told(await member.ended)
        if (over.signal.aborted) return
        this.#ended.push(clock.monotonicMs())
        if (this.#ended.length > endingsMax) this.#ended.shift()
        const { afterMs, quarantined } = restartOf(this.#ended, rules)
        const status = quarantined ? 'quarantined' : 'waiting'
        this.#nudged = new AbortController()
        this.#change({ status, pid: null, lastEnd: end, nextStartMs: clock.wallMs() + afterMs })
        const facts = { part: this.part.name, end, again_in_seconds: afterMs / 1_000 }
        if (quarantined) log.error(facts, 'a part fails again and again; it is in quarantine')
        else log.warn(facts, 'a part ended; it is started again')
        await clock.sleep(afterMs, this.#nudged.signal)
        if (over.signal.aborted) return
        this.#change({ restarts: this.#state.restarts + 1 })
        member = await this.#start().catch((error: unknown) => {
          log.error({ err: error, part: this.part.name }, 'a part could not be started')
          return notStarted(error)
        })
      }
    }

    async stop(hurry: boolean): Promise<void> {
      this.#nudged.abort()
      await this.#member?.stop(hurry, stopMs)
      await this.#running
      // A start that was under way when the end was called.
      await this.#member?.stop(hurry, stopMs)
      this.#change({ status: 'stopped', pid: null })
    }
  }

  return {
    keep(part) {
      const keeper = new Keeper(part)
      keepers.push(keeper)
      return keeper.begin()
    },
    get parts() {
      return keepers.map((keeper) => keeper.state)
    },
    nudge: (name) => keepers.find((keeper) => keeper.part.name === name)?.nudge(),
    async stop(hurry = false) {
      over.abort()
      // What was started last leans on what was started first.
      for (const keeper of keepers.toReversed()) await keeper.stop(hurry)
    },
  }
}

function told({ code, signal }: Ended): string {
  return signal === null ? `exit code ${code ?? 'unknown'}` : `signal ${signal}`
}

const notStarted = (error: unknown) => `could not be started: ${errorMessage(error)}`
