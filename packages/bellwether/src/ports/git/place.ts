/** The worktree of a task, as the files of this folder pass it to each other. */
import type { WorktreeRecord } from './records.js'
import type { Repository } from './repository.js'

/** The branches of tasks. */
export const branchPrefix = 'refs/heads/bellwether/'

export interface TaskName {
  readonly taskId: string
  readonly createdAt: string
}

/** An open worktree with what git needs to work in it. */
export interface Place {
  readonly repository: Repository
  readonly name: string
  readonly record: WorktreeRecord
  /** The full name of its branch. */
  readonly branch: string
}
