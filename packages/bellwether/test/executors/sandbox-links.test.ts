/**
 * Programs that leave links and pipes where their worker writes before the next program of the turn or task starts. The worker works outside the
 * sandbox: a link that it follows leads out, and a pipe that it opens blocks it.
 */
import { spawnSync } from 'node:child_process'
import {
  constants,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openWorktrees } from '../../src/ports/git/worktrees.js'
import { readSelf } from '../../src/ports/processes/proc.js'
import { findSandbox } from '../../src/ports/processes/sandbox/available.js'
import { openSandbox } from '../../src/ports/processes/sandbox/sandbox.js'
import { makeScratch, type Account } from '../../src/ports/processes/scratch.js'
import { cliHomes } from '../../src/worker/executors/presets.js'
import { repositoryAt } from '../support/git-repository.js'
import { testFolder } from '../support/postgres.js'
import { quietLog } from '../support/quiet-log.js'

const isRoot = process.geteuid?.() === 0
const other: Account = { uid: 65_534, gid: 65_534 }
const hasSandbox = findSandbox(undefined).kind !== undefined
let base = ''
const at = (name: string) => join(base, name)

beforeAll(async () => {
  base = await testFolder()
  for (const folder of ['home/.gemini', 'project', 'outside', 'sessions']) mkdirSync(at(folder), { recursive: true })
  writeFileSync(at('home/.gemini/installation_id'), 'id')
})
afterAll(() => rm(base, { recursive: true, force: true }))

/** A pipe with a reader, which blocks no writer. */
const opened = (path: string) => openSync(path, constants.O_RDWR | constants.O_NONBLOCK)

function turnIn(workspace: string, account?: Account) {
  const scratch = makeScratch(readSelf(), account)
  const sandbox = openSandbox({
    log: quietLog,
    root: at('project'),
    fallback: 'workspace',
    missing: 'refuse',
    sessions: at('sessions'),
    hidden: [],
    control: [],
  })
  const enter = (script: string) =>
    sandbox.enter({
      spec: { network: 'off' },
      agentId: 'coder',
      command: ['/bin/sh', '-c', script],
      env: { HOME: at('home'), PATH: '/usr/bin:/bin' },
      cwd: workspace,
      workspace,
      scratch,
      cli: cliHomes.gemini,
    })
  return {
    scratch,
    enter,
    async run(script: string) {
      const { command, env } = await enter(script)
      const options = { cwd: workspace, env, encoding: 'utf8', timeout: 120_000 } as const
      const { status, stderr } = spawnSync(command[0]!, command.slice(1), options)
      expect(stderr).toBe('')
      expect(status).toBe(0)
    },
  }
}

it.runIf(hasSandbox)(
  'the next program of a turn does not make the worker write through links in the home folder',
  async () => {
    writeFileSync(at('outside/rc'), 'mine')
    const turn = turnIn(at('project'))
    await turn.run(
      `ln -sf ${at('outside/rc')} ~/.gitconfig; rm -r ~/.gemini/installation_id; ln -s ${at('outside/rc')} ~/.gemini/installation_id`,
    )
    await turn.run('true')
    expect(readFileSync(at('outside/rc'), 'utf8')).toBe('mine')
    turn.scratch.remove()
  },
)

it.runIf(hasSandbox)('a pipe in the place of a file that the worker writes does not block it', async () => {
  const turn = turnIn(at('project'))
  await turn.run('rm -f ~/.gitconfig; mkfifo ~/.gitconfig')
  const pipe = opened(join(turn.scratch.home, '.gitconfig'))
  await turn.run('[ -p ~/.gitconfig ]')
  expect(() => readSync(pipe, Buffer.alloc(1))).toThrow('EAGAIN')
  turn.scratch.remove()
})

it.runIf(hasSandbox)(
  'links and pipes in the git folder of a task are removed before the worker writes there',
  async () => {
    const repository = repositoryAt(at('project'))
    repository.git('init', '-q', '-b', 'main')
    repository.commit('start', { 'a.txt': 'one\n' })
    const worktrees = openWorktrees({ root: at('project'), folder: at('worktrees'), timeoutMs: 20_000 })
    const place = await worktrees.open({ taskId: 'T-1', createdAt: '2026-01-01T00:00:00.000Z' }, null)
    if ('missing' in place) throw new Error(place.missing)
    const path = place.top
    const gitDir = join(at('project'), '.git/worktrees/T-1')
    const turn = turnIn(path)
    await turn.run(`rm -r ${gitDir}/bellwether-objects/info && mkdir ${gitDir}/bellwether-objects/info
mkfifo ${gitDir}/bellwether-objects/info/alternates ${gitDir}/HEAD.bellwether ${gitDir}/index.lock`)
    opened(join(gitDir, 'bellwether-objects/info/alternates'))
    opened(join(gitDir, 'HEAD.bellwether'))
    await turn.run('git status')
    expect(lstatSync(join(gitDir, 'bellwether-objects/info/alternates')).isFile()).toBe(true)
    expect(existsSync(join(gitDir, 'index.lock'))).toBe(false)
    turn.scratch.remove()
  },
)

it.runIf(isRoot)('what root prepares for another account is not writable for it until it is complete', () => {
  const scratch = makeScratch(readSelf(), other)
  for (const folder of [scratch.path, scratch.home, scratch.shared]) expect(statSync(folder).uid).toBe(0)
  expect(statSync(scratch.shared).mode & 0o777).toBe(0o711)
  expect(statSync(scratch.temporary).uid).toBe(other.uid)
  scratch.remove()
  expect(existsSync(scratch.path)).toBe(false)
})

it.runIf(hasSandbox)('a link in the place of the sessions of an agent is refused', async () => {
  mkdirSync(at('sessions/coder'), { recursive: true })
  await rm(at('sessions/coder/.gemini-tmp'), { recursive: true, force: true })
  symlinkSync(at('outside'), at('sessions/coder/.gemini-tmp'))
  await expect(turnIn(at('project')).enter('true')).rejects.toMatchObject({ code: 'unsafe_folder' })
})
