/** Attacks the files of the account that runs Bellwether with a command that runs as another account. */
import { spawnSync } from 'node:child_process'
import { chmodSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { runAs } from '../../src/ports/processes/run-as.js'
import { testFolder } from '../support/postgres.js'

const isRoot = process.geteuid?.() === 0
const hasPrograms = ['setpriv', 'getent'].every((program) => spawnSync(program, ['--version']).status === 0)

it.runIf(isRoot && hasPrograms)(
  'a command with run_as reads no private file, keeps no group and cannot become root',
  async () => {
    const folder = await testFolder()
    onTestFinished(() => rm(folder, { recursive: true, force: true }))
    writeFileSync(join(folder, 'admin-key'), 'secret', { mode: 0o600 })
    chmodSync(folder, 0o755)
    const { prefix, env } = runAs('nobody')
    const [program, ...args] = [...prefix, 'sh', '-c', 'id -u; id -G; echo $HOME; cat admin-key']
    const { stdout, stderr } = spawnSync(program!, args, {
      cwd: folder,
      env: { PATH: '/usr/bin:/bin', ...env },
      encoding: 'utf8',
    })
    const [uid, groups] = stdout.split('\n')
    expect(uid).not.toBe('0')
    expect(groups!.split(' ')).not.toContain('0')
    expect(stderr).toMatch(/admin-key.*denied/i)
  },
)

it('explains why commands cannot run as another account', () => {
  expect(() => runAs('root')).toThrow(/worker\.run_as.*(it is root|only root can)/)
  expect(() => runAs('no-such-account-here')).toThrow(/worker\.run_as/)
  expect(() => runAs('--reuid=0')).toThrow(/not a name of an account/)
})
