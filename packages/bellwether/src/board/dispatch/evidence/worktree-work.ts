/**
 * Reads what the run of a task left in its worktree: commits the rest, with the agent as the author, and lists what changed. Repeating it
 * finds the same commit. Also says what an accepted change waits for.
 */
import { errorMessage } from '@bellwether/base'
import { Retryable, Terminal } from '@bellwether/protocol'
import type { TaskChanges } from '@bellwether/protocol/http'
import { list, object, oneOf, text, valid } from '../../../settings/shape.js'
import type { ChangedFile } from '../../../ports/git/snapshot.js'
import { worktreeOf, type Merging } from '../../tasks/task-fields.js'
import type { Task } from '../../log/task.js'
import type { WorktreeWork } from './collect-evidence.js'
import type { Dispatcher, DispatchPolicies } from '../dispatcher.js'
import { worktreesOf } from '../workspace.js'

type Work = WorktreeWork | { readonly unfinished: string } | { readonly unreadable: string }

const titleMaxChars = 200

/** Null: the run worked in the project folder. */
export async function readWork(dispatcher: Dispatcher, policies: DispatchPolicies, task: Task): Promise<Work | null> {
  const worktree = worktreeOf(task)
  if (worktree === null) return null
  const worktrees = worktreesOf(dispatcher, policies)
  if (worktrees === undefined) return { unreadable: 'this process cannot reach the worktree of the task' }
  const agent = task.runs.at(-1)?.agent ?? 'agent'
  const message = `${task.taskId}: ${task.title.replaceAll(/\s+/g, ' ').slice(0, titleMaxChars).toWellFormed()}`
  try {
    const snapshot = await worktrees.snapshot(task, { agent, message })
    if ('unfinished' in snapshot) return snapshot
    return { root: worktree.root, ...snapshot }
  } catch (error) {
    if (!(error instanceof Terminal) && !(error instanceof Retryable)) throw error
    dispatcher.log.warn({ err: error, taskId: task.taskId }, 'cannot read the worktree of a run')
    return { unreadable: errorMessage(error) }
  }
}

const filesMax = 100

/** What the line that closes a run records about its changes. */
export interface RunChanges {
  readonly changes: TaskChanges | null
  readonly worktreeChanges?: Readonly<Record<string, unknown>>
}

/** The changes of a run in a worktree. Their diff is read from git when it is shown (read-changes.ts). */
export function worktreeChanges(runId: string, work: WorktreeWork | undefined, claimed: readonly string[]): RunChanges {
  if (work === undefined) return { changes: null }
  const { commit, from } = work
  const files = work.files.slice(0, filesMax)
  const moreFiles = work.files.length - files.length
  const recorded = { runId, commit, from, files, ...(moreFiles > 0 ? { moreFiles } : {}) }
  if (files.length === 0) return { changes: null, worktreeChanges: recorded }
  const changes: TaskChanges = {
    runId,
    commit: from,
    files: files.map(({ path, how }) => ({ path, change: how, claimed: claimed.includes(path) })),
    moreFiles,
    diff: null,
    isCut: false,
    note: `see git diff ${from.slice(0, 12)} ${commit.slice(0, 12)}`,
  }
  return { changes, worktreeChanges: recorded }
}

/** What the line of an accepted run says about its merge; nothing, if there is nothing to merge. */
export function mergingPayload(task: Task, work: WorktreeWork | undefined): { readonly merging?: Merging } {
  const worktree = worktreeOf(task)
  if (worktree === null || worktree.merge === 'never' || work === undefined || work.files.length === 0) return {}
  const merging: Merging = {
    state: worktree.merge === 'auto' ? 'queued' : 'asked',
    commit: work.commit,
    branch: worktree.branch,
    base: worktree.base,
    candidates: [],
  }
  return { merging }
}

const changesShape = object({
  runId: text(),
  files: list(object({ path: text(), how: oneOf(['changed', 'deleted']) }), 0, filesMax),
})

/** The files that a turn changed in the worktree of its task. Undefined: the turn did not work in one. */
export function changesOfTurn(task: Task | undefined, agentTurnId: string): readonly ChangedFile[] | undefined {
  const run = task?.runs.find((one) => one.agentTurnId === agentTurnId)
  if (task === undefined || run === undefined || worktreeOf(task) === null) return undefined
  const changes = valid(changesShape, task.fields['worktreeChanges'])
  return changes?.runId === run.runId ? changes.files : []
}
