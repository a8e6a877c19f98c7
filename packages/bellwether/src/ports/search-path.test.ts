import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { inheritedEnvironment } from './processes/environment.js'
import { commandPath, ownProgram, separateSearchPath } from './search-path.js'

let base = ''
let project = ''
beforeEach(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), 'bw-path-')))
  project = join(base, 'project')
  for (const folder of ['project/.git', 'project/app', 'project/bin', 'tools'])
    mkdirSync(join(base, folder), { recursive: true })
  vi.stubEnv('BELLWETHER_COMMAND_PATH', undefined)
})
afterEach(() => {
  vi.unstubAllEnvs()
  rmSync(base, { recursive: true, force: true })
})

it('looks for programs of Bellwether in no folder of the project, and for those of commands in all folders', () => {
  symlinkSync(join(project, 'bin'), join(base, 'link'))
  const whole = [
    join(project, 'node_modules/.bin'), // does not exist yet
    join(project, 'bin'),
    join(base, 'link'),
    '',
    '.',
    'bin',
    join(base, 'tools'),
    '/usr/bin',
  ].join(':')
  const own = `${join(base, 'tools')}:/usr/bin`
  vi.stubEnv('PATH', whole)
  separateSearchPath(join(project, 'app'))
  expect(process.env['PATH']).toBe(own)
  expect(commandPath()).toBe(whole)
  expect(inheritedEnvironment([])['PATH']).toBe(whole)
  // A process that inherits both keeps both.
  separateSearchPath(project)
  expect(commandPath()).toBe(whole)
  // One with another path starts from the beginning.
  vi.stubEnv('PATH', '/usr/bin:/bin')
  separateSearchPath(project)
  expect([process.env['PATH'], commandPath()]).toEqual(['/usr/bin:/bin', '/usr/bin:/bin'])
})

it('keeps the folders of the home folder if that is where a process starts', () => {
  vi.stubEnv('HOME', base)
  vi.stubEnv('PATH', `${join(base, 'tools')}:/usr/bin`)
  separateSearchPath(base)
  expect(process.env['PATH']).toBe(`${join(base, 'tools')}:/usr/bin`)
})

it('finds a program of Bellwether behind a planted one', () => {
  for (const folder of ['project/bin', 'tools']) {
    writeFileSync(join(base, folder, 'flock'), '')
    chmodSync(join(base, folder, 'flock'), 0o755)
  }
  vi.stubEnv('PATH', `${join(project, 'bin')}:${join(base, 'tools')}`)
  separateSearchPath(project)
  expect(ownProgram('flock')).toBe(join(base, 'tools/flock'))
  expect(ownProgram('no-such-program')).toBe('no-such-program')
})
