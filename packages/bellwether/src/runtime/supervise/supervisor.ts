/**
 * Keeps parts running, each in a child process: it restarts a part that ends, quarantines a part in a crash loop, and stops the parts
 * in the reverse order of their start. A failing part stops no other part. `parts` and `onChange` report the state of each. After
 * `stop`, none of the processes is left.
 */
import { type Clock, errorMessage, type Log } from '@bellwether/base'
import type { Component } from '@bellwether/protocol/http'
import type { Child, ChildExit } from './child-process.js'
import { defaultRestartRules, nextRestart, remember, type RestartRules } from './restart-policy.js'

export interface Part {
  readonly name: string
  /** Starts the process and resolves when it is ready for work. */
  start(): Promise<Child>
  /** Whether this end does not count as a crash of the part, for example because a turn may have killed its worker. */
  excuse?(child: Child, exit: ChildExit): Promise<boolean>
}

export interface PartState {
  readonly name: string
  readonly status: NonNullable<Component['status']>
  readonly pid: number | null
  readonly restarts: number
  /** How its last process ended. */
  readonly lastEnd: string | null
  /** Wall-clock times, for people: of the last change of status, and of the next start while it waits. */
  readonly sinceMs: number
  readonly nextStartMs: number | null
}

/** The fields of a part that has not ended yet. */
export function newPart(name: string, clock: Clock): Omit<PartState, 'status' | 'pid'> {
  return { name, restarts: 0, lastEnd: null, sinceMs: clock.wallMs(), nextStartMs: null }
}

export interface Supervisor {
  /**
   * Starts a part and keeps it running until `stop`. Resolves when it is ready for the first time. Rejects if the first start
   * fails; the supervisor retries it nevertheless.
   */
  keep(part: Part): Promise<Child>
  /** Starts a waiting or quarantined part now and forgets its earlier failures, because their cause may be gone. */
  retryNow(name: string): void
  readonly parts: readonly PartState[]
  /** Stops all parts, the newest first. `hurry`: without a drain. */
  stop(hurry?: boolean): Promise<void>
}

export interface SupervisorOptions {
  readonly clock: Clock
  readonly log: Log
  readonly rules?: RestartRules
  /** How long a part may take to stop before SIGKILL: longer than its own drain. */
  readonly stopMs?: number
  readonly onChange?: (part: PartState) => void
}

// A worker drains for 20 s.
const defaultStopMs = 25_000

export function openSupervisor(options: SupervisorOptions): Supervisor {
  const { clock, log, rules = defaultRestartRules, stopMs = defaultStopMs } = options
  const keepers: Keeper[] = []
  const over = new AbortController()

  class Keeper {
    #state: PartState
    #child: Child | undefined
    readonly #ended: number[] = []
    #running: Promise<void> = Promise.resolve()
    #retry = new AbortController()

    constructor(readonly part: Part) {
      this.#state = { ...newPart(part.name, clock), status: 'starting', pid: null }
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

    begin(): Promise<Child> {
      const first = this.#start()
      this.#running = first.then(
        (child) => this.#keep(child),
        (error: unknown) => this.#keep(notStarted(error)),
      )
      return first
    }

    retryNow(): void {
      if (this.#state.status !== 'waiting' && this.#state.status !== 'quarantined') return
      this.#ended.length = 0
      this.#retry.abort()
    }

    async #start(): Promise<Child> {
      this.#change({ status: 'starting', pid: null })
      const child = await this.part.start()
      this.#child = child
      this.#change({ status: 'ready', pid: child.pid })
      return child
    }

    /** Takes a child, or the reason why there is none. */
    async #keep(first: Child | string): Promise<void> {
      let child = first
      while (!over.signal.aborted) {
        const end: string = typeof child === 'string' ? child : exitText(await child.ended)
        if (over.signal.aborted) return
        const { afterMs, quarantined } = (await this.#isExcused(child))
          ? nextRestart([clock.monotonicMs()], rules)
          : nextRestart(remember(this.#ended, clock.monotonicMs()), rules)
        if (over.signal.aborted) return
        const status = quarantined ? 'quarantined' : 'waiting'
        this.#retry = new AbortController()
        this.#change({ status, pid: null, lastEnd: end, nextStartMs: clock.wallMs() + afterMs })
        const fields = { part: this.part.name, end, restart_in_seconds: afterMs / 1_000 }
        if (quarantined) log.error(fields, 'part quarantined after repeated failures')
        else log.warn(fields, 'part ended; restarting')
        await clock.sleep(afterMs, this.#retry.signal)
        if (over.signal.aborted) return
        this.#change({ restarts: this.#state.restarts + 1 })
        child = await this.#start().catch((error: unknown) => {
          log.error({ err: error, part: this.part.name }, 'part failed to start')
          return notStarted(error)
        })
      }
    }

    async #isExcused(child: Child | string): Promise<boolean> {
      if (typeof child === 'string' || this.part.excuse === undefined) return false
      try {
        return await this.part.excuse(child, await child.ended)
      } catch (error) {
        log.warn({ err: error, part: this.part.name }, 'cannot find out why the part ended')
        return false
      }
    }

    async stop(hurry: boolean): Promise<void> {
      this.#retry.abort()
      await this.#child?.stop(hurry, stopMs)
      await this.#running
      // A restart may have been in progress.
      await this.#child?.stop(hurry, stopMs)
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
    retryNow: (name) => keepers.find((keeper) => keeper.part.name === name)?.retryNow(),
    async stop(hurry = false) {
      over.abort()
      // Later parts depend on earlier ones.
      for (const keeper of keepers.toReversed()) await keeper.stop(hurry)
    },
  }
}

function exitText({ code, signal }: ChildExit): string {
  return signal === null ? `exit code ${code ?? 'unknown'}` : `signal ${signal}`
}

const notStarted = (error: unknown) => `failed to start: ${errorMessage(error)}`
