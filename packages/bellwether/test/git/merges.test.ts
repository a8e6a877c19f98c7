/** Merges of the worktrees of tasks on real repositories. */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { newRepository, repositoryAt, temporaryFolder } from '../support/git-repository.js'
import { committed, merged, opened, task, worktreesOf } from './task-worktrees.js'

describe('merges of worktrees', () => {
  it('rebases onto a base that moved and updates the files of the project folder', async () => {
    const repository = await newRepository()
    const worktrees = await worktreesOf(repository)
    const { root } = await opened(worktrees)
    writeFileSync(join(root, 'b.txt'), 'agent')
    const person = repository.commit('person', { 'c.txt': 'person' })
    repository.write('notes.txt', 'not committed')
    repository.write('a.txt', 'edited, not committed\n')
    expect(await merged(worktrees)).toBe('published')
    expect(repository.git('log', '--format=%an %s', 'main').split('\n').slice(0, 2)).toEqual([
      'coder T-1: work',
      'ann person',
    ])
    expect(repository.git('rev-parse', 'main~1')).toBe(person)
    expect(readFileSync(join(repository.path, 'b.txt'), 'utf8')).toBe('agent')
    expect(repository.git('status', '--porcelain')).toBe(' M a.txt\n?? notes.txt')
    expect(await worktrees.close(task('T-1'), { merged: [], isFinal: false })).toBe(true)
    expect(repository.git('branch', '--list', 'bellwether/*')).toBe('')
    expect(repository.git('worktree', 'list').split('\n')).toHaveLength(1)
    expect(existsSync(root)).toBe(false)
    expect(await worktrees.list()).toEqual([])
  })

  it('never overwrites uncommitted changes of the project folder, and names the files', async () => {
    const repository = await newRepository()
    const worktrees = await worktreesOf(repository)
    const { root } = await opened(worktrees)
    writeFileSync(join(root, 'a.txt'), 'agent\n')
    writeFileSync(join(root, 'new.txt'), 'agent\n')
    const before = repository.git('rev-parse', 'main')
    for (const [file, text] of [
      ['a.txt', 'mine\n'],
      ['new.txt', 'mine, untracked\n'],
    ] as const) {
      repository.write(file, text)
      const { commit } = await committed(worktrees)
      const candidate = await worktrees.rebase(task('T-1'), commit)
      if (candidate.is !== 'candidate') throw new Error(candidate.is)
      expect(await worktrees.publish(task('T-1'), candidate)).toEqual({
        is: 'dirty',
        files: [file],
        folder: repository.path,
      })
      expect(readFileSync(join(repository.path, file), 'utf8')).toBe(text)
      expect(repository.git('rev-parse', 'main')).toBe(before)
      if (file === 'a.txt') repository.git('checkout', 'a.txt')
      else rmSync(join(repository.path, file))
    }
    expect(await merged(worktrees)).toBe('published')
  })

  it('does not move a base that moved after the candidate was made, and merges a base that is not checked out', async () => {
    const repository = await newRepository()
    repository.git('branch', 'release')
    const worktrees = await worktreesOf(repository)
    const { root } = await opened(worktrees, 'T-1', 'release')
    writeFileSync(join(root, 'b.txt'), 'b')
    const { commit } = await committed(worktrees)
    const candidate = await worktrees.rebase(task('T-1'), commit)
    if (candidate.is !== 'candidate') throw new Error(candidate.is)
    const moved = repository.commit('person', { 'c.txt': 'c' })
    repository.git('update-ref', 'refs/heads/release', moved)
    expect(await worktrees.publish(task('T-1'), candidate)).toEqual({ is: 'moved' })
    expect(await merged(worktrees)).toBe('published')
    expect(repository.git('ls-tree', '--name-only', 'release').split('\n')).toEqual(['a.txt', 'b.txt', 'c.txt'])
    expect(existsSync(join(repository.path, 'b.txt'))).toBe(false)
    // The same on the branch that is checked out.
    const { root: second } = await opened(worktrees, 'T-2')
    writeFileSync(join(second, 'd.txt'), 'd')
    const later = await worktrees.rebase(task('T-2'), (await committed(worktrees, 'T-2')).commit)
    if (later.is !== 'candidate') throw new Error(later.is)
    repository.commit('person again', { 'e.txt': 'e' })
    expect(await worktrees.publish(task('T-2'), later)).toEqual({ is: 'moved' })
    expect(existsSync(join(repository.path, 'd.txt'))).toBe(false)
    expect(repository.git('status', '--porcelain')).toBe('')
  })

  it('does not move a base while a person rebases it, and merges when the rebase has ended', async () => {
    const repository = await newRepository()
    const worktrees = await worktreesOf(repository)
    const { root } = await opened(worktrees)
    writeFileSync(join(root, 'b.txt'), 'agent')
    const git = (...args: string[]) => repository.git(...args)
    git('branch', 'other')
    repository.commit('mine', { 'a.txt': 'mine' })
    git('checkout', '-q', 'other')
    repository.commit('theirs', { 'a.txt': 'theirs' })
    git('checkout', '-q', 'main')
    const before = git('rev-parse', 'main')
    expect(() => git('rebase', '-q', 'other')).toThrow('Command failed')
    const { commit } = await committed(worktrees)
    const merge = async () => {
      const candidate = await worktrees.rebase(task('T-1'), commit)
      return candidate.is === 'candidate' ? worktrees.publish(task('T-1'), candidate) : candidate
    }
    await expect(merge()).rejects.toThrow(`a rebase of its base branch "main" is in progress in ${repository.path}`)
    expect(git('rev-parse', 'main')).toBe(before)
    repository.write('a.txt', 'both')
    git('add', 'a.txt')
    git('-c', 'core.editor=true', 'rebase', '--continue')
    expect(await merge()).toEqual({ is: 'published' })
    expect(git('log', '--format=%s', 'main').split('\n')).toEqual(['T-1: work', 'mine', 'theirs', 'start'])
    expect(git('status', '--porcelain')).toBe('')
  })

  it('merges into a base whose worktree a person has deleted', async () => {
    const repository = await newRepository()
    repository.git('branch', 'dev')
    const folder = join(await temporaryFolder(), 'dev')
    repository.git('worktree', 'add', '-q', folder, 'dev')
    const worktrees = await worktreesOf(repository)
    const { root } = await opened(worktrees, 'T-1', 'dev')
    writeFileSync(join(root, 'b.txt'), 'agent')
    rmSync(folder, { recursive: true })
    expect(await merged(worktrees)).toBe('published')
    expect(repository.git('show', 'dev:b.txt')).toBe('agent')
  })

  it('names the files of a conflict and leaves the work as it was; a conflict that the agent resolved by a merge is not repeated', async () => {
    const repository = await newRepository()
    const worktrees = await worktreesOf(repository)
    const { root } = await opened(worktrees)
    writeFileSync(join(root, 'a.txt'), 'agent\n')
    repository.commit('person', { 'a.txt': 'person\n' })
    const { commit } = await committed(worktrees)
    expect(await worktrees.rebase(task('T-1'), commit)).toMatchObject({ is: 'conflict', files: ['a.txt'] })
    const inside = repositoryAt(root)
    expect(inside.git('rev-parse', 'HEAD', 'bellwether/T-1').split('\n')).toEqual([commit, commit])
    expect(() => inside.git('merge', 'main')).toThrow('Command failed')
    inside.commit('resolved', { 'a.txt': 'both\n' })
    repository.commit('person elsewhere', { 'z.txt': 'z' })
    expect(await merged(worktrees)).toBe('published')
    expect(readFileSync(join(repository.path, 'a.txt'), 'utf8')).toBe('both\n')
  })

  it('continues after a rebase that was killed, and finds a change that is on the base already', async () => {
    const repository = await newRepository()
    const worktrees = await worktreesOf(repository)
    const { root } = await opened(worktrees)
    const inside = repositoryAt(root)
    inside.commit('one', { 'b.txt': '1' })
    inside.commit('two', { 'b.txt': '2' })
    repository.commit('person', { 'c.txt': 'c' })
    const { commit } = await committed(worktrees)
    const first = await worktrees.rebase(task('T-1'), commit)
    // As a kill leaves it: in the middle of a rebase, with HEAD detached.
    inside.git('checkout', '-q', '--detach', 'main')
    inside.git('update-ref', 'refs/heads/bellwether/T-1', commit)
    inside.git('checkout', '-q', 'bellwether/T-1')
    expect(() =>
      inside.git('-c', 'sequence.editor=sed -i s/^pick/break\\npick/', 'rebase', '-i', '--exec', 'false', 'main'),
    ).toThrow('Command failed')
    const second = await worktrees.rebase(task('T-1'), commit)
    expect([first.is, second.is]).toEqual(['candidate', 'candidate'])
    if (second.is !== 'candidate') return
    expect(await worktrees.publish(task('T-1'), second)).toEqual({ is: 'published' })
    expect(await worktrees.isMerged(task('T-1'), ['0'.repeat(40), second.commit])).toBe(true)
    expect(await worktrees.rebase(task('T-1'), second.commit)).toMatchObject({ is: 'merged' })
    expect(repository.git('for-each-ref', 'refs/bellwether')).toBe('')
    expect(await worktrees.close(task('T-1'), { merged: [commit], isFinal: true })).toBe(true)
  })

  it('never deletes commits that are not merged, nor changes that a person left in the worktree', async () => {
    const repository = await newRepository()
    const worktrees = await worktreesOf(repository)
    const { root } = await opened(worktrees)
    writeFileSync(join(root, 'b.txt'), 'b')
    const { commit } = await committed(worktrees)
    writeFileSync(join(root, 'late.txt'), 'late')
    expect(await worktrees.close(task('T-1'), { merged: [], isFinal: false })).toBe(false)
    expect(existsSync(root)).toBe(false)
    expect(repository.git('rev-parse', 'bellwether/T-1')).toBe(commit)
    const kept = repository.git('for-each-ref', '--format=%(refname)', 'refs/bellwether/kept')
    expect(repository.git('show', `${kept}:late.txt`)).toBe('late')
    expect(existsSync(join((await opened(worktrees)).root, 'b.txt'))).toBe(true)
  })

  it('keeps a commit that a sandboxed agent left outside its branch, with its objects', async () => {
    const repository = await newRepository()
    const worktrees = await worktreesOf(repository)
    await opened(worktrees)
    const late = repository.git('commit-tree', '-m', 'late', '-p', 'HEAD', 'HEAD^{tree}')
    // In the sandbox, new objects are in a folder of the worktree, and HEAD is detached.
    const gitDir = join(repository.path, '.git/worktrees/T-1')
    const folder = join(gitDir, 'bellwether-objects', late.slice(0, 2))
    mkdirSync(folder, { recursive: true })
    const object = join(late.slice(0, 2), late.slice(2))
    renameSync(join(repository.path, '.git/objects', object), join(gitDir, 'bellwether-objects', object))
    writeFileSync(join(gitDir, 'HEAD'), `${late}\n`)
    await worktrees.close(task('T-1'), { merged: [], isFinal: true })
    expect(repository.git('for-each-ref', '--format=%(objectname)', 'refs/bellwether/kept')).toBe(late)
    expect(repository.git('fsck', '--no-dangling')).toBe('')
  })
})
