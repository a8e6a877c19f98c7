/** What a task says about a run that was not accepted: the check with its output, the diff, what happens next, and the choices. */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { dispatch } from '../../../src/board/dispatch/dispatch.js'
import { localEvidence } from '../../../src/board/dispatch/evidence/local-evidence.js'
import { readyRules } from '../../../src/board/dispatch/dispatcher.js'
import { retryTask } from '../../../src/board/tasks/task-commands.js'
import { taskView } from '../../../src/board/tasks/task-view.js'
import { taskText } from '../../../src/cli/work/task/task-text.js'
import { gitHistory } from '../../../src/ports/git.js'
import {
  boardOf,
  created,
  dispatcherOf,
  makeWorld,
  operator,
  put,
  stateOf,
  type World,
  never,
} from '../../support/board/dispatcher.js'
import { tempFolder } from '../../support/disk/temp-folder.js'

const viewOf = async (world: World, taskId = 'T-1') =>
  taskView(await stateOf(world), taskId, world.clock.wallMs(), readyRules(dispatcherOf(world), world.policies))

const git = (folder: string, ...args: readonly string[]) =>
  execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b', ...args], { cwd: folder })

function repository(files: Readonly<Record<string, string>>): string {
  const folder = plainFolder(files)
  git(folder, 'init', '-q')
  git(folder, 'add', '.')
  git(folder, 'commit', '-qm', 'first')
  return folder
}

function plainFolder(files: Readonly<Record<string, string>>): string {
  const folder = tempFolder('reasons')
  for (const [path, text] of Object.entries(files)) writeFileSync(join(folder, path), text)
  return folder
}

/** Dispatches T-1 in a folder. The agent does `work`, claims `files` and ends with `outcome`; `seen` is what a view saw change. */
async function judged(
  folder: string,
  work: () => void,
  {
    files = [],
    seen = null,
    outcome = 'success',
    again = false,
    isAccepted = false,
  }: {
    files?: string[]
    seen?: string[] | null
    outcome?: 'success' | 'failed'
    again?: boolean
    isAccepted?: boolean
  },
) {
  const world = makeWorld()
  world.verify = () => ({ exitCode: isAccepted ? 0 : 1 })
  await put(world, created('T-1', { verify: ['false'] }))
  world.kernel.script = () => {
    work()
    return { outcome, deliverable: { summary: 's', files }, error: outcome === 'failed' ? 'it broke' : null }
  }
  const board = new Proxy(boardOf(world), {
    get: (target, key) => (key === 'root' ? folder : (Reflect.get(target, key) as unknown)),
  })
  const evidence = { ...localEvidence(folder, world.ids), changedFiles: async () => seen }
  const dispatcher = dispatcherOf(world, { board, evidence, git: gitHistory(folder) })
  await dispatch(dispatcher, 'T-1', never)
  if (again) {
    seen = []
    world.kernel.script = () => ({ deliverable: { summary: 'nothing to do', files: [] } })
    await retryTask({ ...operator(world), firstAgent: 'coder' }, 'T-1', { by: 'ann' })
    await dispatch(dispatcher, 'T-1', never)
  }
  return viewOf(world)
}

