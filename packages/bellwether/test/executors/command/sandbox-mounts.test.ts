/**
 * What a program leaves in its workspace must not widen the sandbox of the next one: files of git, links in place of control files, and links that
 * the home folder of a turn keeps. Each case runs in every kind of sandbox that the machine has.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { findSandbox } from '../../../src/ports/processes/sandbox/available.js'
import type { CliHome } from '../../../src/ports/processes/sandbox/home.js'
import { openSandbox, type SandboxSpec } from '../../../src/ports/processes/sandbox/sandbox.js'
import type { Scratch } from '../../../src/ports/processes/scratch.js'
import { repositoryAt } from '../../support/git-repository.js'
import { testFolder } from '../../support/postgres.js'
import { quietLog } from '../../support/quiet-log.js'

const kinds = (['bubblewrap', 'namespaces'] as const).filter((kind) => findSandbox(undefined, kind).kind !== undefined)

let base = ''
let home = ''
let project = ''
let outside = ''
let turns = 0

beforeAll(async () => {
  base = await testFolder()
  home = join(base, 'home')
  project = join(home, 'work', 'project')
  outside = join(base, 'outside')
})
beforeEach(() => {
  for (const folder of [home, outside]) rmSync(folder, { recursive: true, force: true })
  for (const folder of [project, outside, join(home, '.ssh')]) mkdirSync(folder, { recursive: true })
  writeFileSync(join(home, '.ssh', 'id'), 'SECRET')
  writeFileSync(join(outside, 'target'), 'SECRET')
})
afterAll(() => rmSync(base, { recursive: true, force: true }))

function newScratch(): Scratch {
  turns += 1
  const path = join(base, `scratch-${turns}`)
  for (const folder of ['home', 'tmp']) mkdirSync(join(path, folder), { recursive: true })
  return { path, home: join(path, 'home'), temporary: join(path, 'tmp') } as Scratch
}

describe.each(kinds)('a sandbox (%s)', (kind) => {
  const sandbox = () =>
    openSandbox({
      log: quietLog,
      root: project,
      fallback: 'workspace',
      missing: 'refuse',
      sessions: join(base, 'sessions'),
      hidden: [],
      control: ['agents', 'mcp.json'],
      kind,
    })

  interface Run {
    readonly spec?: SandboxSpec
    readonly scratch?: Scratch
    readonly cli?: CliHome
    readonly within?: ReturnType<typeof sandbox>
  }

  /** Runs a shell script as a turn does, and returns what it printed. */
  async function run(script: string, { spec, scratch = newScratch(), cli = {}, within = sandbox() }: Run = {}) {
    const entered = await within.enter({
      spec: { network: 'off', ...spec },
      agentId: 'coder',
      command: ['/bin/sh', '-c', script],
      env: { HOME: home, PATH: process.env['PATH'] ?? '' },
      cwd: project,
      workspace: project,
      scratch,
      cli,
    })
    const [program, ...args] = entered.command
    const { stdout, stderr, status } = spawnSync(program!, args, { env: entered.env, cwd: project, encoding: 'utf8' })
    entered.close()
    return { text: `${stdout}${stderr}`, status }
  }

  const look = () => `cat ${outside}/target ${home}/.ssh/id .git/target agents/target mcp.json build/target; true`

  it.each([
    ['a .git file that names a folder outside', () => `echo "gitdir: ${outside}" > .git`],
    ['a .git file that names the root', () => 'echo "gitdir: /" > .git'],
    [
      'a .git file with a repository of its own that shares a folder outside',
      () =>
        `mkdir -p fake && echo ref: refs/heads/x > fake/HEAD && echo ${outside} > fake/commondir && echo "$PWD/.git" > fake/gitdir && echo "gitdir: fake" > .git`,
    ],
    [
      'a .git file with a repository whose objects are a link',
      () =>
        `mkdir -p c/worktrees/n && ln -s ${outside} c/objects && echo ../.. > c/worktrees/n/commondir && echo "$PWD/.git" > c/worktrees/n/gitdir && echo "gitdir: c/worktrees/n" > .git`,
    ],
    ['a link .git', () => `ln -s ${outside} .git`],
    ['a link in place of a control folder', () => `ln -s ${outside} agents`],
    ['a link in place of a control file', () => `ln -s ${outside}/target mcp.json`],
    ['a link in place of a writable folder', () => `ln -s ${outside} build`],
  ])('shows nothing outside after a program left %s, and still starts', async (_what, planting) => {
    expect(await run(planting())).toEqual({ text: '', status: 0 })
    const spec = { sandbox_write: ['build'], sandbox_read: ['build'] }
    const { text, status } = await run(`${look()}; echo x > build/written; echo started`, { spec })
    expect(text).toContain('started')
    expect(text).not.toContain('SECRET')
    expect([status, existsSync(join(outside, 'written'))]).toEqual([0, false])
  })

  it.each([
    ['the home folder', () => home],
    ['a folder around the home folder', () => base],
  ])('shows nothing of a repository in %s', async (_what, top) => {
    mkdirSync(join(top(), '.git'))
    writeFileSync(join(top(), '.git', 'target'), 'SECRET')
    const { text } = await run(`${look()}; cat ${top()}/.git/target; echo started`)
    rmSync(join(top(), '.git'), { recursive: true })
    expect(text).toContain('started')
    expect(text).not.toContain('SECRET')
  })

  it('shows the repository of a worktree and of a submodule, which name their folder', async () => {
    const main = join(outside, 'main')
    mkdirSync(main)
    const repository = repositoryAt(main)
    repository.git('init', '-q', '-b', 'main')
    repository.commit('start', { 'a.txt': 'one\n' })
    rmSync(project, { recursive: true })
    repository.git('worktree', 'add', '-q', project)
    expect((await run('git log --format=%s')).text).toBe('start\n')
    const parent = join(outside, 'parent')
    mkdirSync(parent)
    const git = (...args: string[]) =>
      execFileSync('git', ['-c', 'protocol.file.allow=always', ...args], { cwd: parent, stdio: 'pipe' })
    git('init', '-q')
    git('submodule', 'add', '-q', main, 'sub')
    project = join(parent, 'sub')
    const { text } = await run('git log --format=%s')
    project = join(home, 'work', 'project')
    expect(text).toBe('start\n')
  })

  it('makes nothing outside where a program replaced a folder of its home by a link', async () => {
    const scratch = newScratch()
    const turn = { scratch, within: sandbox(), cli: { sessions: ['.cli/sessions'] } }
    mkdirSync(join(scratch.home, '.cli'))
    await run('true', turn)
    rmSync(join(scratch.home, '.cli'), { recursive: true })
    symlinkSync(outside, join(scratch.home, '.cli'))
    const { status } = await run('true', turn)
    expect(existsSync(join(outside, 'sessions'))).toBe(false)
    expect(status).not.toBe(0)
  })
})
