/**
 * The open runs of a board, and the claims that are about to become runs, updated only for tasks that changed.
 */
import { claimOf, isOver, openRun, type DispatchClaim } from './task-fields.js'
import { incremental, TaskIndex } from './incremental.js'
import { countQueuedMerges } from './queued-merges.js'
import type { BoardState, Run, Task } from '../log/task.js'

export interface OpenRun {
  readonly taskId: string
  readonly runId: string
  readonly run: Run
}

class OpenRunsIndex extends TaskIndex {
  readonly runs = new Map<string, OpenRun>()
  /** Claims of tasks without an open run. */
  readonly claims = new Map<string, DispatchClaim>()

  protected reindex(task: Task): void {
    const { taskId } = task
    const run = openRun(task)
    const claim = run === null && task.status === 'claimed' ? claimOf(task) : null
    if (run === null) this.runs.delete(taskId)
    else this.runs.set(taskId, { taskId, runId: run.runId, run })
    if (claim === null) this.claims.delete(taskId)
    else this.claims.set(taskId, claim)
  }
}

const openRunsIndex = incremental<null, OpenRunsIndex>(() => new OpenRunsIndex())

/** Every open run, including those of tasks that a person has moved since. */
export function openRuns(state: BoardState): readonly OpenRun[] {
  return [...openRunsIndex(state, null).runs.values()]
}

/**
 * The number of open runs, unexpired claims and accepted changes that wait for their merge. The changes count: if runs end faster than changes are
 * merged, more runs would only start from an outdated base, and conflict.
 */
export function inFlight(state: BoardState, nowMs: number): number {
  const { runs, claims } = openRunsIndex(state, null)
  let count = runs.size + countQueuedMerges(state)
  for (const claim of claims.values()) if (!isOver(claim, nowMs)) count += 1
  return count
}
