/** The commands of checks run in the sandbox of agents, with real namespaces: they execute what agents wrote. */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock, systemRandom } from '@bellwether/base'
import { beforeAll, describe, expect, it } from 'vitest'
import { uuidv7 } from '../../../src/ports/ids.js'
import { runCommand } from '../../../src/ports/processes/run-command.js'
import { findSandbox } from '../../../src/ports/processes/sandbox/available.js'
import { openCheckSandbox } from '../../../src/runtime/parts/board/check-sandbox.js'
import { loadSettings } from '../../../src/settings/load.js'
import { repositoryAt } from '../../support/git-repository.js'
import { testFolder } from '../../support/postgres.js'
import { quietLog } from '../../support/quiet-log.js'

const ports = { clock: systemClock, ids: uuidv7(systemClock, systemRandom) }
let [root, data, outside] = ['', '', '']

beforeAll(async () => {
  const base = await testFolder()
  ;[root, data, outside] = ['project', 'data', 'outside'].map((name) => join(base, name)) as [string, string, string]
  for (const folder of [root, data, outside, join(root, 'config')]) mkdirSync(folder, { recursive: true })
  writeFileSync(join(data, 'admin-key'), 'SECRET')
  writeFileSync(join(root, 'config', 'acceptance-policy.json'), '{}')
})

function check(command: string, own: { readonly sandbox?: 'none' | 'workspace' } = {}, setting = {}, workspace = root) {
  const loaded = loadSettings({ folder: root, env: {} })
  const settings = { ...loaded, worker: { ...loaded.worker, ...setting } }
  const sandbox = openCheckSandbox({ log: quietLog, settings, root, dataDir: data })
  return runCommand({ command, root: workspace, timeoutMs: 60_000, enter: sandbox(own, workspace) }, ports)
}
/** The scratch folders of this process: their name has its id. */
const scratches = () =>
  readdirSync(tmpdir()).filter((name) => new RegExp(`^bw-\\w+-${process.pid.toString(36)}-`).test(name))

describe.skipIf(findSandbox().kind === undefined)('the command of a check', () => {
  it('works in its workspace, and leaves no scratch folder', async () => {
    expect(await check('echo built > made && echo tests pass; exit 3')).toMatchObject({
      exitCode: 3,
      output: 'tests pass\n',
    })
    expect(readFileSync(join(root, 'made'), 'utf8')).toBe('built\n')
    expect(scratches()).toEqual([])
  })

  it('does not let npm look for a newer version of itself, with or without a sandbox', async () => {
    const print = 'echo $npm_config_update_notifier $NO_UPDATE_NOTIFIER'
    expect((await check(print)).output).toBe('false 1\n')
    expect((await check(print, { sandbox: 'none' })).output).toBe('false 1\n')
  })

  it('reads the repository of a task, which does not change', async () => {
    const repository = repositoryAt(join(outside, 'repository'))
    mkdirSync(repository.path)
    repository.git('init', '-q', '-b', 'main')
    repository.commit('start')
    const top = join(outside, 'worktree')
    repository.git('worktree', 'add', '-q', '-b', 'bellwether/T-1', top)
    const commit = 'git -c user.name=a -c user.email=a@b commit --allow-empty -qm planted'
    const ran = await check(`git log --oneline && git status --short && echo clean && ${commit}`, {}, {}, top)
    expect(ran.output).toMatch(/ start\nclean\n/)
    expect(ran.exitCode).not.toBe(0)
    expect(repository.git('-C', top, 'symbolic-ref', 'HEAD')).toBe('refs/heads/bellwether/T-1')
    expect(repository.git('log', '--oneline', '--all')).not.toContain('planted')
  })

  it.each([
    ['write outside of its workspace', () => `echo x > ${outside}/planted`],
    ['read the admin key', () => `grep SECRET ${data}/admin-key`],
    ['change its own policy', () => 'echo x > config/acceptance-policy.json'],
    ['signal other processes', () => `kill -0 ${process.pid}`],
  ])('the command of a check cannot %s, unless it has sandbox: none', async (_, command) => {
    expect(await check(command())).toMatchObject({ exitCode: expect.not.closeTo(0) as number, isSandboxed: true })
    expect(await check(command(), { sandbox: 'none' })).toMatchObject({ exitCode: 0, isSandboxed: false })
  })
})

it('runs as it is if the setting of the worker says so', async () => {
  expect((await check(`echo x > ${outside}/by-setting`, {}, { sandbox: 'none' })).exitCode).toBe(0)
  expect(existsSync(join(outside, 'by-setting'))).toBe(true)
})
