/**
 * Answers about all tasks that are kept up with the few that changed. Always: an answer for a state is the one that a look at
 * all of its tasks would give; a state that is older than the answer, or has no standing, gets an answer of its own.
 */
import { standingOf, type Changes } from '../log/changes.js'
import type { BoardState, Task } from '../log/task.js'

export interface Kept {
  /** Everything anew. */
  begin(state: BoardState): void
  /** These tasks are other ones than before, or are there for the first time. */
  change(state: BoardState, tasks: readonly Task[]): void
}

/** `make` builds an empty answer for a question; a question with another `key` begins anew. */
export function keepUp<Q, A extends Kept>(
  make: (question: Q) => A,
): (state: BoardState, question: Q, key?: string) => A {
  const kept = new WeakMap<Changes, { readonly key: string; readonly answer: A; at: number }>()
  return (state, question, key = '') => {
    const standing = standingOf(state)
    const last = standing === undefined ? undefined : kept.get(standing.changes)
    if (standing !== undefined && last?.key === key && last.at <= standing.at) {
      const changed = standing.changes.between(last.at, standing.at)
      if (changed !== null) {
        last.at = standing.at
        if (changed.size > 0) last.answer.change(state, tasksOf(state, changed))
        return last.answer
      }
    }
    const answer = make(question)
    answer.begin(state)
    const isOlder = last !== undefined && standing !== undefined && last.at > standing.at
    if (standing !== undefined && !isOlder) kept.set(standing.changes, { key, answer, at: standing.at })
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
