/**
 * Registers the health units that sensors report in their heartbeats (V5.4), prefixed with view and session. A sensor's pipes
 * depend on its source and sender (V5.3). The units are dropped when their session ends.
 */
import type { HealthUnit } from '@bellwether/protocol'
import { unitKey, type HealthRegistry } from '../health.js'

export class SensorUnits {
  readonly #view: string
  readonly #health: HealthRegistry
  readonly #keys = new Map<string, readonly string[]>()

  constructor(view: string, health: HealthRegistry) {
    this.#view = view
    this.#health = health
  }

  /** Ignores kinds that only the server may report. */
  report(sessionId: string, reported: readonly HealthUnit[]): void {
    const units = reported
      .filter(({ kind }) => kind === 'source' || kind === 'sender' || kind === 'sensor_pipe')
      .map((unit) => ({ ...unit, name: `${this.#view}/${sessionId}/${unit.name}` }))
    const dependencies = units.filter(({ kind }) => kind !== 'sensor_pipe').map(unitKey)
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
        dependsOn: kind === 'sensor_pipe' ? dependencies : [],
      })
    }
  }

  drop(sessionId: string): void {
    for (const key of this.#keys.get(sessionId) ?? []) this.#health.drop(key)
    this.#keys.delete(sessionId)
  }
}
