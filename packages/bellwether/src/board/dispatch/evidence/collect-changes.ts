/**
 * Collects what a run and the rejected runs before it changed, for people who look at it: the claimed files, and those that a view
 * saw change, as a diff against the commit at which the run started. Bounded, and best effort: a run is closed without it if it cannot be collected.
 * The content of a file that is neither claimed nor part of that commit is not shown: no one meant to publish it.
 */
import type { ChangedFile, TaskChanges } from '@bellwether/protocol/http'
import { retryCall } from '../../../ports/retry.js'
import type { Dispatcher, DispatchPolicies } from '../dispatcher.js'
import { bytesInside, isPrivate } from '../../policies/inside.js'
import { changesOf as earlierChanges } from '../../tasks/last-failure.js'
import { textField } from '../../tasks/task-fields.js'
import { changeOf, openDiff } from './file-diff.js'
import type { Task } from '../../log/task.js'

// Every line that closes a run stores them.
const filesMax = 50
const diffMaxChars = 16_000
// Bounds the time of one collection; more changes than that are counted.
const pathsMax = 500

export async function collectChanges(
  dispatcher: Dispatcher,
  policies: Pick<DispatchPolicies, 'calls'>,
  task: Task,
  runId: string,
  claimed: readonly string[],
): Promise<TaskChanges | null> {
  try {
    return await changesOf(dispatcher, policies, task, runId, claimed)
  } catch (error) {
    dispatcher.log.warn({ err: error, taskId: task.taskId, runId }, 'cannot collect the changes of a run')
    return null
  }
}

async function changesOf(
  dispatcher: Dispatcher,
  { calls }: Pick<DispatchPolicies, 'calls'>,
  task: Task,
  runId: string,
  claimed: readonly string[],
): Promise<TaskChanges | null> {
  const { board, evidence, git } = dispatcher
  const call = { kind: 'local_state', name: `reading the changes of ${task.taskId}` } as const
  const since = textField(task, 'changeToken')
  const seen =
    since === null
      ? null
      : await retryCall(calls, call, (signal) => evidence.changedFiles(since, pathsMax, signal), dispatcher)
  // What an earlier run changed is part of the change that a person decides about, unless it was committed or undone.
  const earlier = earlierChanges(task)?.files ?? []
  // Without a view, a claimed file is the only hint.
  const all = [...claimed, ...(seen ?? []), ...earlier.map(({ path }) => path)]
  const paths = [...new Set(all)].filter((path) => !isOwn(path)).slice(0, pathsMax)
  if (paths.length === 0) return null
  const isClaimed = new Set([...claimed, ...earlier.filter((one) => one.claimed).map(({ path }) => path)])
  const commit = textField(task, 'baseCommit')
  if (commit === null || git === undefined) {
    const found =
      git === undefined
        ? { why: 'git was not asked' }
        : await retryCall(calls, call, (signal) => git.head(signal), dispatcher)
    const note = 'why' in found ? found.why : 'the folder had no commit when the run started'
    const files = paths.map((path): ChangedFile => ({ path, change: null, claimed: isClaimed.has(path) }))
    return { runId, commit: null, ...listed(files), diff: null, isCut: false, note }
  }
  const before = await retryCall(calls, call, (signal) => git.filesAt(commit, paths, signal), dispatcher)
  const files: ChangedFile[] = []
  const diff = openDiff(diffMaxChars)
  for (const path of paths) {
    const [old, found] = [before.get(path), await bytesInside(board.root, path)]
    const now = found.found === 'absent' ? undefined : found.found === 'bytes' ? found.bytes : null
    const change = changeOf(old, now)
    if (change === null) continue
    files.push({ path, change, claimed: isClaimed.has(path) })
    if (old !== undefined || isClaimed.has(path)) diff.add(path, old, now)
  }
  if (files.length === 0) return null
  return { runId, commit, ...listed(files), ...diff.end(), note: null }
}

/** The board's own files change with every line of its log. */
const isOwn = (path: string) => isPrivate(path) || path === 'state' || path.startsWith('state/')

const listed = (files: readonly ChangedFile[]) => ({
  files: files.slice(0, filesMax),
  moreFiles: Math.max(0, files.length - filesMax),
})
