/** The worktrees of tasks on real repositories. */
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { workspaceOf } from '../../src/ports/git/workspace-folder.js'
import { openWorktrees } from '../../src/ports/git/worktrees.js'
import { newRepository, repositoryAt, temporaryFolder } from '../support/git-repository.js'
import { by, committed, merged, opened, task, worktreesOf } from './task-worktrees.js'

describe('worktrees of tasks', () => {
  it('makes a branch and a folder per task from the branch that is checked out, and adopts them when opened again', async () => {
    const repository = await newRepository()
    const worktrees = await worktreesOf(repository)
    const worktree = await opened(worktrees)
    expect(worktree).toMatchObject({
      branch: 'bellwether/T-1',
      base: 'main',
      fork: repository.git('rev-parse', 'main'),
    })
    expect(readFileSync(join(worktree.root, 'a.txt'), 'utf8')).toBe('one\n')
    expect(repository.git('status', '--porcelain')).toBe('')
    writeFileSync(join(worktree.root, 'half.txt'), 'half')
    expect(await opened(worktrees)).toEqual(worktree)
    expect(existsSync(join(worktree.root, 'half.txt'))).toBe(true)
    expect(await worktrees.find(task('T-2'))).toBeUndefined()
  })

  it('closes the folder of the worktrees to other accounts', async () => {
    const repository = await newRepository()
    const worktrees = await worktreesOf(repository)
    const { top } = await opened(worktrees)
    expect(statSync(dirname(top)).mode & 0o777).toBe(0o700)
  })

  it('makes the worktree again if its folder was deleted or is incomplete, with what was committed', async () => {
    const repository = await newRepository()
    const worktrees = await worktreesOf(repository)
    const { root } = await opened(worktrees)
    repositoryAt(root).commit('agent', { 'b.txt': 'b' })
    rmSync(root, { recursive: true })
    expect((await opened(worktrees)).root).toBe(root)
    expect(readFileSync(join(root, 'b.txt'), 'utf8')).toBe('b')
    // Killed in `worktree add`: the record says that the folder is not complete.
    const record = join(repository.path, '.git/bellwether/T-1.json')
    writeFileSync(record, readFileSync(record, 'utf8').replace('"ready":true', '"ready":false'))
    rmSync(join(root, '.git'))
    await opened(worktrees)
    expect(repositoryAt(root).git('status', '--porcelain')).toBe('')
    expect(repository.git('worktree', 'list').split('\n')).toHaveLength(2)
  })

  it('keeps the commits of a branch that belongs to an earlier task with the same id', async () => {
    const repository = await newRepository()
    const worktrees = await worktreesOf(repository)
    const { root } = await opened(worktrees)
    const old = repositoryAt(root).commit('old', { 'b.txt': 'b' })
    const again = await worktrees.open({ taskId: 'T-1', createdAt: '2026-02-02T00:00:00.000Z' }, null)
    expect(again).toMatchObject({ branch: 'bellwether/T-1' })
    expect(repository.git('rev-parse', 'bellwether/T-1')).toBe(repository.git('rev-parse', 'main'))
    expect(repository.git('for-each-ref', '--format=%(objectname)', 'refs/bellwether/kept')).toBe(old)
  })

  it('commits what the agent left, with the agent as author, and lists what the task changed', async () => {
    const repository = await newRepository({ 'a.txt': 'one\n', 'gone.txt': 'x' })
    const worktrees = await worktreesOf(repository)
    const { root } = await opened(worktrees)
    const inside = repositoryAt(root)
    inside.commit('own commit', { 'b.txt': 'b' })
    inside.write('c d.txt', 'c')
    rmSync(join(root, 'gone.txt'))
    const { commit, files } = await committed(worktrees)
    expect(files).toEqual([
      { path: 'b.txt', how: 'changed' },
      { path: 'c d.txt', how: 'changed' },
      { path: 'gone.txt', how: 'deleted' },
    ])
    expect(inside.git('log', '-1', '--format=%an|%ae|%cn|%s')).toBe(
      'coder|coder@agents.localhost.invalid|Bellwether|T-1: work',
    )
    expect(inside.git('status', '--porcelain')).toBe('')
    expect((await committed(worktrees)).commit).toBe(commit)
  })

  it('takes the commits of an agent that left HEAD elsewhere, and keeps what its branch had', async () => {
    const repository = await newRepository()
    const worktrees = await worktreesOf(repository)
    const { root } = await opened(worktrees)
    const inside = repositoryAt(root)
    const first = inside.commit('first', { 'b.txt': 'b' })
    inside.git('checkout', '-q', '--detach', 'main')
    inside.write('c.txt', 'c')
    const { files } = await committed(worktrees)
    expect(files.map(({ path }) => path)).toEqual(['c.txt'])
    expect(inside.git('symbolic-ref', 'HEAD')).toBe('refs/heads/bellwether/T-1')
    expect(repository.git('for-each-ref', '--format=%(objectname)', 'refs/bellwether/kept')).toBe(first)
  })

  it('reports a rebase or conflict that the agent did not finish', async () => {
    const repository = await newRepository()
    const worktrees = await worktreesOf(repository)
    const { root } = await opened(worktrees)
    const inside = repositoryAt(root)
    inside.commit('agent', { 'a.txt': 'agent\n' })
    repository.commit('person', { 'a.txt': 'person\n' })
    expect(() => inside.git('merge', 'main')).toThrow('Command failed')
    expect(await worktrees.snapshot(task('T-1'), by)).toEqual({ unfinished: 'conflicts are not resolved in a.txt' })
    inside.write('a.txt', 'both\n')
    await committed(worktrees)
    expect(inside.git('log', '-1', '--format=%P').split(' ')).toHaveLength(2)
    repository.commit('person again', { 'a.txt': 'person 2\n' })
    expect(() => inside.git('rebase', 'main')).toThrow('Command failed')
    expect(await worktrees.snapshot(task('T-1'), by)).toMatchObject({ unfinished: expect.stringContaining('rebase') })
  })

  it('refuses a base that does not exist, a detached HEAD without a base, and says when there is no git or no commit', async () => {
    const repository = await newRepository()
    const worktrees = await worktreesOf(repository)
    await expect(worktrees.open(task('T-1'), 'release')).rejects.toThrow('has no branch "release"')
    repository.git('checkout', '-q', '--detach')
    await expect(worktrees.open(task('T-1'), null)).rejects.toThrow('HEAD is detached')
    expect(await worktrees.open(task('T-1'), 'main')).toMatchObject({ base: 'main' })
    const empty = await newRepository({})
    expect(await (await worktreesOf(empty)).open(task('T-1'), null)).toEqual({
      missing: `the git repository ${empty.path} has no commits`,
    })
    const plain = await temporaryFolder()
    const none = openWorktrees({ root: plain, folder: join(plain, 'w'), timeoutMs: 20_000 })
    expect(await none.open(task('T-1'), null)).toEqual({ missing: `${plain} is not in a git repository with files` })
  })

  it('refuses the branch of an open task as a base, and accepts it when that task is finished', async () => {
    const repository = await newRepository()
    const worktrees = await worktreesOf(repository)
    const { root } = await opened(worktrees)
    writeFileSync(join(root, 'b.txt'), 'agent')
    await committed(worktrees)
    await expect(worktrees.open(task('T-2'), 'bellwether/T-1')).rejects.toMatchObject({
      message: expect.stringContaining('is the branch of task "T-1", which is not finished'),
      hint: expect.stringContaining('task edit T-2 --base main --after T-1'),
    })
    await worktrees.close(task('T-1'), { merged: [], isFinal: true })
    expect(await opened(worktrees, 'T-2', 'bellwether/T-1')).toMatchObject({ base: 'bellwether/T-1' })
  })

  it('works for a task root below the top of the repository, beside one at the top', async () => {
    const repository = await newRepository({ 'a.txt': 'one\n', 'sub/b.txt': 'b' })
    const worktrees = await worktreesOf(repository, join(repository.path, 'sub'))
    const top = await worktreesOf(repository)
    const worktree = await opened(worktrees)
    await opened(top)
    expect(worktree.branch).toBe('bellwether/sub--T-1')
    expect(existsSync(join(worktree.root, 'b.txt'))).toBe(true)
    writeFileSync(join(worktree.root, 'c.txt'), 'c')
    writeFileSync(join(worktree.top, 'a.txt'), 'two')
    const { files } = await committed(worktrees)
    expect(files.map(({ path }) => path)).toEqual(['../a.txt', 'c.txt'])
    expect(await worktrees.list()).toHaveLength(1)
  })
})

