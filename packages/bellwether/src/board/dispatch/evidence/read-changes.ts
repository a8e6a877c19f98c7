/**
 * Reads what the last run of a task changed. The line that closed the run has the files, and for a run in the project folder the diff; the
 * diff of a worktree is read from git between two commits, so it can be read as long as the repository has them. Commits do not change, so
 * a diff is read once.
 */
import { errorMessage } from '@bellwether/base'
import type { TaskChanges } from '@bellwether/protocol/http'
import { object, text, valid } from '../../../settings/shape.js'
import { changesOf } from '../../tasks/last-failure.js'
import type { Task } from '../../log/task.js'
import type { Dispatcher } from '../dispatcher.js'
import { changeOf, openDiff } from './file-diff.js'

// More than a person reads in one page.
const diffMaxChars = 100_000
// Each has at most as many characters as a diff.
const cachedMax = 20

const commitId = text({ accepts: (value) => /^[0-9a-f]{40,64}$/.test(value) })
const recordedShape = object({ runId: text(), commit: commitId, from: commitId })
const mergedShape = object({ commit: commitId, from: commitId })

/** The commits before and after the change: on the base if it was merged, else those of the worktree. */
function commitsOf({ fields }: Task, runId: string): readonly [from: string, commit: string] | undefined {
  const recorded = valid(recordedShape, fields['worktreeChanges'])
  if (recorded?.runId !== runId) return undefined
  const { from, commit } = valid(mergedShape, fields['merged']) ?? recorded
  return [from, commit]
}

export function openChanges({
  git,
  log,
}: Pick<Dispatcher, 'git' | 'log'>): (task: Task) => Promise<TaskChanges | null> {
  const cached = new Map<string, TaskChanges>()

  async function read(recorded: TaskChanges, from: string, commit: string): Promise<TaskChanges> {
    const paths = recorded.files.map(({ path }) => path)
    if (!(await git!.hasCommits([from, commit])))
      return { ...recorded, note: 'the repository does not have the commits any more' }
    const [before, after] = [await git!.filesAt(from, paths), await git!.filesAt(commit, paths)]
    const diff = openDiff(diffMaxChars)
    const files = recorded.files.map((file) => {
      const [old, now] = [before.get(file.path), after.get(file.path)]
      diff.add(file.path, old, now)
      return { ...file, change: changeOf(old, now) ?? file.change }
    })
    return { ...recorded, files, ...diff.end(), note: null }
  }

  return async (task) => {
    const recorded = changesOf(task)
    const range = recorded === null ? undefined : commitsOf(task, recorded.runId)
    if (recorded === null || recorded.diff !== null || range === undefined || git === undefined) return recorded
    const name = `${task.taskId} ${range.join(' ')}`
    const known = cached.get(name)
    if (known !== undefined) return known
    try {
      const found = await read(recorded, ...range)
      if (cached.size >= cachedMax) cached.delete(cached.keys().next().value!)
      cached.set(name, found)
      return found
    } catch (error) {
      log.warn({ err: error, taskId: task.taskId }, 'cannot read the diff of a task')
      return {
        ...recorded,
        note: `git cannot read it: ${errorMessage(error).slice(0, 200)}. ${recorded.note ?? ''}`.trim(),
      }
    }
  }
}
