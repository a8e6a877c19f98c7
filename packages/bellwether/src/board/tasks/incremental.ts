/**
 * Answers about all tasks that are kept up with the few that changed. Always: an answer for a state is the one that a look at
 * all of its tasks would give; a state that is older than the answer, or has no version, gets an answer of its own.
 */
import { versionOf, type Changes } from '../log/changes.js'
import type { BoardState, Task } from '../log/task.js'

export interface IncrementalIndex {
  /** Everything anew. */
  rebuild(state: BoardState): void
  /** These tasks are other ones than before, or are there for the first time. */
  update(state: BoardState, tasks: readonly Task[]): void
}

/** `make` builds an empty answer for a question; a question with another `key` begins anew. */
export function incremental<Q, A extends IncrementalIndex>(
  make: (question: Q) => A,
): (state: BoardState, question: Q, key?: string) => A {
  const kept = new WeakMap<Changes, { readonly key: string; readonly answer: A; at: number }>()
  return (state, question, key = '') => {
    const version = versionOf(state)
    const last = version === undefined ? undefined : kept.get(version.changes)
    if (version !== undefined && last?.key === key && last.at <= version.at) {
      const changed = version.changes.between(last.at, version.at)
      if (changed !== null) {
        last.at = version.at
        if (changed.size > 0) last.answer.update(state, tasksOf(state, changed))
        return last.answer
      }
    }
    const answer = make(question)
    answer.rebuild(state)
    const isOlder = last !== undefined && version !== undefined && last.at > version.at
    if (version !== undefined && !isOlder) kept.set(version.changes, { key, answer, at: version.at })
    return answer
  }
}

function tasksOf(state: BoardState, ids: ReadonlySet<string>): readonly Task[] {
  const found: Task[] = []
  for (const id of ids) {
    const task = state.tasks.get(id)
    if (task !== undefined) found.push(task)
  }
  return found
}
