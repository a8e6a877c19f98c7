/** The diff of a task in a worktree, as the board shows it: before and after the merge, and after its commits are gone. */
import { describe, expect, it } from 'vitest'
import { mergeQueued } from '../../../src/board/dispatch/merge.js'
import { openChanges } from '../../../src/board/dispatch/evidence/read-changes.js'
import { mergeTask } from '../../../src/board/tasks/merge-commands.js'
import { gitHistory, type GitHistory } from '../../../src/ports/git.js'
import { created, operator, put, taskOf } from '../../support/board/dispatcher.js'
import { place, ran, writing, type Place } from '../../support/board/worktree-place.js'
import { quietLog as log } from '../../support/quiet-log.js'

const changesOf = async (at: Place, git: GitHistory = gitHistory(at.repository.path)) =>
  openChanges({ git, log })(await taskOf(at.world))

describe('the changes of a task in a worktree', () => {
  it('are a diff against the commit that the task was made from, while they wait for a person and after the merge', async () => {
    const at = await place({ merge: 'review' })
    const commit = at.repository.git('rev-parse', 'main')
    await put(at.world, created('T-1'))
    expect((await ran(at, writing({ 'a.txt': 'two\n', 'b.txt': 'new\n' }))).status).toBe('review')
    const shown = {
      commit,
      note: null,
      isCut: false,
      files: [
        { path: 'a.txt', change: 'changed', claimed: true },
        { path: 'b.txt', change: 'added', claimed: true },
      ],
      diff: [
        '--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two',
        '--- /dev/null\n+++ b/b.txt\n@@ -0,0 +1 @@\n+new',
      ].join('\n'),
    }
    expect(await changesOf(at)).toMatchObject(shown)
    // The base moves, so the change is rebased, and no branch has the accepted commit after the merge.
    at.repository.commit('other', { 'c.txt': 'c\n' })
    await mergeTask(operator(at.world), 'T-1', { by: 'ann' })
    await mergeQueued(at.dispatcher(), at.world.policies)
    expect((await taskOf(at.world)).status).toBe('done')
    at.repository.git('reflog', 'expire', '--expire=now', '--all')
    at.repository.git('gc', '-q', '--prune=now')
    expect(await changesOf(at)).toMatchObject({ ...shown, commit })
  })

  it('are shown for a run that a check rejected', async () => {
    const at = await place()
    await put(at.world, created('T-1', { verify: ['make test'] }))
    at.world.verify = () => ({ exitCode: 1, output: 'not ok' })
    expect((await ran(at, writing({ 'b.txt': 'wrong\n' }))).status).toBe('blocked')
    expect(await changesOf(at)).toMatchObject({ diff: '--- /dev/null\n+++ b/b.txt\n@@ -0,0 +1 @@\n+wrong' })
  })

  it('are read from git once, and are a list with the reason if git fails or has removed the commits', async () => {
    const at = await place({ merge: 'review' })
    await put(at.world, created('T-1'))
    await ran(at, writing({ 'b.txt': 'new\n' }))
    const real = gitHistory(at.repository.path)
    let reads = 0
    const counted = {
      ...real,
      filesAt: (...args: Parameters<GitHistory['filesAt']>) => (reads++, real.filesAt(...args)),
    }
    const read = openChanges({ git: counted, log })
    const task = await taskOf(at.world)
    expect(await read(task)).toEqual(await read(task))
    expect(reads).toBe(2)
    expect(await changesOf(at, { ...real, hasCommits: async () => false })).toMatchObject({
      files: [{ path: 'b.txt' }],
      diff: null,
      note: 'the repository does not have the commits any more',
    })
    const failing = { ...real, hasCommits: () => Promise.reject(new Error('not readable')) }
    expect(await changesOf(at, failing)).toMatchObject({ diff: null, note: expect.stringContaining('not readable') })
  })
})