describe('a result that a check rejects', () => {
  it('a result that a check rejects is stored with the check, its exit code and the end of its output, and the next run gets them', async () => {
    const world = makeWorld()
    await put(world, created('T-1', { verify: ['npm test'] }))
    const lines = Array.from({ length: 500 }, (_, at) => `line ${at}`)
    const output = `\u001B[31m${lines.join('\n')}\u001B[0m\n`
    world.verify = () => ({ exitCode: 1, durationMs: 2_300, output, isSandboxed: true })
    world.kernel.script = () => ({ deliverable: { summary: 'All fixed.', files: [] } })
    await dispatch(dispatcherOf(world), 'T-1', never)
    const view = await viewOf(world)
    expect(view).toMatchObject({
      status: 'blocked',
      problem: 'verify command exited with 1: npm test',
      result: 'All fixed.',
      failure: {
        reasonCode: 'incomplete_output',
        agent: 'coder',
        files: [],
        checks: [
          {
            check: 'npm test',
            problem: 'exited with 1',
            exitCode: 1,
            durationMs: 2_300,
            note: expect.stringContaining('It ran in a sandbox') as string,
          },
        ],
      },
      nextStep: { what: 'retry', who: 'debugger', at: expect.any(String) as string },
    })
    expect(view.failure!.checks[0]!.output.split('\n')).toEqual(['[…]', ...lines.slice(-50)])
    const shown = taskText({ ...view, budget: null }, { createdBy: null, events: [], left: 0 })
    expect(shown).toMatch(/\n {2}line 499\n {2}It ran in a sandbox, .* with "sandbox": "none", and select it/)
    expect(view.nextStep.text).toBe(`debugger tries again at ${view.nextStep.at}, after 1 of 2 attempts failed.`)
    expect(view.moves.map(({ action }) => action)).toEqual(['retry', 'escalate', 'done', 'abort'])

    world.verify = () => ({ exitCode: 0 })
    await retryTask({ ...operator(world), firstAgent: 'coder' }, 'T-1', { by: 'ann' })
    await dispatch(dispatcherOf(world), 'T-1', never)
    const prompt = [...world.kernel.turns.values()].at(-1)!.request.prompt
    expect(prompt).toContain('The end of the output of npm test, which exited with 1:\n```\n[…]\nline 450\n')
    // An accepted result removes what was recorded.
    expect(await viewOf(world)).toMatchObject({
      status: 'done',
      problem: null,
      failure: null,
      changes: null,
      moves: [],
    })
    const { fields } = (await stateOf(world)).tasks.get('T-1')!
    expect(fields['failure']).toBeNull()
  })

  it('names a check by its name, and an alert has the reason without the output', async () => {
    const world = makeWorld()
    const checks = { unit: { command: 'secret-command' } }
    world.policies = {
      ...world.policies,
      acceptance: { ...world.policies.acceptance, checks },
      recovery: { ...world.policies.recovery, default: { maxAttempts: 1, cooldownSec: 0 }, reasonPolicies: {} },
    }
    await put(world, created('T-1', { checks: ['unit'], agent: 'invest-analyst' }))
    world.verify = () => ({ exitCode: 2, output: 'password=hunter2\n' })
    for (let run = 0; run < 2; run += 1) {
      world.kernel.script = () => ({ deliverable: { summary: 's' } })
      await dispatch(dispatcherOf(world), 'T-1', never)
      if (run === 0) await retryTask({ ...operator(world), firstAgent: 'coder' }, 'T-1', { by: 'ann' })
    }
    const view = await viewOf(world)
    expect(view.failure).toMatchObject({ checks: [{ check: 'check "unit"', output: 'password=hunter2' }] })
    expect(view.nextStep.what).toBe('person')
    expect(view.problem).toBe('verify command exited with 2: check "unit"')
    expect(JSON.stringify(world.alerts)).not.toContain('hunter2')
  })

  it('the reason of an agent that exits names its exit code, and an alert says it in words', async () => {
    const world = makeWorld()
    world.policies = {
      ...world.policies,
      recovery: { ...world.policies.recovery, default: { maxAttempts: 1, cooldownSec: 0 } },
    }
    await put(world, created('T-1'))
    const explanation = 'The agent exited with 3: no session (command "claude", 0.6 s).'
    const text = `${explanation}\n\nThe end of its stderr (11 bytes):\nno session`
    for (let run = 0; run < 2; run += 1) {
      world.kernel.script = () => ({ outcome: 'failed', error: 'command_exit_3', explanation, deliverable: { text } })
      await dispatch(dispatcherOf(world), 'T-1', never)
    }
    const view = await viewOf(world)
    expect(view).toMatchObject({ problem: explanation, result: 'The end of its stderr (11 bytes):\nno session' })
    expect(view.nextStep.text).toMatch(/^A person decides\. The next reminder is at /)
    expect(world.alerts.at(-1)).toMatchObject({
      kind: 'escalated',
      text: `T-1 "Do T-1" needs a person: ${explanation}`,
    })
  })
})

it('the changes of an accepted result stay with the task, with the diff', async () => {
  const folder = repository({ 'a.txt': 'one\n' })
  const work = () => writeFileSync(join(folder, 'a.txt'), 'two\n')
  const view = await judged(folder, work, { files: ['a.txt'], isAccepted: true })
  expect(view).toMatchObject({ status: 'done', changedFiles: 1, failure: null })
  expect(view.changes!.diff).toBe('--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two')
})

