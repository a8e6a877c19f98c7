/**
 * What a sandboxed program may change in a git repository: nothing in the project's own, and in the worktree of a task only what a commit needs.
 * There the repository is read-only, too: new objects go into a folder of the worktree, HEAD is detached, and Bellwether takes both over
 * after the run (ports/git/adopt.ts). So no program can plant hooks, settings or links that git would follow, or change another branch.
 */
import {
  existsSync,
  lchownSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join, resolve } from 'node:path'
import { newObjects, removePlanted } from '../../git/adopt.js'
import { runGit } from '../../git/git.js'
import { ownerOf } from '../../git/repository.js'
import { topOf } from '../../git/workspace-folder.js'
import type { Account } from '../scratch.js'
import { readOnly, writable, type Mount } from './mounts.js'

// Where the objects of the repository are in the sandbox of a worktree.
const sharedObjects = '/run/bellwether/objects'
const gitMs = 30_000
const headMaxBytes = 4_096

/** Mounts below the workspace. `isTask`: the folder is in a worktree that Bellwether made for a task. */
export async function gitMounts(folder: string, isTask: boolean, account?: Account): Promise<readonly Mount[]> {
  const top = topOf(folder)
  if (top === undefined) return []
  const link = join(top, '.git')
  if (statSync(link).isDirectory()) return [readOnly(link)]
  const target = /^gitdir: (.+)$/m.exec(readFileSync(link, 'utf8'))?.[1]
  const gitDir = target === undefined ? undefined : resolve(top, target)
  if (gitDir === undefined || !existsSync(gitDir)) return [readOnly(link)]
  const shared = join(gitDir, 'commondir')
  const common = existsSync(shared) ? resolve(gitDir, readFileSync(shared, 'utf8').trim()) : gitDir
  const parts = isTask ? await taskMounts(top, gitDir, common, account) : []
  return [readOnly(common), readOnly(gitDir), ...parts, readOnly(link)]
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
