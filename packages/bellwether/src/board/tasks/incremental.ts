/**
 * Keeps an index over all tasks up to date with the few that changed. The index for a state equals one built from all of its
 * tasks. A state that is older than the index, or has no known history, gets an index of its own.
 */
import { versionOf, type Changes } from '../log/changes.js'
import type { BoardState, Task } from '../log/task.js'

export interface IncrementalIndex {
  rebuild(state: BoardState): void
  /** These tasks changed or are new. */
  update(state: BoardState, tasks: readonly Task[]): void
}

/** An index whose entry for a task follows from that task alone. */
export abstract class TaskIndex implements IncrementalIndex {
  protected abstract reindex(task: Task): void

  rebuild(state: BoardState): void {
    for (const task of state.tasks.values()) this.reindex(task)
  }

  update(_state: BoardState, tasks: readonly Task[]): void {
    for (const task of tasks) this.reindex(task)
  }
}

/** `make` creates an empty index; another `key` starts a new one. */
export function incremental<O, I extends IncrementalIndex>(
  make: (options: O) => I,
): (state: BoardState, options: O, key?: string) => I {
  const cache = new WeakMap<Changes, { readonly key: string; readonly index: I; at: number }>()
  return (state, options, key = '') => {
    const version = versionOf(state)
    const last = version === undefined ? undefined : cache.get(version.changes)
    if (version !== undefined && last?.key === key && last.at <= version.at) {
      const changed = version.changes.between(last.at, version.at)
      if (changed !== null) {
        last.at = version.at
        if (changed.size > 0) last.index.update(state, tasksOf(state, changed))
        return last.index
      }
    }
    const index = make(options)
    index.rebuild(state)
    const isOlder = last !== undefined && version !== undefined && last.at > version.at
    if (version !== undefined && !isOlder) cache.set(version.changes, { key, index, at: version.at })
    return index
  }
}

function tasksOf(state: BoardState, ids: ReadonlySet<string>): readonly Task[] {
  return [...ids].flatMap((id) => state.tasks.get(id) ?? [])
}