describe('the changes of a result that a check rejects', () => {
  it('the changes of a result that a check rejects are a diff against the commit at which the run started, even if the agent commits', async () => {
    const folder = repository({ 'a.txt': 'one\ntwo\n', 'gone.txt': 'x\n', 'same.txt': 's\n' })
    const commit = git(folder, 'rev-parse', 'HEAD').toString().trim()
    const view = await judged(
      folder,
      () => {
        writeFileSync(join(folder, 'a.txt'), 'one\n2\n')
        writeFileSync(join(folder, 'new.txt'), 'new\n')
        writeFileSync(join(folder, 'bin'), Buffer.from([0, 1, 2]))
        unlinkSync(join(folder, 'gone.txt'))
        git(folder, 'commit', '-qam', 'second')
      },
      { files: ['a.txt', 'new.txt', 'bin'], seen: ['a.txt', 'gone.txt', 'same.txt', 'state/tasks.jsonl'] },
    )
    expect(view.changes).toMatchObject({
      commit,
      isCut: false,
      note: null,
      moreFiles: 0,
      files: [
        { path: 'a.txt', change: 'changed', claimed: true },
        { path: 'new.txt', change: 'added', claimed: true },
        { path: 'bin', change: 'added', claimed: true },
        { path: 'gone.txt', change: 'deleted', claimed: false },
      ],
    })
    expect(view.changes!.diff).toBe(
      [
        '--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2',
        '--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+new',
        '--- /dev/null\n+++ b/bin\nThe content is not text, or too large.',
        '--- a/gone.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-x',
      ].join('\n'),
    )
  })

  it('the changes of a result that a check rejects include those of the rejected run before it that are still there', async () => {
    const folder = repository({ 'a.txt': 'a\n', 'b.txt': 'b\n' })
    const work = () => {
      writeFileSync(join(folder, 'a.txt'), 'changed\n')
      writeFileSync(join(folder, 'b.txt'), 'b\n')
    }
    const { changes, result } = await judged(folder, work, { files: ['a.txt'], seen: ['b.txt'], again: true })
    expect(result).toBe('nothing to do')
    expect(changes).toMatchObject({
      files: [{ path: 'a.txt', change: 'changed', claimed: true }],
      diff: '--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a\n+changed',
    })
  })

  it('the changes of a result that a check rejects do not show the content of a file that is neither claimed nor in the commit', async () => {
    const folder = repository({ 'a.txt': 'a\n' })
    const view = await judged(folder, () => writeFileSync(join(folder, '.env'), 'KEY=hunter2\n'), {
      seen: ['.env'],
      outcome: 'failed',
    })
    expect(view.changes).toMatchObject({ files: [{ path: '.env', change: 'added', claimed: false }], diff: '' })
    expect(JSON.stringify(view)).not.toContain('hunter2')
  })

  it('the changes of a result that a check rejects are bounded, and say that they were cut', async () => {
    const folder = repository({ 'a.txt': 'a\n' })
    const names = Array.from({ length: 80 }, (_, at) => `f${at}.txt`)
    const view = await judged(
      folder,
      () => names.forEach((name) => writeFileSync(join(folder, name), 'x\n'.repeat(500))),
      { files: names },
    )
    expect(view.changes).toMatchObject({ isCut: true, moreFiles: 30 })
    expect(view.changes!.files).toHaveLength(50)
    expect(view.changes!.diff!.length).toBeLessThanOrEqual(16_100)
  })

  const version = (text: string) => ({ bytes: text.length, sha256: createHash('sha256').update(text).digest('hex') })

  it('the changes of a result that a check rejects are compared with the files at the start of the run if the folder is not a repository', async () => {
    const folder = plainFolder({ 'a.txt': 'one\ntwo\n', 'gone.txt': 'x\n', 'same.txt': 's\n', '.env': 'KEY=hunter1\n' })
    mkdirSync(join(folder, 'node_modules'))
    const view = await judged(
      folder,
      () => {
        writeFileSync(join(folder, 'a.txt'), 'one\n2\n')
        writeFileSync(join(folder, 'same.txt'), 's\n')
        writeFileSync(join(folder, 'new.txt'), 'new\n')
        writeFileSync(join(folder, '.env'), 'KEY=hunter2\n')
        writeFileSync(join(folder, 'node_modules', 'x.js'), 'x')
        unlinkSync(join(folder, 'gone.txt'))
      },
      { files: ['a.txt', 'new.txt'] },
    )
    expect(view.changes).toMatchObject({ commit: null, isCut: false, note: null, moreFiles: 0 })
    expect(view.changes!.files).toEqual([
      { path: 'a.txt', change: 'changed', claimed: true, before: version('one\ntwo\n'), after: version('one\n2\n') },
      { path: 'new.txt', change: 'added', claimed: true, before: null, after: version('new\n') },
      {
        path: '.env',
        change: 'changed',
        claimed: false,
        before: version('KEY=hunter1\n'),
        after: version('KEY=hunter2\n'),
      },
      { path: 'gone.txt', change: 'deleted', claimed: false, before: version('x\n'), after: null },
    ])
    expect(view.changes!.diff).toBe(
      [
        '--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2',
        '--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+new',
      ].join('\n'),
    )
    expect(JSON.stringify(view)).not.toContain('hunter')
    const shown = taskText({ ...view, budget: null }, { createdBy: null, events: [], left: 0 })
    expect(shown).toContain(`a.txt changed: 8 bytes ${version('one\ntwo\n').sha256.slice(0, 12)} → 6 bytes `)
  })

  it('the changes of a result that a check rejects are compared with the start of the first run, until a result is accepted', async () => {
    const folder = plainFolder({ 'a.txt': 'a\n', 'b.txt': 'b\n' })
    const { changes } = await judged(folder, () => writeFileSync(join(folder, 'a.txt'), 'b\n'), {
      files: ['a.txt'],
      again: true,
    })
    expect(changes).toMatchObject({
      files: [{ path: 'a.txt', before: version('a\n'), after: version('b\n') }],
      diff: '--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a\n+b',
    })
  })

  it('the changes of a result that a check rejects are a list with the reason if the folder has too many files to read', async () => {
    const folder = plainFolder({})
    mkdirSync(join(folder, 'b'))
    for (let at = 0; at < 2_001; at += 1) writeFileSync(join(folder, 'b', `${at}`), '')
    mkdirSync(join(folder, 'c'))
    writeFileSync(join(folder, 'c', 'last.txt'), 'c')
    const view = await judged(folder, () => writeFileSync(join(folder, 'c', 'last.txt'), 'd'), {
      files: ['c/last.txt'],
    })
    expect(view.changes).toMatchObject({
      commit: null,
      diff: '',
      files: [{ path: 'c/last.txt', change: null, claimed: true, after: version('d') }],
      note: expect.stringMatching(/not a git repository.*too large to compare/s) as string,
    })
    expect(view.changes!.files[0]).not.toHaveProperty('before')
  })

  it('the changes of a result that a check rejects are read without running a program that the repository names', async () => {
    const folder = repository({ 'a.txt': 'a\n', '.gitattributes': '* filter=evil diff=evil\n' })
    const [script, ran] = [join(folder, '.git', 'evil'), join(folder, '.git', 'ran')]
    writeFileSync(script, `#!/bin/sh\necho "$@" >> '${ran}'\ncat\n`)
    chmodSync(script, 0o755)
    mkdirSync(join(folder, '.git', 'hooks'), { recursive: true })
    const settings = [
      ['core.fsmonitor', script],
      ['core.hooksPath', join(folder, '.git')],
      ['core.pager', script],
      ['diff.external', script],
      ['diff.evil.textconv', script],
      ['filter.evil.clean', script],
      ['filter.evil.smudge', script],
      ['core.sshCommand', script],
    ]
    for (const [key, value] of settings) git(folder, 'config', key!, value!)
    const view = await judged(folder, () => writeFileSync(join(folder, 'a.txt'), 'b\n'), { files: ['a.txt'] })
    expect(view.changes!.diff).toContain('-a\n+b')
    expect(existsSync(ran)).toBe(false)
    // The settings do run programs: git itself starts one.
    git(folder, 'diff')
    expect(existsSync(ran)).toBe(true)
  })
})
