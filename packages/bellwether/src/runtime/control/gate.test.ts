import { mkdirSync, readFileSync, renameSync, rmSync, statSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { systemClock } from '@bellwether/base'
import { beforeEach, expect, it } from 'vitest'
import { quietLog } from '../../../test/support/quiet-log.js'
import { recordedLog } from '../../../test/support/recorded-log.js'
import { changedAt, readControlFiles } from './files.js'
import { openGate } from './gate.js'
import { openProject } from './trust.js'
import { tempFolder } from '../../../test/support/disk/temp-folder.js'

let top: string
let folder: string
/** Whether a turn runs, for every instant. */
let running: boolean

beforeEach(() => {
  top = tempFolder('gate')
  folder = join(top, 'project')
  mkdirSync(join(folder, 'agents'), { recursive: true })
  writeFileSync(join(folder, 'agents', 'coder.md'), 'first')
  running = false
})

const home = () => join(top, 'data')
const project = () => ({ folder, root: '.', agentsFile: 'agents.mjs' })
async function open() {
  mkdirSync(home(), { recursive: true, mode: 0o700 })
  const recorded = recordedLog()
  const gate = await openGate({
    project: project(),
    dataDir: home(),
    home: home(),
    files: readControlFiles(project()),
    turnsAt: async () => (running ? ['turn-1'] : []),
    log: recorded.log,
  })
  const accepted = (file: string) => {
    try {
      return readFileSync(join(gate.folder, file), 'utf8')
    } catch {
      return undefined // not accepted
    }
  }
  return { gate, accepted, lines: recorded.lines }
}
const write = (text: string, file = 'agents/coder.md') => writeFileSync(join(folder, file), text)

it('a change that a person makes while no turn runs is in force at once', async () => {
  const { gate, accepted } = await open()
  expect(accepted('agents/coder.md')).toBe('first')
  write('second')
  write('[worker]\n', 'bellwether.toml')
  await gate.step()
  expect([accepted('agents/coder.md'), accepted('bellwether.toml')]).toEqual(['second', '[worker]\n'])
  rmSync(join(folder, 'agents', 'coder.md'))
  await gate.step()
  expect(accepted('agents/coder.md')).toBeUndefined()
  expect(gate.held.size).toBe(0)
})

it('a file that a turn changes, adds or removes is not in force, after the turn and after a restart too', async () => {
  write('kept', 'agents/other.md')
  const first = await open()
  running = true
  write('evil')
  write('evil', 'mcp.json')
  rmSync(join(folder, 'agents', 'other.md'))
  await first.gate.step()
  running = false
  await first.gate.step()
  const inForce = ({ accepted }: Awaited<ReturnType<typeof open>>) =>
    ['agents/coder.md', 'mcp.json', 'agents/other.md'].map((file) => accepted(file))
  expect(inForce(first)).toEqual(['first', undefined, 'kept'])
  expect(first.gate.held.get('agents/coder.md')).toEqual(['turn-1'])
  // More edits do not release a held file: the turn's text may still be in it.
  write('evil and more')
  await first.gate.step()
  expect(inForce(first)).toEqual(['first', undefined, 'kept'])
  const second = await open()
  expect(inForce(second)).toEqual(['first', undefined, 'kept'])
})

it('a held file is logged with the command that accepts it', async () => {
  write('export default {}', 'agents.mjs')
  const { gate, lines } = await open()
  running = true
  write('evil')
  write('evil', 'agents.mjs')
  await gate.step()
  await gate.step()
  expect(lines.map(({ fields }) => fields)).toMatchObject([
    { file: 'agents.mjs', accept: 'bellwether trust --agents agents.mjs' },
    { file: 'agents/coder.md', accept: 'bellwether trust' },
  ])
})

it('a held file is in force when a person accepts it, and released when it gets its old text back', async () => {
  const { gate, accepted } = await open()
  running = true
  write('useful')
  write('more', 'agents/other.md')
  await gate.step()
  running = false
  rmSync(join(folder, 'agents', 'other.md'))
  await gate.step()
  expect([...gate.held.keys()]).toEqual(['agents/coder.md'])
  const opened = openProject(project(), home())
  expect(opened.held).toEqual(['agents/coder.md'])
  opened.trust()
  await gate.step()
  expect(accepted('agents/coder.md')).toBe('useful')
  expect(gate.held.size).toBe(0)
})

it('a change that a person accepts before the next start is in force, although a turn is still open', async () => {
  const { accepted } = await open()
  running = true
  write('edited')
  const again = () => open().then(({ gate }) => [...gate.held.keys()])
  openProject(project(), home()).trust()
  expect([await again(), accepted('agents/coder.md')]).toEqual([['agents/coder.md'], 'first'])
  openProject(project(), home()).trust('unseen')
  expect([await again(), accepted('agents/coder.md')]).toEqual([[], 'edited'])
})

it('the deletion of a file during a turn is in force when a person accepts it', async () => {
  const { gate, accepted } = await open()
  running = true
  rmSync(join(folder, 'agents', 'coder.md'))
  await gate.step()
  running = false
  const opened = openProject(project(), home())
  expect([accepted('agents/coder.md'), opened.held]).toEqual(['first', ['agents/coder.md']])
  opened.trust()
  await gate.step()
  expect([accepted('agents/coder.md'), gate.held.size]).toEqual([undefined, 0])
})

it('a file or folder that a turn moves into place, with old timestamps, is held', async () => {
  mkdirSync(join(folder, 'prepared'))
  write('evil', 'prepared/coder.md')
  utimesSync(join(folder, 'prepared', 'coder.md'), 1, 1)
  const { gate, accepted } = await open()
  const before = systemClock.wallMs()
  renameSync(join(folder, 'agents'), join(folder, 'gone'))
  renameSync(join(folder, 'prepared'), join(folder, 'agents'))
  const times: number[] = []
  const watched = await openGate({
    project: project(),
    dataDir: home(),
    home: home(),
    files: readControlFiles(project()),
    turnsAt: async (ms) => {
      times.push(ms)
      return ms >= before - 1_000 ? ['turn-1'] : []
    },
    log: quietLog,
  })
  expect([...watched.held.keys()]).toEqual(['agents/coder.md'])
  expect(accepted('agents/coder.md')).toBe('first')
  expect(gate.folder).toBe(watched.folder)
})

it.each([
  ['a folder above the task root', 'tasks/main', 'tasks', 'config/rules.json'],
  ['a folder that a link leads through', '.', 'shared', 'agents/coder.md'],
])('renaming %s changes the files below it, also if these are old', (_what, root, renamed, file) => {
  const at = (name: string) => join(folder, name)
  for (const one of ['tasks/main/config', 'other/main/config', 'shared/agents', 'other/agents'])
    mkdirSync(at(one), { recursive: true })
  for (const one of ['tasks/main', 'other/main']) writeFileSync(at(`${one}/config/rules.json`), one)
  for (const one of ['shared', 'other']) writeFileSync(at(`${one}/agents/coder.md`), one)
  rmSync(at('agents'), { recursive: true })
  symlinkSync('shared/agents', at('agents'))
  const changed = () => Math.max(...changedAt({ folder, root }, file))
  const tick = () => {
    writeFileSync(join(top, 'tick'), '')
    return statSync(join(top, 'tick')).ctimeMs
  }
  const before = tick()
  expect(changed()).toBeLessThanOrEqual(before)
  while (tick() <= before); // until the clock of the filesystem has moved on
  renameSync(at(renamed), at('away'))
  renameSync(at('other'), at(renamed))
  expect(changed()).toBeGreaterThan(before)
})
