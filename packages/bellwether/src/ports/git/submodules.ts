/**
 * Submodules in the worktrees of tasks. A submodule that the project has checked out is cloned from the project, without the network; what an
 * agent commits in it is copied back before the worktree goes. Nested submodules are left empty.
 */
import { access } from 'node:fs/promises'
import { join } from 'node:path'
import { hasCode } from '@bellwether/base'
import { localTransport } from './git.js'
import { commitOf, items, type Repository } from './repository.js'

interface Submodule {
  readonly name: string
  readonly path: string
  /** The project's own copy. */
  readonly store: string
}

async function exists(path: string): Promise<boolean> {
  try {
    await access(path)
    return true
  } catch (error) {
    if (hasCode(error, 'ENOENT', 'ENOTDIR')) return false
    throw error
  }
}

/** The submodules of a worktree whose commits the project has. */
async function submodulesOf({ git, common }: Repository, worktree: string): Promise<readonly Submodule[]> {
  if (!(await exists(join(worktree, '.gitmodules')))) return []
  const args = ['config', '-z', '-f', '.gitmodules', '--get-regexp', String.raw`^submodule\..*\.path$`]
  const { stdout } = await git(args, { cwd: worktree, answers: [0, 1] })
  const found: Submodule[] = []
  for (const item of items(stdout)) {
    const [key = '', path = ''] = item.split('\n')
    const name = key.slice('submodule.'.length, -'.path'.length)
    // The name is a path below .git/modules: one that leads out is not ours to follow.
    if (name.split('/').includes('..') || path.split('/').includes('..') || path.startsWith('/')) continue
    const store = join(common, 'modules', name)
    if ((await exists(store)) && (await isComplete(git, store))) found.push({ name, path, store })
  }
  return found
}

export async function checkOutSubmodules(repository: Repository, worktree: string): Promise<void> {
  for (const { name, path, store } of await submodulesOf(repository, worktree)) {
    await repository.git(['submodule', 'update', '-q', '--init', '--checkout', '--', path], {
      cwd: worktree,
      writes: true,
      env: localTransport,
      config: [[`submodule.${name}.url`, store]],
    })
  }
}

/** Commits what is left in the submodules, and copies their commits to the project. */
export async function keepSubmodules(
  repository: Repository,
  worktree: string,
  { message, env }: { readonly message: string; readonly env: Readonly<Record<string, string>> },
): Promise<void> {
  const { git } = repository
  for (const { path, store } of await submodulesOf(repository, worktree)) {
    const cwd = join(worktree, path)
    if (!(await exists(join(cwd, '.git')))) continue
    await addAll(repository, cwd, await readIndex(repository, cwd))
    const { code } = await git(['diff', '--cached', '--quiet'], { cwd, answers: [0, 1] })
    if (code === 1) await git(['commit', '-q', '--no-verify', '-m', message], { cwd, env, writes: true })
    const head = (await git(['rev-parse', 'HEAD'], { cwd })).stdout.trim()
    if ((await commitOf(repository, head, store)) === undefined)
      await git(['fetch', '-q', cwd, `HEAD:refs/bellwether/${head}`], {
        cwd: store,
        writes: true,
        env: { ...localTransport, GIT_DIR: store },
      })
  }
}

/** Whether the store has all its objects. One that fetches missing ones could name a program for it, which the server side of git starts. */
async function isComplete(git: Repository['git'], store: string): Promise<boolean> {
  const args = ['config', '--name-only', '--get-regexp', String.raw`^(remote\..*\.promisor|extensions\.partialclone)$`]
  return (await git(args, { cwd: store, env: { GIT_DIR: store }, answers: [0, 1] })).code === 1
}

const isSubmodule = '160000'

/** What git has staged. A file with a conflict has up to three stages other than 0. */
export type Index = readonly {
  readonly mode: string
  readonly id: string
  readonly stage: number
  readonly path: string
}[]

export async function readIndex({ git }: Repository, cwd: string): Promise<Index> {
  return items((await git(['ls-files', '-sz'], { cwd })).stdout).map((entry) => {
    const [, mode = '', id = '', stage = '0', path = ''] = /^(\d+) ([0-9a-f]+) (\d)\t(.*)$/s.exec(entry) ?? []
    return { mode, id, stage: Number(stage), path }
  })
}

/**
 * `git add -A`, which does not look into repositories inside the worktree: git would run their filters. What they have checked out is
 * recorded all the same.
 */
export async function addAll(repository: Repository, cwd: string, index: Index): Promise<void> {
  const { git } = repository
  const inner: { readonly path: string; readonly before: string }[] = []
  for (const { mode, id, path } of index)
    if (mode === isSubmodule && (await exists(join(cwd, path, '.git')))) inner.push({ path, before: id })
  await git(['add', '-A', '--', '.', ...inner.map(({ path }) => `:(exclude,literal)${path}`)], { cwd, writes: true })
  for (const { path, before } of inner) {
    const head = await commitOf(repository, 'HEAD', join(cwd, path))
    if (head !== undefined && head !== before)
      await git(['update-index', '--cacheinfo', `${isSubmodule},${head},${path}`], { cwd, writes: true })
  }
}
