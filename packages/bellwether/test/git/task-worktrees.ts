/** Opens, commits and merges the worktree of a task in a test. */
import { join } from 'node:path'
import { openWorktrees, type Worktree, type Worktrees } from '../../src/ports/git/worktrees.js'
import { temporaryFolder, type TestRepository } from '../support/git-repository.js'

export const task = (taskId: string) => ({ taskId, createdAt: '2026-01-01T00:00:00.000Z' })
export const by = { agent: 'coder', message: 'T-1: work' }

export async function worktreesOf(
  repository: TestRepository,
  root = repository.path,
  timeoutMs = 20_000,
): Promise<Worktrees> {
  return openWorktrees({ root, folder: join(await temporaryFolder(), 'worktrees'), timeoutMs })
}

export async function opened(worktrees: Worktrees, taskId = 'T-1', base: string | null = null): Promise<Worktree> {
  const worktree = await worktrees.open(task(taskId), base)
  if ('missing' in worktree) throw new Error(worktree.missing)
  return worktree
}

/** Commits what is in the worktree; fails if the agent left something unfinished. */
export async function committed(worktrees: Worktrees, taskId = 'T-1') {
  const snapshot = await worktrees.snapshot(task(taskId), by)
  if ('unfinished' in snapshot) throw new Error(snapshot.unfinished)
  return snapshot
}

/** Rebases and publishes. */
export async function merged(worktrees: Worktrees, taskId = 'T-1') {
  const { commit } = await committed(worktrees, taskId)
  const candidate = await worktrees.rebase(task(taskId), commit)
  if (candidate.is !== 'candidate') return candidate.is
  const published = await worktrees.publish(task(taskId), candidate)
  return published.is
}
