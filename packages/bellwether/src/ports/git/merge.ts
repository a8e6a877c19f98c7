/**
 * Brings the accepted commit of a task onto its base branch. `rebase` makes a candidate in the task's worktree, so that checks can run on the merged
 * tree; `publish` moves the base from the commit that the candidate was made from, or not at all. Both may be repeated
 * after a crash. Uncommitted changes of the project folder are never overwritten.
 */
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { hasCode } from '@bellwether/base'
import { InvalidInput, Retryable, Terminal } from '@bellwether/protocol'
import { commitOf, forkPoint, isIn, isRebasing, listWorktrees, tipsOf, type Tip } from './repository.js'
import { identity } from './git.js'
import { attach, forkOf, keepUncommitted, mergeMark, unmergedIn } from './snapshot.js'
import { noWorktree, type Place, type TaskName, type UsablePlace } from './place.js'

type Candidate =
  /** The base has the change already, or the task changed nothing. */
  | { readonly is: 'merged'; readonly base: string }
  | { readonly is: 'candidate'; readonly commit: string; readonly base: string }
  | { readonly is: 'conflict'; readonly files: readonly string[]; readonly base: string }

type Published =
  | { readonly is: 'published' }
  /** The base is no longer the commit that the candidate was made from. */
  | { readonly is: 'moved' }
  /** Files with uncommitted changes that the merge would overwrite. */
  | { readonly is: 'dirty'; readonly files: readonly string[]; readonly folder: string }

export interface Merges {
  /** Whether the base has one of these commits. False if the task has no worktree record any more. */
  isMerged(task: TaskName, commits: readonly string[]): Promise<boolean>
  rebase(task: TaskName, commit: string): Promise<Candidate>
  publish(task: TaskName, candidate: { readonly commit: string; readonly base: string }): Promise<Published>
}

const short = (ref: string) => ref.replace('refs/heads/', '')
const failedCodes = { dirty: 3, moved: 4 }

// $1: ref, $2: new commit, $3: old commit, $4: message. Files first, as `git merge` does it: if the machine stops in between, the change
// is staged, not undone. One process does both, which continues if Bellwether is killed.
const publishCheckedOut = `
[ "$(git symbolic-ref -q HEAD)" = "$1" ] || exit ${failedCodes.moved}
[ "$(git rev-parse -q --verify "$1")" = "$3" ] || exit ${failedCodes.moved}
git update-index -q --refresh > /dev/null 2>&1
git read-tree -m -u "$3" "$2" || exit ${failedCodes.dirty}
git update-ref -m "$4" "$1" "$2" "$3" && exit 0
git read-tree -m -u "$2" "$3"
exit ${failedCodes.moved}`

export function merges(
  mustFind: (task: TaskName) => Promise<UsablePlace>,
  place: (task: TaskName) => Promise<Place | undefined>,
): Merges {
  return {
    async isMerged(task, commits) {
      const found = commits.length === 0 ? undefined : await place(task)
      if (found === undefined) return false
      // A locked call waits for the git command of a process that was killed.
      await found.repository.git(['rev-parse', '-q', '--verify', found.record.base], {
        writes: true,
        answers: [0, 1, 128],
      })
      for (const commit of commits) if (await isIn(found.repository, commit, found.record.base)) return true
      return false
    },
    async rebase(task, commit) {
      const place = await mustFind(task)
      const { repository, record, branch } = place
      const tips = await tipsOf(repository, [record.base, branch])
      const base = tips.get(record.base)?.commit
      if (base === undefined) throw baseGone(task.taskId, record.base)
      const fork = await forkPoint(repository, commit, base)
      if (fork === commit) return { is: 'merged', base }
      await restore(place, commit, tips.get(branch))
      if (fork === base) return { is: 'candidate', commit, base }
      const found = await rebased(place, base, commit)
      if ('files' in found) return { is: 'conflict', files: found.files, base }
      if (found.commit === base) return { is: 'merged', base }
      return { is: 'candidate', commit: found.commit, base }
    },
    async publish(task, { commit, base }) {
      const found = await place(task)
      if (found === undefined) throw noWorktree(task.taskId)
      const { repository, record } = found
      const { git } = repository
      const message = `bellwether: merge ${task.taskId}`
      const worktrees = await listWorktrees(repository)
      const busy = worktrees.find(({ path }) => isRebasing(path, record.base))
      if (busy !== undefined) throw rebasing(task.taskId, record.base, busy.path)
      const at = worktrees.find((one) => one.branch === record.base)
      if (at === undefined) {
        const done = await git(['update-ref', '-m', message, record.base, commit, base], {
          writes: true,
          answers: [0, 1, 128],
        })
        return { is: done.code === 0 ? 'published' : 'moved' }
      }
      const done = await git([record.base, commit, base, message], {
        script: publishCheckedOut,
        cwd: at.path,
        writes: true,
        answers: [0, ...Object.values(failedCodes)],
      })
      if (done.code === 0) return { is: 'published' }
      if (done.code === failedCodes.moved) return { is: 'moved' }
      return { is: 'dirty', files: overwritten(done.stderr, at.path), folder: at.path }
    },
  }
}

