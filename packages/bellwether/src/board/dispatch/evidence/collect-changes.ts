/**
 * Collects what a run and the rejected runs before it changed, for people who look at it: the claimed files, and those that a view
 * saw change, as a diff against the commit at which the run started, or without git against the files at its start. Bounded, and best
 * effort: a run is closed without it if it cannot be collected.
 * The content of a file that is neither claimed nor part of that commit is not shown: no one meant to publish it.
 */
import { defined } from '@bellwether/base'
import type { ChangedFile, FileVersion, TaskChanges } from '@bellwether/protocol/http'
import { retryCall } from '../../../ports/retry.js'
import type { Dispatcher, DispatchPolicies } from '../dispatcher.js'
import { bytesInside, isPrivate } from '../../policies/inside.js'
import { changesOf as earlierChanges } from '../../tasks/last-failure.js'
import { textField } from '../../tasks/task-fields.js'
import { changeOf, openDiff } from './file-diff.js'
import { readFiles, versionOf, type StartFiles } from './start-files.js'
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
  const isClaimed = new Set([...claimed, ...earlier.filter((one) => one.claimed).map(({ path }) => path)])
  const commit = textField(task, 'baseCommit')
  if (commit === null || git === undefined) {
    const found =
      git === undefined
        ? { why: 'git was not asked' }
        : await retryCall(calls, call, (signal) => git.head(signal), dispatcher)
    const note = 'why' in found ? found.why : 'the folder had no commit when the run started'
    const start = dispatcher.startStates.of(task.taskId)
    if (start !== undefined) return changesSince(start, board.root, { runId, paths, isClaimed, note })
    const files = paths.map((path): ChangedFile => ({ path, change: null, claimed: isClaimed.has(path) }))
    return paths.length === 0 ? null : { runId, commit: null, ...listed(files), diff: null, isCut: false, note }
  }
  if (paths.length === 0) return null
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

interface Ended {
  readonly runId: string
  readonly paths: readonly string[]
  readonly isClaimed: ReadonlySet<string>
  /** Why there is no commit to compare with. */
  readonly note: string
}

/** Without git: compared with the files at the start of the run. Only claimed files are shown: nothing says which others are published. */
async function changesSince(
  start: StartFiles,
  root: string,
  { runId, paths, isClaimed, note }: Ended,
): Promise<TaskChanges | null> {
  const end = await readFiles(root, start.files)
  const moved = [...start.files].filter(([path, { stamp }]) => end.files.get(path)?.stamp !== stamp)
  const fresh = [...end.files.keys()].filter((path) => !start.files.has(path))
  const files: ChangedFile[] = []
  const diff = openDiff(diffMaxChars)
  for (const path of new Set([...paths, ...moved.map(([one]) => one), ...fresh].slice(0, pathsMax))) {
    const [old, found] = [start.files.get(path), await bytesInside(root, path)]
    const now = found.found === 'absent' ? undefined : found.found === 'bytes' ? found.bytes : null
    const after = now === undefined ? null : now === null ? end.files.get(path) : versionOf(now)
    const isUntouched = old !== undefined && old.stamp === end.files.get(path)?.stamp
    const isSame = isUntouched || (old !== undefined && old.sha256 !== null && old.sha256 === after?.sha256)
    // A file that the reading at the start did not reach may have existed.
    const isKnown = old !== undefined || start.isComplete
    if (isSame || (now === undefined && old === undefined)) continue
    const change = !isKnown ? null : old === undefined ? 'added' : now === undefined ? 'deleted' : 'changed'
    const claimed = isClaimed.has(path)
    files.push({
      ...{ path, change, claimed },
      ...defined({ before: isKnown ? (old === undefined ? null : shownOf(old)) : undefined }),
      ...defined({ after: after === null ? null : after && shownOf(after) }),
    })
    if (claimed && isKnown) diff.add(path, old === undefined ? undefined : old.content, now)
  }
  if (files.length === 0) return null
  const more = start.isComplete ? '' : '; the folder is too large to compare all of its files'
  return { runId, commit: null, ...listed(files), ...diff.end(), note: start.isComplete ? null : `${note}${more}` }
}

const shownOf = ({ bytes, sha256 }: FileVersion): FileVersion => ({ bytes, sha256 })

/** The board's own files change with every line of its log. */
const isOwn = (path: string) => isPrivate(path) || path === 'state' || path.startsWith('state/')

const listed = (files: readonly ChangedFile[]) => ({
  files: files.slice(0, filesMax),
  moreFiles: Math.max(0, files.length - filesMax),
})
