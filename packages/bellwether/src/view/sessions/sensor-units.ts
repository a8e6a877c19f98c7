/**
 * The health units that sensors report in their heartbeats (V5.4), under names that say whose they are. A sensor's pipes
 * stand on its source and sender (V5.3). They go when their session does.
 */
import type { HealthUnit } from '@bellwether/protocol'
import { unitKey, type HealthBook } from '../health.js'

export class SensorUnits {
  readonly #view: string
  readonly #health: HealthBook
  readonly #keys = new Map<string, readonly string[]>()

  constructor(view: string, health: HealthBook) {
    this.#view = view
    this.#health = health
  }

  /** The server's own kinds are not a sensor's to report. */
  report(sessionId: string, told: readonly HealthUnit[]): void {
    const units = told
      .filter(({ kind }) => kind === 'source' || kind === 'sender' || kind === 'sensor_pipe')
      .map((unit) => ({ ...unit, name: `${this.#view}/${sessionId}/${unit.name}` }))
    const foundations = units.filter(({ kind }) => kind !== 'sensor_pipe').map(unitKey)
    const keys = units.map(unitKey)
    for (const gone of this.#keys.get(sessionId) ?? []) if (!keys.includes(gone)) this.#health.drop(gone)
    this.#keys.set(sessionId, keys)
    for (const { kind, name, state, restarts, error } of units) {
      this.#health.put({
        kind,
        name,
        state,
        restarts: restarts ?? 0,
        error: error ?? undefined,
        dependsOn: kind === 'sensor_pipe' ? foundations : [],
      })
    }
  }

  drop(sessionId: string): void {
    for (const key of this.#keys.get(sessionId) ?? []) this.#health.drop(key)
    this.#keys.delete(sessionId)
  }
}
