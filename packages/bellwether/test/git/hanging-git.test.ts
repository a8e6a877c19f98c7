/** Git commands that hang or are killed, in real repositories. */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { runGit } from '../../src/ports/git/git.js'
import { newRepository, temporaryFolder } from '../support/git-repository.js'
import { until } from '../support/until.js'
import { by, committed, opened, task, worktreesOf } from './task-worktrees.js'

const isRunning = (pid: string) => {
  const state = existsSync(`/proc/${pid}/stat`) ? readFileSync(`/proc/${pid}/stat`, 'utf8') : '(gone) Z'
  return !state.includes(') Z')
}

it('removes the locks of git commands that were killed in the worktree, but not while one runs there', async () => {
  const repository = await newRepository()
  const worktrees = await worktreesOf(repository)
  const { root } = await opened(worktrees)
  const locks = ['worktrees/T-1/index.lock', 'worktrees/T-1/HEAD.lock', 'refs/heads/bellwether/T-1.lock']
  const leaveLocks = () => locks.forEach((name) => writeFileSync(join(repository.path, '.git', name), ''))
  const left = () => locks.filter((name) => existsSync(join(repository.path, '.git', name)))
  leaveLocks()
  // It waits for its input.
  const running = spawn('git', ['cat-file', '--batch'], { cwd: root, stdio: ['pipe', 'pipe', 'inherit'] })
  running.stdin.write('HEAD\n')
  await once(running.stdout, 'data')
  await expect(worktrees.snapshot(task('T-1'), by)).rejects.toMatchObject({
    code: 'git_busy',
    hint: expect.stringContaining('worktrees/T-1/index.lock'),
  })
  expect(left()).toEqual(locks)
  running.stdin.end()
  await once(running, 'close')
  writeFileSync(join(root, 'b.txt'), 'b')
  const { commit } = await committed(worktrees)
  expect(left()).toEqual([])
  leaveLocks()
  expect(await worktrees.rebase(task('T-1'), commit)).toMatchObject({ is: 'candidate' })
  leaveLocks()
  await opened(worktrees)
  expect(left()).toEqual([])
  leaveLocks()
  await worktrees.close(task('T-1'), { merged: [commit], isFinal: true })
  expect(left()).toEqual([])
})

it('stops a git command that hangs', async () => {
  const repository = await newRepository()
  const pipe = join(await temporaryFolder(), 'pipe')
  execFileSync('mkfifo', [pipe])
  repository.git('config', 'include.path', pipe)
  const worktrees = await worktreesOf(repository, repository.path, 200)
  await expect(worktrees.open(task('T-1'), null)).rejects.toMatchObject({ code: 'git_timeout' })
})

it('stops a hanging git command so that it removes its lock file, and kills everything that it started', async () => {
  const { path } = await newRepository()
  const folder = await temporaryFolder()
  const pipe = join(folder, 'pipe')
  execFileSync('mkfifo', [pipe])
  // Opened for both: git then waits for a line.
  const held = openSync(pipe, 'r+')
  onTestFinished(() => closeSync(held))
  // A child that ignores SIGTERM, and git with the lock of the index.
  const script = `sh -c 'trap "" TERM; echo $$ > ${folder}/pid; while :; do sleep 1; done' > /dev/null 2>&1 &
    git update-index --stdin < ${pipe}`
  const call = runGit({ args: [], script, cwd: path, timeoutMs: 1_000 })
  await expect(call).rejects.toMatchObject({ code: 'git_timeout' })
  expect(existsSync(join(path, '.git/index.lock'))).toBe(false)
  const pid = existsSync(join(folder, 'pid')) ? readFileSync(join(folder, 'pid'), 'utf8').trim() : 'none'
  await until('the child has ended', async () => (isRunning(pid) ? undefined : true))
})
