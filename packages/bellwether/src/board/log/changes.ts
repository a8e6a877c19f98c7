/**
 * Remembers which tasks changed between two states of one log, so that an index over all tasks can be updated with those.
 * It never omits a change: for a state that it no longer remembers, `between` returns null.
 */
import type { BoardState } from './task.js'

/** The position of a state in the history of its log. */
export interface StateVersion {
  readonly changes: Changes
  readonly at: number
}

const versions = new WeakMap<BoardState, StateVersion>()

/** Undefined: the state has no known history, and the caller must read all of its tasks. */
export const versionOf = (state: BoardState): StateVersion | undefined => versions.get(state)
export const setVersion = (state: BoardState, version: StateVersion): void => void versions.set(state, version)

// An index that is further behind is rebuilt, which costs about as much.
const rememberedMin = 10_000

export class Changes {
  #ids: string[] = []
  /** How many changes came before the first remembered one. */
  #forgotten = 0

  get now(): number {
    return this.#forgotten + this.#ids.length
  }

  record(taskIds: readonly string[], tasks: number): void {
    for (const taskId of taskIds) this.#ids.push(taskId)
    const max = Math.max(rememberedMin, tasks)
    if (this.#ids.length <= max * 2) return
    const dropped = this.#ids.length - max
    this.#ids = this.#ids.slice(dropped)
    this.#forgotten += dropped
  }

  /** The ids of tasks that changed after `from` and up to `to`; null: too long ago, any task may have changed. */
  between(from: number, to: number): ReadonlySet<string> | null {
    if (from < this.#forgotten || to > this.now) return null
    return new Set(this.#ids.slice(from - this.#forgotten, to - this.#forgotten))
  }
}
