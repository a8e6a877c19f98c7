/**
 * Removes the lock files that killed git commands left in the worktree of a task. Git refuses to work while they exist, and no one else
 * removes them. Called while no run works in the worktree; a lock stays if a git command of a person runs there.
 */
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { basename, join } from 'node:path'
import { readProcesses } from '../processes/proc.js'
import { branchPrefix } from './place.js'
import { findRepository, type Repository } from './repository.js'
import { gitDirOf, topOf } from './workspace-folder.js'

// A killed command leaves a few; the rest goes at the next call.
const locksMax = 100
const gitMs = 30_000

export async function removeStaleLocks({ common, git }: Repository, worktree: string): Promise<void> {
  const gitDir = gitDirOf(common, worktree)
  if (gitDir === undefined) return
  // The branch is the only file outside the worktree's own part that the commands of a run change.
  const branchLock = join(common, `${branchPrefix}${basename(worktree)}.lock`)
  const locks = [...locksIn(gitDir), ...(existsSync(branchLock) ? [branchLock] : [])].slice(0, locksMax)
  if (locks.length === 0 || isGitRunningIn(worktree)) return
  // With the lock of the repository: then no git command of Bellwether runs.
  await git(locks, { script: 'rm -f -- "$@"', writes: true })
}

/** Before a run that starts in `workspace`: an earlier run of the task may have been killed. */
export async function clearWorkspace(root: string, workspace: string): Promise<void> {
  const worktree = workspace === root ? undefined : topOf(workspace)
  const repository = worktree === undefined ? undefined : await findRepository(root, gitMs)
  if (worktree !== undefined && repository !== undefined && 'git' in repository)
    await removeStaleLocks(repository, worktree)
}

/** Also those of submodules. */
function locksIn(folder: string): readonly string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return entry.name.endsWith('objects') ? [] : locksIn(path)
    return entry.isFile() && entry.name.endsWith('.lock') ? [path] : []
  })
}

function isGitRunningIn(worktree: string): boolean {
  return readProcesses().some(({ pid }) => {
    try {
      const cwd = readlinkSync(`/proc/${pid}/cwd`)
      if (cwd !== worktree && !cwd.startsWith(`${worktree}/`)) return false
      return readFileSync(`/proc/${pid}/comm`, 'latin1').startsWith('git')
    } catch {
      return false // it has ended, or belongs to another account
    }
  })
}
