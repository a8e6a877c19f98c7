/**
 * The health unit of one view (V5.4): degraded while a source is full, failed (if the view is not live: degraded) while its
 * sweep fails. It decides when a failed sweep is repeated and counts the restarts. The view does the work.
 */
import { critical, errorMessage, type Log } from '@bellwether/base'
import { backoffMs, type Backoff } from '../ports/retry.js'
import { unitKey, type HealthRegistry } from './health.js'

/** The pauses before a failed pipe or sweep restarts. */
export const restartBackoff: Backoff = {
  mode: 'exponential',
  baseMs: 1_000,
  multiplier: 2,
  maxMs: 30_000,
  jitterPct: 0,
}
/** V5.2: this many consecutive failures are a persistent error. */
export const persistentAt = 5

export interface ViewUnitOptions {
  readonly name: string
  readonly live: boolean
  readonly health: HealthRegistry
  readonly log: Log
}

export class ViewUnit {
  readonly key: string
  readonly #options: ViewUnitOptions
  #dependsOn: readonly string[] = []
  #full: string | undefined
  #error: string | undefined
  #failures = 0
  #restarts = 0
  #nextAt = 0

  constructor(options: ViewUnitOptions) {
    this.#options = options
    this.key = unitKey({ kind: 'view', name: options.name })
    this.#put()
  }

  /** `pipes`: the sources of the view, and why one of them is full. */
  update(pipes: readonly string[], full: string | undefined): void {
    this.#dependsOn = pipes
    this.#full = full
    this.#put()
  }

  /** False while a failed sweep pauses. */
  isDue(monotonicMs: number): boolean {
    return monotonicMs >= this.#nextAt
  }

  /** Returns true if the failure is persistent: another sweep with the same state will not succeed. */
  failed(error: unknown, monotonicMs: number): boolean {
    const { log, name } = this.#options
    this.#failures += 1
    this.#restarts += 1
    this.#error = errorMessage(error)
    this.#nextAt = monotonicMs + backoffMs({ backoff: restartBackoff }, this.#failures)
    const isPersistent = this.#failures % persistentAt === 0
    const fields = { err: error, view: name, failures: this.#failures }
    if (isPersistent) critical(log, fields, 'sweep of a view keeps failing')
    else log.error(fields, 'sweep of a view failed; retrying')
    this.#put()
    return isPersistent
  }

  works(): void {
    if (this.#failures === 0) return
    this.#failures = 0
    this.#error = undefined
    this.#put()
  }

  countRestart(): void {
    this.#restarts += 1
    this.#put()
  }

  #put(): void {
    const { name, live, health } = this.#options
    const error = this.#error ?? this.#full
    const state = this.#error !== undefined && live ? 'failed' : error === undefined ? 'ok' : 'degraded'
    health.put({ kind: 'view', name, state, error, restarts: this.#restarts, live, dependsOn: this.#dependsOn })
  }
}
