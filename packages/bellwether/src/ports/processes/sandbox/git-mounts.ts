/**
 * What a sandboxed program may change in a git repository: nothing in the project's own, and in the worktree of a task only what a commit needs.
 * There the repository is read-only, too: new objects go into a folder of the worktree, HEAD is detached, and Bellwether takes both over
 * after the run (ports/git/adopt.ts). So no program can plant hooks, settings or links that git would follow, or change another branch.
 */
import {
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { newObjects, removePlanted } from '../../git/adopt.js'
import { runGit } from '../../git/git.js'
import { ownerOf } from '../../git/repository.js'
import type { Account } from '../scratch.js'
import { readOnly, realOf, writable, type Mount } from './mounts.js'

// Where the objects of the repository are in the sandbox of a worktree.
const sharedObjects = '/run/bellwether/objects'
const gitMs = 30_000
const headMaxBytes = 4_096
// The configuration of a submodule is the longest.
const linkMaxBytes = 65_536

interface Repository {
  readonly gitDir: string
  /** What all worktrees share. */
  readonly common: string
}

/**
 * Mounts below the workspace. `top`: the folder with `.git`. `repository`: that of the project, if the folder is in a worktree that Bellwether made
 * for a task, which may commit.
 */
export async function gitMounts(top: string, repository?: string, account?: Account): Promise<readonly Mount[]> {
  const link = join(top, '.git')
  const found = lstatSync(link)
  if (found.isDirectory()) return [readOnly(link)]
  // No mount can cover a link: its target would be mounted.
  if (!found.isFile()) return []
  const linked = repositoryBehind(link)
  if (linked === undefined) return [readOnly(link)]
  const { gitDir, common } = linked
  const parts = common === repository ? await taskMounts(top, gitDir, common, account) : []
  return [readOnly(common), readOnly(gitDir), ...parts, readOnly(link)]
}

/**
 * The repository of a `.git` file. A program may have written the file, to see the folder that it names: so that folder must name the file, too, as
 * worktrees and submodules do.
 */
function repositoryBehind(link: string): Repository | undefined {
  const gitDir = pathIn(link, /^gitdir: (.+)$/m)
  if (gitDir === undefined) return undefined
  const common = pathIn(join(gitDir, 'commondir'), /^(.+)$/m)
  if (common !== undefined) {
    const isNamed = pathIn(join(gitDir, 'gitdir'), /^(.+)$/m) === realpathSync(link)
    const isShared = dirname(dirname(gitDir)) === common && lstatSync(join(common, 'objects')).isDirectory()
    return isNamed && isShared ? { gitDir, common } : undefined
  }
  const workTree = pathIn(join(gitDir, 'config'), /^\s*worktree = (.+)$/m)
  return workTree === realpathSync(dirname(link)) ? { gitDir, common: gitDir } : undefined
}

/** The real path that a small file names, relative to its folder; undefined: none exists. */
function pathIn(file: string, pattern: RegExp): string | undefined {
  const found = lstatSync(file, { throwIfNoEntry: false })
  if (found?.isFile() !== true || found.size > linkMaxBytes) return undefined
  const named = pattern.exec(readFileSync(file, 'utf8'))?.[1]
  return named === undefined ? undefined : realOf(resolve(dirname(file), named.trim()))
}

async function taskMounts(top: string, gitDir: string, common: string, account?: Account): Promise<readonly Mount[]> {
  removePlanted(gitDir)
  const objects = newObjects(gitDir)
  rmSync(join(objects, 'info'), { recursive: true, force: true })
  for (const folder of [objects, join(objects, 'info')]) {
    mkdirSync(folder, { recursive: true })
    if (account !== undefined) lchownSync(folder, account.uid, account.gid)
  }
  writeFileSync(join(objects, 'info', 'alternates'), `${sharedObjects}\n`, { flag: 'wx' })
  // A program could make it otherwise. An empty one changes nothing.
  if (!existsSync(join(gitDir, 'config.worktree'))) writeFileSync(join(gitDir, 'config.worktree'), '', { flag: 'wx' })
  await detach(top, gitDir)
  return [
    readOnly(join(common, 'objects'), sharedObjects),
    writable(objects, join(common, 'objects')),
    writable(gitDir),
    ...existing(gitDir, ['commondir', 'gitdir', 'config.worktree']),
    ...submodules(join(gitDir, 'modules')),
  ]
}

const existing = (folder: string, names: readonly string[]) =>
  names
    .map((name) => join(folder, name))
    .filter(existsSync)
    .map((path) => readOnly(path))

/** Settings and hooks of the submodules of a worktree. */
function submodules(folder: string): readonly Mount[] {
  if (!existsSync(folder)) return []
  return readdirSync(folder).flatMap((name) => existing(join(folder, name), ['config', 'hooks', 'info']))
}

/** Commits then change HEAD alone, which belongs to the worktree, and no branch. */
async function detach(top: string, gitDir: string): Promise<void> {
  const head = join(gitDir, 'HEAD')
  const { uid, gid, size } = statSync(head)
  // A longer one is not of git, which reports it.
  if (size > headMaxBytes || !readFileSync(head, 'utf8').startsWith('ref:')) return
  const call = { cwd: top, timeoutMs: gitMs, owner: ownerOf(top), answers: [0, 1] }
  const { stdout, code } = await runGit({ ...call, args: ['rev-parse', '-q', '--verify', 'HEAD^{commit}'] })
  if (code !== 0) return
  const fresh = `${head}.bellwether`
  rmSync(fresh, { recursive: true, force: true })
  writeFileSync(fresh, stdout, { flag: 'wx' })
  if (process.geteuid?.() === 0) lchownSync(fresh, uid, gid)
  renameSync(fresh, head)
}