describe('the folder of a turn', () => {
  it('the folder of a turn is the project without a worktree, the same folder in a worktree of its repository, and nothing else', async () => {
    const repository = await newRepository({ 'app/a.txt': 'a' })
    const other = await newRepository()
    const worktrees = await worktreesOf(repository)
    const { top } = await opened(worktrees)
    const { top: foreign } = await opened(await worktreesOf(other))
    const app = join(repository.path, 'app')
    expect(workspaceOf(app, {})).toBe(app)
    expect(workspaceOf(app, { worktree: top })).toBe(join(top, 'app'))
    expect(workspaceOf(join(top, 'app'), { worktree: top })).toBe(join(top, 'app'))
    for (const worktree of [foreign, repository.path, '/', '/nonexistent', 7])
      expect(() => workspaceOf(app, { worktree })).toThrow('Cannot work in the worktree')
    expect(() => workspaceOf('/', { worktree: top })).toThrow('is not in a git repository')
  })
})

describe('git in a repository that is not trusted', () => {
  it('runs no hook, filter or merge driver of the repository, and checks out LFS pointers without a download', async () => {
    const pointer = 'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n'
    const repository = await newRepository({
      'a.txt': 'one\n',
      'big.bin': pointer,
      '.gitattributes': '*.txt filter=evil merge=evil diff=evil\n*.bin filter=lfs\n',
    })
    const mark = join(await temporaryFolder(), 'ran')
    const worktrees = await worktreesOf(repository)
    await opened(worktrees, 'T-0')
    const first = repository.git('rev-parse', 'main')
    const moved = repository.commit('person', { 'a.txt': 'zero\n'.repeat(5) })
    repository.git('reset', '-q', '--hard', first)
    for (const key of ['clean', 'smudge']) {
      repository.git('config', `filter.evil.${key}`, `sh -c 'touch ${mark}; cat'`)
      repository.git('config', `filter.lfs.${key}`, 'false')
    }
    for (const name of ['evil', 'lfs']) repository.git('config', `filter.${name}.required`, 'true')
    repository.git('config', 'merge.evil.driver', `touch ${mark}`)
    repository.git('config', 'core.fsmonitor', `touch ${mark}`)
    const hooks = [
      'post-checkout',
      'pre-commit',
      'pre-rebase',
      'post-rewrite',
      'reference-transaction',
      'post-index-change',
    ]
    for (const hook of hooks) {
      writeFileSync(join(repository.path, '.git/hooks', hook), `#!/bin/sh\ntouch ${mark}\nexit 1\n`, { mode: 0o755 })
    }
    const { root } = await opened(worktrees)
    expect(readFileSync(join(root, 'big.bin'), 'utf8')).toBe(pointer)
    writeFileSync(join(root, 'a.txt'), 'one\ntwo\n')
    writeFileSync(join(root, 'b.txt'), 'b\n')
    const { commit } = await committed(worktrees)
    // The person's commit arrives: both sides changed a.txt, for which the repository names a merge driver.
    writeFileSync(join(repository.path, '.git/refs/heads/main'), `${moved}\n`)
    expect(await worktrees.rebase(task('T-1'), commit)).toMatchObject({ is: 'conflict', files: ['a.txt'] })
    writeFileSync(join(repository.path, '.git/refs/heads/main'), `${first}\n`)
    expect(await merged(worktrees)).toBe('published')
    expect(readFileSync(join(repository.path, 'b.txt'), 'utf8')).toBe('b\n')
    expect(existsSync(mark)).toBe(false)
  })

  it('checks out submodules from the project, and keeps what the agent commits in them', async () => {
    const library = await newRepository({ 'lib.txt': 'lib' })
    const repository = await newRepository()
    repository.git('-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'add', library.path, 'lib')
    repository.commit('add the submodule')
    rmSync(library.path, { recursive: true })
    const worktrees = await worktreesOf(repository)
    const { root } = await opened(worktrees)
    expect(readFileSync(join(root, 'lib/lib.txt'), 'utf8')).toBe('lib')
    writeFileSync(join(root, 'lib/lib.txt'), 'changed')
    expect(await merged(worktrees)).toBe('published')
    await worktrees.close(task('T-1'), { merged: [], isFinal: false })
    const commit = repository.git('rev-parse', 'main:lib')
    expect(repositoryAt(join(repository.path, 'lib')).git('show', `${commit}:lib.txt`)).toBe('changed')
    expect(repository.git('fsck', '--no-dangling')).toBe('')
  })
})
