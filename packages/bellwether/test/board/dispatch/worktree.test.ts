/** Tasks in git worktrees: from the run to the merge, on real repositories, the real fold and a fake kernel. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { dispatch } from '../../../src/board/dispatch/dispatch.js'
import { mergeQueued } from '../../../src/board/dispatch/merge.js'
import { sweepWorktrees } from '../../../src/board/dispatch/workspace.js'
import { changesOfTurn } from '../../../src/board/dispatch/evidence/worktree-work.js'
import { keepBranch, mergeTask, sendBack } from '../../../src/board/tasks/merge-commands.js'
import { abort } from '../../../src/board/tasks/operator-commands.js'
import { readiness } from '../../../src/board/tasks/ready.js'
import { finishTask, retryTask } from '../../../src/board/tasks/task-commands.js'
import { created, operator, policies, put, stateOf, taskOf } from '../../support/board/dispatcher.js'
import { never, place, writing, subjects, leftovers, nothingLeft, ran } from '../../support/board/worktree-place.js'
import { newRepository, repositoryAt } from '../../support/git-repository.js'

describe('a task in a worktree', () => {
  it('runs there, is checked there, and is merged into the branch that is checked out', async () => {
    const at = await place()
    await put(at.world, created('T-1', { verify: ['make test'] }))
    const seen: (string | undefined)[] = []
    const { verify } = at.dispatcher()
    const dispatcher = {
      ...at.dispatcher(),
      verify: (...args: Parameters<typeof verify>) => (seen.push(args[3]), verify(...args)),
    }
    at.world.kernel.script = writing({ 'b.txt': 'agent' })
    expect(await dispatch(dispatcher, 'T-1', never)).toMatchObject({ status: 'done' })
    const request = [...at.world.kernel.turns.values()][0]!.request
    expect(request.prompt).toContain('on the branch bellwether/T-1, made from main')
    expect(seen).toEqual([request.worktree!.root])
    expect(subjects(at)).toEqual(['T-1: Do T-1', 'start'])
    expect(at.repository.git('log', '-1', '--format=%an')).toBe('coder')
    expect(readFileSync(join(at.repository.path, 'b.txt'), 'utf8')).toBe('agent')
    expect(leftovers(at)).toEqual(nothingLeft)
    const { fields } = await taskOf(at.world)
    expect(fields['merged']).toMatchObject({ base: 'main', commit: at.repository.git('rev-parse', 'main') })
    expect(fields['evidence']).toMatchObject({ files: [{ path: 'b.txt' }] })
    expect(changesOfTurn(await taskOf(at.world), 'turn-1')).toEqual([{ path: 'b.txt', how: 'changed' }])
  })

  it('does not accept a file of the project folder, nor one that the task did not change', async () => {
    const at = await place()
    await put(at.world, created('T-1'))
    at.repository.write('only-here.txt', 'x')
    const report = await ran(at, () => ({ deliverable: { files: ['only-here.txt', 'a.txt'] } }))
    expect(report).toMatchObject({ status: 'blocked', spawn: { reasonCode: 'incomplete_output' } })
    expect(report.spawn?.error).toContain('only-here.txt is claimed but does not exist')
    expect(report.spawn?.error).toContain('a.txt has not changed')
  })

  it('continues in the same worktree after a failure, and counts what the earlier run changed', async () => {
    const at = await place()
    await put(at.world, created('T-1', { verify: ['make test'] }))
    at.world.verify = () => ({ exitCode: 1, output: 'not ok' })
    expect(await ran(at, writing({ 'b.txt': 'wrong' }))).toMatchObject({ status: 'blocked' })
    at.world.verify = () => ({})
    await retryTask({ ...operator(at.world), firstAgent: 'coder' }, 'T-1', { by: 'ann' })
    const again = await ran(at, (request) => {
      expect(readFileSync(join(request.worktree!.root, 'b.txt'), 'utf8')).toBe('wrong')
      return { deliverable: { files: ['b.txt'] } }
    })
    expect(again.status).toBe('done')
    expect(leftovers(at)).toEqual(nothingLeft)
  })

  it('takes the workspace from the task, else from the agent, else from the policy', async () => {
    const at = await place({ workspace: 'project' })
    await put(
      at.world,
      created('T-1'),
      created('T-2', { workspace: 'project' }),
      created('T-3', { workspace: 'worktree', base: 'gone' }),
    )
    const dispatcher = at.dispatcher()
    const agents = {
      ...dispatcher,
      spawner: {
        ...dispatcher.spawner,
        workspaceOf: async () => ({ workspace: 'worktree' as const, merge: 'never' as const }),
      },
    }
    at.world.files.set('b.txt', 'present')
    at.world.kernel.script = (request) =>
      request.worktree === undefined ? { deliverable: { files: ['b.txt'] } } : writing({ 'b.txt': 'b' })(request)
    for (const taskId of ['T-1', 'T-2']) expect((await dispatch(agents, taskId, never)).status).toBe('done')
    expect([...at.world.kernel.turns.values()].map(({ request }) => request.worktree !== undefined)).toEqual([
      true,
      false,
    ])
    expect(leftovers(at)).toEqual({ ...nothingLeft, branches: '  bellwether/T-1' })
    await expect(dispatch(agents, 'T-3', never)).rejects.toThrow('has no branch "gone"')
    expect(await taskOf(at.world, 'T-3')).toMatchObject({
      status: 'blocked',
      reason: expect.stringContaining('workspace_failed: '),
    })
    expect(at.world.alerts.map(({ kind }) => kind)).toEqual(['escalated'])
  })

  it('without commits runs in the project folder and says so, or refuses by the policy', async () => {
    const empty = await newRepository({})
    const at = await place({}, empty)
    await put(at.world, created('T-1'))
    at.world.files.set('b.txt', 'present')
    expect(await ran(at, () => ({ deliverable: { files: ['b.txt'] } }))).toMatchObject({ status: 'done' })
    expect((await taskOf(at.world)).fields['workspaceNote']).toContain('has no commits')
    const strict = await place({ withoutGit: 'refuse' }, empty)
    await put(strict.world, created('T-1'))
    await expect(ran(strict, () => ({}))).rejects.toThrow('has no commits')
    expect((await taskOf(strict.world)).status).toBe('blocked')
  })

  it('keeps the branch of a failed task, removes its worktree, and continues it after a retry', async () => {
    const at = await place()
    await put(at.world, created('T-1'))
    at.world.kernel.script = writing({ 'b.txt': 'half' })
    at.world.policies = {
      ...at.world.policies,
      acceptance: {
        ...at.world.policies.acceptance,
        default: { ...at.world.policies.acceptance.default, minFiles: 2 },
      },
    }
    expect((await dispatch(at.dispatcher(), 'T-1', never)).status).toBe('blocked')
    writeFileSync(join((await at.worktrees.find(await taskOf(at.world)))!.root, 'c.txt'), 'not committed')
    await abort(operator(at.world), 'T-1', { by: 'ann' })
    expect(await sweepWorktrees(at.dispatcher())).toBe(1)
    expect(leftovers(at)).toEqual({ ...nothingLeft, branches: '  bellwether/T-1' })
    await retryTask({ ...operator(at.world), firstAgent: 'coder' }, 'T-1', { by: 'ann' })
    const again = await ran(at, () => ({ deliverable: { files: ['b.txt', 'c.txt'] } }))
    expect(again.status).toBe('done')
    expect(leftovers(at)).toEqual(nothingLeft)
  })
})

describe('the merge of a task', () => {
  it('blocks a conflict with the files, and the same agent resolves it', async () => {
    const at = await place()
    await put(at.world, created('T-1'))
    const first = await ran(at, (request) => {
      at.repository.commit('person', { 'a.txt': 'person\n' })
      return writing({ 'a.txt': 'agent\n' })(request)
    })
    expect(first).toMatchObject({
      status: 'blocked',
      reason: expect.stringMatching(/^merge_conflict: main has changed the same lines of a\.txt/),
    })
    const second = await ran(at, (request) => {
      expect(request.agent).toBe('coder')
      expect(request.prompt).toContain('was not accepted: merge_conflict: main has changed')
      const inside = repositoryAt(request.worktree!.root)
      expect(() => inside.git('merge', 'main')).toThrow('Command failed')
      return writing({ 'a.txt': 'both\n' })(request)
    })
    expect(second.status).toBe('done')
    expect(readFileSync(join(at.repository.path, 'a.txt'), 'utf8')).toBe('both\n')
    expect(leftovers(at)).toEqual(nothingLeft)
  })

  it('checks the rebased tree again, and does not merge what fails there', async () => {
    const at = await place()
    await put(at.world, created('T-1', { verify: ['make test'] }))
    let isMoved = false
    at.world.verify = () =>
      isMoved
        ? { exitCode: 2, output: 'two tests failed' }
        : ((isMoved = true), at.repository.commit('person', { 'c.txt': 'c' }), {})
    const report = await ran(at, writing({ 'b.txt': 'agent' }))
    expect(report).toMatchObject({
      status: 'blocked',
      reason: expect.stringContaining('merge_check_failed: on top of main, verify command exited with 2'),
    })
    expect(subjects(at)).toEqual(['person', 'start'])
    at.world.verify = () => ({})
    await at.world.clock.advance(200_000)
    expect((await ran(at, () => ({ deliverable: { files: ['b.txt'] } }))).status).toBe('done')
    expect(subjects(at)).toEqual(['T-1: Do T-1', 'person', 'start'])
  })

  it('waits for a person with merge: review, who merges, sends back or keeps the change', async () => {
    const at = await place({ merge: 'review' })
    await put(at.world, created('T-1'), created('T-2'), created('T-3', { review: true, merge: 'auto' }))
    for (const taskId of ['T-1', 'T-2', 'T-3'])
      expect((await ran(at, writing({ [`${taskId}.txt`]: 'agent' }), taskId)).status).toBe('review')
    const state = await stateOf(at.world)
    const waits = readiness(state.tasks.get('T-1')!, state, 0, { firstAgent: 'coder', recovery: policies.recovery })
    expect(waits).toMatchObject({ code: 'merge', why: expect.stringContaining('merge into main, send back or keep') })
    await expect(finishTask(operator(at.world), 'T-1', 'ann', { evidence: null })).rejects.toThrow(
      'its change is not merged',
    )
    await mergeTask(operator(at.world), 'T-1', { by: 'ann' })
    await expect(mergeTask(operator(at.world), 'T-1', { by: 'ann' })).rejects.toThrow('already being merged')
    expect(await mergeQueued(at.dispatcher(), at.world.policies)).toEqual([{ taskId: 'T-1', what: 'merged' }])
    await sendBack(operator(at.world), 'T-2', { by: 'ann', reason: 'add tests' })
    const again = await ran(
      at,
      (request) => {
        expect(request.prompt).toContain('ann sent the change back: add tests')
        return { deliverable: { files: ['T-2.txt'] } }
      },
      'T-2',
    )
    expect(again.status).toBe('review')
    await keepBranch(operator(at.world), 'T-3', { by: 'ann' })
    await sweepWorktrees(at.dispatcher())
    expect(leftovers(at)).toMatchObject({ worktrees: 1, kept: '' })
    expect(subjects(at)).toEqual(['T-1: Do T-1', 'start'])
    expect(subjects(at, 'bellwether/T-3')[0]).toBe('T-3: Do T-3')
    await expect(keepBranch(operator(at.world), 'T-3', { by: 'ann' })).rejects.toThrow('no accepted change')
  })

  it('does not overwrite uncommitted changes: the task waits until a person has committed them', async () => {
    const at = await place()
    await put(at.world, created('T-1'))
    at.repository.write('a.txt', 'my edit\n')
    const report = await ran(at, writing({ 'a.txt': 'agent\n' }))
    expect(report).toMatchObject({
      status: 'blocked',
      reason: expect.stringMatching(/^dirty_tree: .* would overwrite: a\.txt/),
    })
    expect(readFileSync(join(at.repository.path, 'a.txt'), 'utf8')).toBe('my edit\n')
    at.repository.git('checkout', 'a.txt')
    await mergeTask(operator(at.world), 'T-1', { by: 'ann' })
    await mergeQueued(at.dispatcher(), at.world.policies)
    expect((await taskOf(at.world)).status).toBe('done')
    expect(leftovers(at)).toEqual(nothingLeft)
  })

  it('names a base branch that is gone, and loses nothing', async () => {
    const at = await place({ base: 'release' })
    at.repository.git('branch', 'release')
    await put(at.world, created('T-1'))
    const report = await ran(at, (request) => {
      at.repository.git('branch', '-D', 'release')
      return writing({ 'b.txt': 'b' })(request)
    })
    expect(report).toMatchObject({
      status: 'blocked',
      reason: expect.stringContaining('base branch "release" is gone'),
    })
    expect(subjects(at, 'bellwether/T-1')[0]).toBe('T-1: Do T-1')
  })

  it('merges many changes one after the other, each once, while other processes try the same', async () => {
    const at = await place({ merge: 'review' })
    const ids = ['T-1', 'T-2', 'T-3', 'T-4']
    await put(at.world, ...ids.map((id) => created(id)))
    for (const id of ids) await ran(at, writing({ [`${id}.txt`]: id }), id)
    for (const id of ids) await mergeTask(operator(at.world), id, { by: 'ann' })
    const results = await Promise.all([1, 2, 3].map(() => mergeQueued(at.dispatcher(), at.world.policies)))
    await mergeQueued(at.dispatcher(), at.world.policies)
    expect(results.flat().length).toBeGreaterThan(0)
    expect(subjects(at).toSorted()).toEqual([...ids.map((id) => `${id}: Do ${id}`), 'start'].toSorted())
    expect(leftovers(at)).toEqual(nothingLeft)
    expect(at.repository.git('fsck', '--no-dangling')).toBe('')
  })
})
