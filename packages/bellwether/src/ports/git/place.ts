/** The worktree of a task, as the files of this folder pass it to each other. */
import { InvalidInput } from '@bellwether/protocol'
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

/** A worktree that is complete. Its repository calls git in it. */
export interface UsablePlace extends Place {
  /** The worktree's part of the repository. */
  readonly gitDir: string
  /** The commit of its HEAD; undefined if the branch of its HEAD does not exist. */
  readonly head: string | undefined
}

export const noWorktree = (taskId: string) =>
  new InvalidInput(`Task "${taskId}" has no worktree.`, {
    code: 'no_worktree',
    hint: `Run bellwether task retry ${taskId} to start it again.`,
  })
