/**
 * The git worktrees of tasks: one folder and one branch per task, outside the project. Opening one again adopts what a killed process
 * left. A commit is never deleted: what is not merged stays on its branch, or under refs/bellwether/kept. merge.ts merges them.
 */
import { chmod, chown, mkdir, realpath, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { InvalidInput } from '@bellwether/protocol'
import { tryFolderLock, type FolderLock } from '../database/folder-lock.js'
import { adoptObjects } from './adopt.js'
import { merges, type Merges } from './merge.js'
import { branchPrefix, noWorktree, type Place, type TaskName, type UsablePlace } from './place.js'
import { listRecords, readRecord, removeRecord, worktreeName, writeRecord, type WorktreeRecord } from './records.js'
import {
  commitOf,
  findRepository,
  hasCommits,
  inside,
  isIn,
  ownerOf,
  type NoRepository,
  type Repository,
} from './repository.js'
import { keepUncommitted, snapshots, type Snapshots } from './snapshot.js'
import { removeStaleLocks } from './stale-locks.js'
import { checkOutSubmodules } from './submodules.js'
import { gitDirOf, isRegistered } from './workspace-folder.js'

export interface Worktree {
  /** The folder of the worktree. */
  readonly top: string
  /** The task root in it. */
  readonly root: string
  /** The short name of its branch. */
  readonly branch: string
  /** The short name of the branch that it is merged into. */
  readonly base: string
  readonly fork: string
}

export interface Worktrees extends Snapshots, Merges {
  /** Makes the worktree of a task, or adopts the one that exists. `base` null: the branch that is checked out. */
  open(task: TaskName, base: string | null): Promise<Worktree | NoRepository>
  /** The worktree of a task; undefined if there is none. */
  find(task: TaskName): Promise<Worktree | undefined>
  /**
   * Removes the worktree of a finished task, and its branch if its tip is on the base or in `merged`. False: commits that are not merged
   * stay on the branch. `isFinal`: the task never opens it again.
   */
  close(task: TaskName, ending: { readonly merged: readonly string[]; readonly isFinal: boolean }): Promise<boolean>
  /** The tasks of this task root that have a record. */
  list(): Promise<readonly TaskName[]>
  /** Undefined: another process is merging. */
  lockMerges(): Promise<FolderLock | undefined>
}

export interface WorktreeOptions {
  /** The task root. */
  readonly root: string
  /** Where worktrees are made: a folder outside the project. */
  readonly folder: string
  readonly timeoutMs: number
}

const short = (ref: string) => ref.replace(/^refs\/heads\//, '')
const notFound = 128

export function openWorktrees(options: WorktreeOptions): Worktrees {
  const { root, folder, timeoutMs } = options
  const repositoryOf = () => findRepository(root, timeoutMs)

  async function place(task: TaskName, known?: Repository): Promise<Place | undefined> {
    const repository = known ?? (await repositoryOf())
    if ('missing' in repository) return undefined
    const name = worktreeName(task.taskId, repository.prefix)
    const record = await readRecord(repository.common, name)
    if (record === undefined || !isOf(record, task)) return undefined
    return { repository, name, record, branch: `${branchPrefix}${name}` }
  }

  const isOf = (record: WorktreeRecord, { taskId, createdAt }: TaskName) =>
    record.taskId === taskId && record.createdAt === createdAt && record.root === root

  const worktreeOf = ({ repository, record, branch }: Place): Worktree => ({
    top: record.path,
    root: join(record.path, repository.prefix),
    branch: short(branch),
    base: short(record.base),
    fork: record.fork,
  })

  async function mustFind(task: TaskName): Promise<UsablePlace> {
    const found = await place(task)
    const usable = found === undefined ? undefined : await usablePlace(found)
    if (usable === undefined) throw noWorktree(task.taskId)
    await removeStaleLocks(usable.repository, usable.record.path)
    return usable
  }

  async function create(repository: Repository, task: TaskName, base: string, fork: string): Promise<Worktree> {
    const name = worktreeName(task.taskId, repository.prefix)
    const branch = `${branchPrefix}${name}`
    const path = join(await ownFolder(), name)
    const { git, common } = repository
    const old = await readRecord(common, name)
    await dropFolder(repository, old?.path ?? path)
    if (old?.path !== path) await dropFolder(repository, path)
    const tip = await commitOf(repository, branch)
    const isOwn = old !== undefined && isOf(old, task)
    if (tip !== undefined && !isOwn) await keepAway(repository, name, branch, tip)
    const record = isOwn ? { ...old, path, ready: false } : { ...task, root, path, base, fork, ready: false }
    await writeRecord(common, name, record)
    const from = tip !== undefined && isOwn ? [path, short(branch)] : ['-b', short(branch), path, fork]
    await git(['worktree', 'add', '-q', ...from], { writes: true })
    await checkOutSubmodules(repository, path)
    await writeRecord(common, name, { ...record, ready: true })
    return worktreeOf({ repository, name, record, branch })
  }

  /** The folder must be writable for the account that git runs as, and closed to others: a project may lie where they cannot read it. */
  async function ownFolder(): Promise<string> {
    await mkdir(folder, { recursive: true, mode: 0o700 })
    await chmod(folder, 0o700)
    const owner = ownerOf(root)
    if (owner !== undefined) await chown(folder, owner.uid, owner.gid)
    // Git lists worktrees by their real paths.
    return realpath(folder)
  }

  return {
    async open(task, wanted) {
      const repository = await repositoryOf()
      if ('missing' in repository) return repository
      const found = await place(task, repository)
      if (found !== undefined && (await usablePlace(found)) !== undefined) {
        await removeStaleLocks(repository, found.record.path)
        return worktreeOf(found)
      }
      const base = found?.record.base ?? (await baseOf(repository, wanted, task.taskId))
      if (found === undefined) await refuseTaskBranch(repository, task.taskId, base)
      const fork = await commitOf(repository, base)
      if (fork === undefined && !(await hasCommits(repository)))
        return { missing: `the git repository ${repository.top} has no commits` }
      if (fork === undefined) throw baseGone(task.taskId, base, repository)
      return create(repository, task, base, fork)
    },
    async find(task) {
      const found = await place(task)
      return found !== undefined && (await usablePlace(found)) !== undefined ? worktreeOf(found) : undefined
    },
    async close(task, { merged, isFinal }) {
      const found = await place(task)
      if (found === undefined) return true
      const { repository, name, record, branch } = found
      const usable = await usablePlace(found)
      if (usable !== undefined) {
        await removeStaleLocks(repository, record.path)
        await adoptObjects(repository, usable.gitDir)
        await keepUncommitted(usable)
        await keepHead(usable, merged)
      }
      await dropFolder(repository, record.path)
      const tip = await commitOf(repository, branch)
      const isMerged =
        tip === undefined || merged.includes(tip) || tip === record.fork || (await isIn(repository, tip, record.base))
      if (tip !== undefined && isMerged) await repository.git(['update-ref', '-d', branch, tip], { writes: true })
      if (isMerged || isFinal) await removeRecord(repository.common, name)
      return isMerged
    },
    async list() {
      const repository = await repositoryOf()
      if ('missing' in repository) return []
      return (await listRecords(repository.common)).filter((record) => record.root === root)
    },
    async lockMerges() {
      const repository = await repositoryOf()
      if ('missing' in repository) return undefined
      return tryFolderLock(join(repository.common, 'bellwether-merge.lock'))
    },
    ...snapshots(mustFind),
    ...merges(mustFind, place),
  }
}

/** Undefined: the worktree is not complete, or git does not know it any more. */
async function usablePlace(place: Place): Promise<UsablePlace | undefined> {
  const { record, branch } = place
  const gitDir = record.ready ? gitDirOf(place.repository.common, record.path) : undefined
  if (gitDir === undefined) return undefined
  const repository = inside(place.repository, record.path)
  const head = await commitOf(repository, 'HEAD')
  if (head === undefined && (await commitOf(repository, branch)) === undefined) return undefined
  return { ...place, repository, gitDir, head }
}

async function baseOf(repository: Repository, wanted: string | null, taskId: string): Promise<string> {
  if (wanted !== null) return `refs/heads/${wanted}`
  const { stdout, code } = await repository.git(['symbolic-ref', '-q', 'HEAD'], { answers: [0, 1, notFound] })
  if (code === 0) return stdout.trim()
  throw new InvalidInput(
    `Cannot make a worktree for task "${taskId}": no branch is checked out in ${repository.top} (HEAD is detached).`,
    {
      code: 'no_base',
      hint: 'Check out a branch, or name one: "base" of the task, the agent or the workspace policy.',
    },
  )
}

const baseGone = (taskId: string, base: string, { top }: Repository) =>
  new InvalidInput(`Cannot make a worktree for task "${taskId}": ${top} has no branch "${short(base)}".`, {
    code: 'base_gone',
    hint: `Create the branch, or name another one with bellwether task edit ${taskId} --base BRANCH.`,
  })

/** The branch of an open task moves with each of its runs: what another task merged into it would be lost. */
async function refuseTaskBranch({ common }: Repository, taskId: string, base: string): Promise<void> {
  const owner = base.startsWith(branchPrefix) ? await readRecord(common, base.slice(branchPrefix.length)) : undefined
  if (owner === undefined) return
  throw new InvalidInput(
    `Cannot make a worktree for task "${taskId}": its base "${short(base)}" is the branch of task "${owner.taskId}", which is not finished.`,
    {
      code: 'base_of_task',
      hint: `To build on its change, start after it: bellwether task edit ${taskId} --base ${short(owner.base)} --after ${owner.taskId}`,
    },
  )
}

/** Removes the folder of a worktree and its entry in the repository. */
async function dropFolder(repository: Repository, path: string): Promise<void> {
  // The folder first: git refuses a folder whose `worktree add` was killed, but not one that is gone.
  await rm(path, { recursive: true, force: true })
  if (isRegistered(repository.common, path))
    await repository.git(['worktree', 'remove', '--force', '--force', path], { writes: true })
}

/** Keeps commits of a detached HEAD that are neither on the branch of the task nor merged. */
async function keepHead(place: UsablePlace, merged: readonly string[]): Promise<void> {
  const { repository, record, branch, name } = place
  // Read again: the commit may have been among the objects that the repository did not have yet.
  const head = await commitOf(repository, 'HEAD')
  if (head === undefined || merged.includes(head)) return
  for (const ref of [branch, record.base]) if (await isIn(repository, head, ref)) return
  await repository.git(['update-ref', `refs/bellwether/kept/${name}/${head.slice(0, 12)}`, head], { writes: true })
}

/** A branch of our name that no record explains keeps its commits under another name. */
async function keepAway({ git }: Repository, name: string, branch: string, tip: string): Promise<void> {
  await git(['update-ref', `refs/bellwether/kept/${name}/${tip.slice(0, 12)}`, tip], { writes: true })
  await git(['update-ref', '-d', branch, tip], { writes: true })
}
