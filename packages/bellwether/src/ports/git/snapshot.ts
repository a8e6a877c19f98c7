/**
 * Commits what an agent left in the worktree of its task, with the agent as the author, and lists what the task has changed. A merge or rebase
 * that the agent did not finish is reported and left as it is, for the next attempt.
 */
import { access, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { adoptObjects } from './adopt.js'
import { commitOf, isIn, items, type Repository } from './repository.js'
import { addAll, keepSubmodules } from './submodules.js'
import type { Place, TaskName } from './place.js'

export interface ChangedFile {
  /** Relative to the task root; a path outside it begins with `../`. */
  readonly path: string
  readonly how: 'changed' | 'deleted'
}

export type Snapshot =
  | {
      /** All work of the task, including what was not committed. */
      readonly commit: string
      /** What differs between the base and the commit. */
      readonly files: readonly ChangedFile[]
    }
  /** What the agent did not finish, in words. */
  | { readonly unfinished: string }

export interface Snapshots {
  snapshot(task: TaskName, by: { readonly agent: string; readonly message: string }): Promise<Snapshot>
}

const emailOf = (agent: string) => `${agent.replaceAll(/[^A-Za-z0-9._-]+/g, '-')}@agents.localhost.invalid`
const namesShown = 20

export function snapshots(mustFind: (task: TaskName) => Promise<Place>): Snapshots {
  return {
    async snapshot(task, { agent, message }) {
      const place = await mustFind(task)
      const { repository, record, branch, name } = place
      const { git } = repository
      const cwd = record.path
      const gitDir = await adoptObjects(repository, cwd)
      await rm(join(gitDir, mergeMark), { force: true })
      const unfinished = await unfinishedIn(repository, cwd, gitDir)
      if (unfinished !== null) return { unfinished }
      const author = agent.replaceAll(/[<>\n]/g, ' ').trim() || 'agent'
      const env = { GIT_AUTHOR_NAME: author, GIT_AUTHOR_EMAIL: emailOf(agent) }
      await keepSubmodules(repository, cwd, { message, env })
      await addAll(repository, cwd)
      const staged = await git(['diff', '--cached', '--quiet'], { cwd, answers: [0, 1] })
      const isMerging = (await commitOf(repository, 'MERGE_HEAD', cwd)) !== undefined
      if (staged.code === 1 || isMerging)
        await git(['commit', '-q', '--no-verify', '--cleanup=verbatim', '-m', message], { cwd, env, writes: true })
      const commit = (await commitOf(repository, 'HEAD', cwd)) ?? record.fork
      await attach(repository, { cwd, branch, name, commit })
      return { commit, files: await filesBetween(place, commit) }
    },
  }
}

/** Points the branch of the task to the commit, wherever the agent left HEAD. */
export async function attach(
  repository: Repository,
  at: {
    readonly cwd: string
    readonly branch: string
    readonly name: string
    readonly commit: string
    /** The branch has a commit that Bellwether made and can make again. */
    readonly isOurs?: boolean
  },
): Promise<void> {
  const { cwd, branch, name, commit, isOurs = false } = at
  const { git } = repository
  const tip = await commitOf(repository, branch)
  if (tip !== undefined && tip !== commit && !isOurs && !(await isIn(repository, tip, commit)))
    await git(['update-ref', `refs/bellwether/kept/${name}/${tip.slice(0, 12)}`, tip], { writes: true })
  if (tip !== commit) await git(['update-ref', branch, commit], { writes: true })
  const head = await git(['symbolic-ref', '-q', 'HEAD'], { cwd, answers: [0, 1] })
  if (head.stdout.trim() !== branch) await git(['symbolic-ref', 'HEAD', branch], { cwd, writes: true })
}

/** In the worktree's part of the repository: the accepted commit that Bellwether is merging. */
export const mergeMark = 'bellwether-merging'

/** Keeps uncommitted changes under a ref. */
export async function keepUncommitted(repository: Repository, cwd: string, name: string): Promise<void> {
  const { git } = repository
  const dirty = items((await git(['status', '--porcelain', '-z', noLook], { cwd })).stdout)
  if (dirty.length === 0) return
  await addAll(repository, cwd)
  const left = (await git(['stash', 'create'], { cwd, writes: true })).stdout.trim()
  if (left !== '')
    await git(['update-ref', `refs/bellwether/kept/${name}/${left.slice(0, 12)}`, left], { writes: true })
}

/** Git would run the filters of a repository inside the worktree to see whether its files changed. */
const noLook = '--ignore-submodules=dirty'

/** The files with conflicts. */
export async function unmergedIn({ git }: Repository, cwd: string): Promise<readonly string[]> {
  return items((await git(['diff', '--name-only', '-z', '--diff-filter=U', noLook], { cwd })).stdout)
}

async function unfinishedIn(repository: Repository, cwd: string, gitDir: string): Promise<string | null> {
  const { git } = repository
  for (const state of ['rebase-merge', 'rebase-apply']) {
    const isThere = await access(join(gitDir, state)).then(
      () => true,
      () => false,
    )
    if (isThere) return 'a git rebase is in progress: finish it with git rebase --continue, or abort it'
  }
  const unmerged = new Set(await unmergedIn(repository, cwd))
  if (unmerged.size === 0) return null
  const args = ['grep', '-lz', '-e', '^<<<<<<< ', '-e', '^>>>>>>> ', '--', ...unmerged]
  const marked = items((await git(args, { cwd, answers: [0, 1] })).stdout)
  if (marked.length === 0) return null
  return `conflicts are not resolved in ${marked.slice(0, namesShown).join(', ')}`
}

/** The commit where the task left its base; a base that was merged into the task moves it. */
export async function forkOf({ repository, record }: Place, commit: string): Promise<string> {
  const found = await repository.git(['merge-base', commit, record.base], { answers: [0, 1, 128] })
  return found.code === 0 ? found.stdout.trim() : record.fork
}

async function filesBetween(place: Place, commit: string): Promise<readonly ChangedFile[]> {
  const { repository } = place
  const from = await forkOf(place, commit)
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
