/**
 * Commits what an agent left in the worktree of its task, with the agent as the author, and lists what the task has changed. A merge or rebase
 * that the agent did not finish is reported and left as it is, for the next attempt.
 */
import { access, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { adoptObjects } from './adopt.js'
import { commitOf, forkPoint, isIn, items, tipsOf, type Repository } from './repository.js'
import { addAll, keepSubmodules, readIndex, type Index } from './submodules.js'
import type { Place, TaskName, UsablePlace } from './place.js'

export interface ChangedFile {
  /** Relative to the task root; a path outside it begins with `../`. */
  readonly path: string
  readonly how: 'changed' | 'deleted'
}

type Snapshot =
  | {
      /** All work of the task, including what was not committed. */
      readonly commit: string
      /** The commit where the task left its base. */
      readonly from: string
      /** What differs between these commits. */
      readonly files: readonly ChangedFile[]
    }
  /** What the agent did not finish, in words. */
  | { readonly unfinished: string }

export interface Snapshots {
  snapshot(task: TaskName, by: { readonly agent: string; readonly message: string }): Promise<Snapshot>
}

const emailOf = (agent: string) => `${agent.replaceAll(/[^A-Za-z0-9._-]+/g, '-')}@agents.localhost.invalid`
const namesShown = 20

export function snapshots(mustFind: (task: TaskName) => Promise<UsablePlace>): Snapshots {
  return {
    async snapshot(task, { agent, message }) {
      const place = await mustFind(task)
      const { repository, record, gitDir } = place
      const { git } = repository
      const cwd = record.path
      await adoptObjects(repository, gitDir)
      await rm(join(gitDir, mergeMark), { force: true })
      const index = await readIndex(repository, cwd)
      const unfinished = await unfinishedIn(repository, gitDir, index)
      if (unfinished !== null) return { unfinished }
      const author = agent.replaceAll(/[<>\n]/g, ' ').trim() || 'agent'
      const env = { GIT_AUTHOR_NAME: author, GIT_AUTHOR_EMAIL: emailOf(agent) }
      await keepSubmodules(repository, cwd, { message, env })
      await addAll(repository, cwd, index)
      const staged = await git(['diff', '--cached', '--quiet'], { answers: [0, 1] })
      if (staged.code === 1 || (await isThere(join(gitDir, 'MERGE_HEAD'))))
        await git(['commit', '-q', '--no-verify', '--cleanup=verbatim', '-m', message], { env, writes: true })
      const commit = (await commitOf(repository, 'HEAD')) ?? record.fork
      const tip = (await tipsOf(repository, [place.branch])).get(place.branch)?.commit
      await attach(place, { tip, commit })
      const from = await forkOf(place, commit)
      return { commit, from, files: await filesBetween(repository, from, commit) }
    },
  }
}

/** Points the branch of the task to the commit, wherever the agent left HEAD. */
export async function attach(
  { repository, branch, name, gitDir }: UsablePlace,
  at: {
    /** Where the branch points now. */
    readonly tip: string | undefined
    readonly commit: string
    /** The branch has a commit that Bellwether made and can make again. */
    readonly isOurs?: boolean
  },
): Promise<void> {
  const { tip, commit, isOurs = false } = at
  const { git } = repository
  if (tip !== undefined && tip !== commit && !isOurs && !(await isIn(repository, tip, commit)))
    await git(['update-ref', `refs/bellwether/kept/${name}/${tip.slice(0, 12)}`, tip], { writes: true })
  if (tip !== commit) await git(['update-ref', branch, commit], { writes: true })
  const head = await readFile(join(gitDir, 'HEAD'), 'utf8')
  if (head.trim() !== `ref: ${branch}`) await git(['symbolic-ref', 'HEAD', branch], { writes: true })
}

/** In the worktree's part of the repository: the accepted commit that Bellwether is merging. */
export const mergeMark = 'bellwether-merging'

/** Keeps uncommitted changes under a ref. Returns whether there are any. */
export async function keepUncommitted({ repository, record, name }: UsablePlace): Promise<boolean> {
  const { git } = repository
  const dirty = items((await git(['status', '--porcelain', '-z', noLook])).stdout)
  if (dirty.length === 0) return false
  await addAll(repository, record.path, await readIndex(repository, record.path))
  const left = (await git(['stash', 'create'], { writes: true })).stdout.trim()
  if (left !== '')
    await git(['update-ref', `refs/bellwether/kept/${name}/${left.slice(0, 12)}`, left], { writes: true })
  return true
}

/** Git would run the filters of a repository inside the worktree to see whether its files changed. */
const noLook = '--ignore-submodules=dirty'

/** The files with conflicts. */
export async function unmergedIn({ git }: Repository, cwd: string): Promise<readonly string[]> {
  return items((await git(['diff', '--name-only', '-z', '--diff-filter=U', noLook], { cwd })).stdout)
}

const isThere = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  )

async function unfinishedIn({ git }: Repository, gitDir: string, index: Index): Promise<string | null> {
  for (const state of ['rebase-merge', 'rebase-apply'])
    if (await isThere(join(gitDir, state)))
      return 'a git rebase is in progress: finish it with git rebase --continue, or abort it'
  const unmerged = new Set(index.filter(({ stage }) => stage !== 0).map(({ path }) => path))
  if (unmerged.size === 0) return null
  const args = ['grep', '-lz', '-e', '^<<<<<<< ', '-e', '^>>>>>>> ', '--', ...unmerged]
  const marked = items((await git(args, { answers: [0, 1] })).stdout)
  if (marked.length === 0) return null
  return `conflicts are not resolved in ${marked.slice(0, namesShown).join(', ')}`
}

/** The commit where the task left its base; a base that was merged into the task moves it. */
export async function forkOf({ repository, record }: Place, commit: string): Promise<string> {
  return (await forkPoint(repository, commit, record.base)) ?? record.fork
}

async function filesBetween(repository: Repository, from: string, commit: string): Promise<readonly ChangedFile[]> {
  const args = ['diff', '--name-status', '-z', '--no-renames', '--no-ext-diff', '--no-textconv', from, commit]
  const parts = items((await repository.git(args)).stdout)
  const found: ChangedFile[] = []
  for (let at = 0; at + 1 < parts.length; at += 2) {
    const path = relativeTo(repository.prefix, parts[at + 1]!)
    found.push({ path, how: parts[at] === 'D' ? 'deleted' : 'changed' })
  }
  return found
}

function relativeTo(prefix: string, path: string): string {
  if (path.startsWith(prefix)) return path.slice(prefix.length)
  return join(
    ...prefix
      .split('/')
      .filter(Boolean)
      .map(() => '..'),
    path,
  )
}
