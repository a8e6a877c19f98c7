import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { dataFolderOf, openDataFolder } from './data-folder.js'

let top: string
let project: string
const state = () => ({ XDG_STATE_HOME: join(top, 'state'), HOME: join(top, 'home') })

beforeEach(() => {
  top = realpathSync(mkdtempSync(join(tmpdir(), 'bw-data-')))
  project = join(top, 'my project')
  mkdirSync(project)
})
afterEach(() => {
  vi.restoreAllMocks()
  rmSync(top, { recursive: true, force: true })
})

it('is one folder per project in the state folder of the account, whatever path leads to the project', () => {
  symlinkSync(project, join(top, 'link'))
  const data = dataFolderOf(project, state())
  expect(data).toMatch(new RegExp(`^${top}/state/bellwether/my_project-[0-9a-f]{12}$`))
  expect(dataFolderOf(join(top, 'link'), state())).toBe(data)
  mkdirSync(join(top, 'other', 'my project'), { recursive: true })
  expect(dataFolderOf(join(top, 'other', 'my project'), state())).not.toBe(data)
})

it('is in the home folder without XDG_STATE_HOME, and in /var/lib for root, whose home other accounts cannot enter', () => {
  const { HOME } = state()
  const uid = vi.spyOn(process, 'geteuid').mockReturnValue(1_000)
  for (const XDG_STATE_HOME of [undefined, '', 'relative'])
    expect(dataFolderOf(project, { HOME, XDG_STATE_HOME })).toMatch(`${HOME}/.local/state/bellwether/my_project-`)
  uid.mockReturnValue(0)
  expect(dataFolderOf(project, { HOME })).toMatch('/var/lib/bellwether/my_project-')
})

it('is created with access for this account only, and access of others is removed', () => {
  const data = openDataFolder(project, undefined, state())
  const mode = () => lstatSync(data).mode & 0o777
  const expected = process.geteuid?.() === 0 ? 0o711 : 0o700
  expect(mode()).toBe(expected)
  rmSync(data, { recursive: true })
  mkdirSync(data, { mode: 0o777 })
  openDataFolder(project, undefined, state())
  expect(mode()).toBe(expected)
})

it.each([
  ['a symbolic link of the repository', 'data', /symbolic link/],
  ['a folder behind a symbolic link of the repository', 'data/keys', /symbolic link in its path/],
])('refuses %s as the data folder', (_what, wanted, reason) => {
  const victim = join(top, 'victim')
  mkdirSync(victim)
  symlinkSync(victim, join(project, 'data'))
  expect(() => openDataFolder(project, wanted, state())).toThrow(reason)
})

it('refuses a symbolic link outside the project too', () => {
  mkdirSync(join(top, 'victim'))
  symlinkSync(join(top, 'victim'), join(top, 'link'))
  expect(() => openDataFolder(project, join(top, 'link'), state())).toThrow(/symbolic link; give the path/)
})

it('refuses a data folder of another account', () => {
  const own = process.geteuid!()
  mkdirSync(join(top, 'theirs'))
  vi.spyOn(process, 'geteuid').mockReturnValue(own + 1)
  expect(() => openDataFolder(project, join(top, 'theirs'), state())).toThrow(/another account/)
})

it('does not use run-time files that lie in the project, and says how to move them', () => {
  mkdirSync(join(project, '.bellwether', 'database'), { recursive: true })
  const data = dataFolderOf(project, state())
  expect(() => openDataFolder(project, undefined, state())).toThrow(
    expect.objectContaining({
      code: 'old_data_folder',
      hint: expect.stringContaining(`mv '${project}/.bellwether' ${data}`),
    }),
  )
  // The command that the error names works.
  expect(readdirSync(join(top, 'state', 'bellwether'))).toEqual([])
  expect(openDataFolder(project, '.bellwether', state())).toBe(join(project, '.bellwether'))
  mkdirSync(join(data, 'database'), { recursive: true })
  expect(openDataFolder(project, undefined, state())).toBe(data)
})

it('ignores files of the demo and of the examples in the project', () => {
  mkdirSync(join(project, '.bellwether', 'demo'), { recursive: true })
  writeFileSync(join(project, '.bellwether', 'demo', 'admin-key'), '')
  expect(openDataFolder(project, undefined, state())).toBe(dataFolderOf(project, state()))
})