const namedFiles = [
  /Entry '(.+)' (?:not uptodate|would be overwritten|overlaps)/,
  /working tree file '(.+)' would be/,
  /Updating '(.+)' would lose/,
]

function overwritten(stderr: string, folder: string): readonly string[] {
  const files = stderr.split('\n').flatMap((line) => {
    const found = namedFiles.map((pattern) => pattern.exec(line)?.[1]).find((name) => name !== undefined)
    return found === undefined ? [] : [found]
  })
  if (files.length > 0) return files
  throw new Terminal(`Cannot update the files of ${folder}: ${stderr.trim().slice(-1_000)}`, { code: 'git_failed' })
}

const baseGone = (taskId: string, base: string) =>
  new InvalidInput(`Cannot merge task "${taskId}": its base branch "${short(base)}" is gone.`, {
    code: 'base_gone',
    hint: `Create the branch again and run bellwether task merge ${taskId}, or keep the change on its branch with bellwether task keep ${taskId}.`,
  })

/** Git would not let the person finish the rebase of a branch that has moved. */
const rebasing = (taskId: string, base: string, folder: string) =>
  new Retryable(
    `Cannot merge task "${taskId}": a rebase of its base branch "${short(base)}" is in progress in ${folder}.`,
    { code: 'git_busy', hint: `Finish or abort the rebase, then run bellwether task merge ${taskId}.` },
  )

/**
 * The worktree at the accepted commit, whatever a killed process or a person left in it. What a person left is kept under a ref; the mark says
 * that Bellwether itself was merging this commit.
 */
async function restore(place: UsablePlace, commit: string, tip: Tip | undefined): Promise<void> {
  const { repository, gitDir, head } = place
  const { git } = repository
  const mark = join(gitDir, mergeMark)
  const wasMerging = (await readFile(mark, 'utf8').catch(ifMissing(''))) === commit
  let wasStopped = false
  for (const state of ['rebase-merge', 'rebase-apply', 'MERGE_HEAD', 'MERGE_MSG', 'CHERRY_PICK_HEAD', 'REVERT_HEAD']) {
    wasStopped = (await rm(join(gitDir, state), { recursive: true }).then(() => true, ifMissing(false))) || wasStopped
  }
  const isDirty = (wasMerging && wasStopped) || (await keepUncommitted(place))
  await writeFile(mark, commit)
  if (isDirty || wasStopped) await git(['reset', '-q', '--hard'], { writes: true })
  if (head !== commit) await git(['checkout', '-q', '--detach', '--force', commit], { writes: true })
  await attach(place, { tip: tip?.commit, commit, isOurs: wasMerging && tip?.committer === identity.email })
}

const ifMissing =
  <T>(value: T) =>
  (error: unknown): T => {
    if (hasCode(error, 'ENOENT')) return value
    throw error
  }

type Rebased = { readonly commit: string } | { readonly files: readonly string[] }

async function rebased(place: UsablePlace, base: string, commit: string): Promise<Rebased> {
  const { repository, record, branch } = place
  const { git } = repository
  const cwd = record.path
  const headOf = async () => (await commitOf(repository, 'HEAD', cwd)) ?? commit
  const done = await git(['rebase', '-q', base], { cwd, writes: true, answers: [0, 1, 128] })
  if (done.code === 0) return { commit: await headOf() }
  const files = await unmergedIn(repository, cwd)
  await git(['rebase', '--abort'], { cwd, writes: true, answers: [0, 1, 128] })
  if (files.length === 0)
    throw new Terminal(`Cannot rebase ${short(branch)}: ${done.stderr.trim().slice(-1_000)}`, { code: 'git_failed' })
  // A rebase repeats conflicts that a merge commit of the agent has resolved: then merge.
  const fork = await forkOf(place, commit)
  const mergeCommits = (await git(['rev-list', '--merges', '-n', '1', `${fork}..${commit}`])).stdout.trim()
  const original = (await git(['rev-list', '--merges', '-n', '1', `${record.fork}..${commit}`])).stdout.trim()
  if (mergeCommits === '' && original === '') return { files }
  const merge = await git(
    ['merge', '-q', '--no-ff', '--no-verify', '-m', `Merge ${short(record.base)} into ${short(branch)}`, base],
    { cwd, writes: true, answers: [0, 1, 128] },
  )
  if (merge.code === 0) return { commit: await headOf() }
  const conflicts = await unmergedIn(repository, cwd)
  await git(['merge', '--abort'], { cwd, writes: true, answers: [0, 1, 128] })
  return { files: conflicts.length > 0 ? conflicts : files }
}
