/**
 * Which tasks changed between two states of one log: what lets an answer that was worked out for all of them be kept up with
 * the few that moved. Always: asked for a time that it no longer remembers it says so, and never leaves one out.
 */
import type { BoardState } from './task.js'

/** Where a state stands in the life of its log. */
export interface StateVersion {
  readonly changes: Changes
  readonly at: number
}

const versions = new WeakMap<BoardState, StateVersion>()

/** Undefined: nobody knows where it comes from, and it is looked at whole. */
export const versionOf = (state: BoardState): StateVersion | undefined => versions.get(state)
export const setVersion = (state: BoardState, version: StateVersion): void => void versions.set(state, version)

// Whoever is further behind looks at everything again: that costs about as much.
const rememberedMin = 10_000

export class Changes {
  #ids: string[] = []
  /** How many were told before the first that is remembered. */
  #forgotten = 0

  get now(): number {
    return this.#forgotten + this.#ids.length
  }

  record(taskIds: readonly string[], tasks: number): void {
    for (const taskId of taskIds) this.#ids.push(taskId)
    const most = Math.max(rememberedMin, tasks)
    if (this.#ids.length <= most * 2) return
    const gone = this.#ids.length - most
    this.#ids = this.#ids.slice(gone)
    this.#forgotten += gone
  }

  /** The ids of what changed after `from` and up to `to`; null: that is too long ago, and everything may have. */
  between(from: number, to: number): ReadonlySet<string> | null {
    if (from < this.#forgotten || to > this.now) return null
    return new Set(this.#ids.slice(from - this.#forgotten, to - this.#forgotten))
  }
}
