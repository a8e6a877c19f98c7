import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { expect, it } from 'vitest'
import { loadSettings } from '../../settings/load.js'
import { canWriteFiles, listControlFiles, ownPackages, readOnlyPaths } from './files.js'
import { tempFolder } from '../../../test/support/disk/temp-folder.js'

it('lets a sandboxed agent change no control file, of whatever kind', () => {
  const folder = tempFolder('control')
  for (const file of ['agents/coder.md', 'config/budget-policy.json', 'schedules/nightly.toml']) {
    mkdirSync(dirname(join(folder, file)))
    writeFileSync(join(folder, file), '')
  }
  const env = { BELLWETHER__WORKER__AGENTS: 'functions.mjs' }
  const files = listControlFiles({ folder, root: '.', agentsFile: 'functions.mjs' })
  expect(files).toEqual(expect.arrayContaining(['tools.json', 'functions.mjs', 'schedules/nightly.toml']))
  const paths = readOnlyPaths(folder, loadSettings({ folder, env }))
  expect(files.filter((file) => paths.every((path) => relative(path, file).startsWith('..')))).toEqual([])
})

it('lets a sandboxed agent not change the packages of Bellwether that are installed in the project', () => {
  const own = 'node_modules/bellwether/dist/runtime/control/files.js'
  expect(ownPackages('/home/ann/fleet', `/home/ann/fleet/${own}`)).toEqual(['/home/ann/fleet/node_modules'])
  expect(ownPackages('/home/ann/fleet', `/usr/lib/${own}`)).toEqual([])
  expect(ownPackages('/home/ann/fleet', `/home/ann/fleet-2/${own}`)).toEqual([])
  expect(ownPackages('/home/ann/fleet', '/home/ann/fleet/packages/bellwether/dist/runtime/control/files.js')).toEqual(
    [],
  )
})

it('counts the turns of a model as writers if it has tools that are programs or functions of the project', () => {
  const accepted = tempFolder('accepted')
  expect(canWriteFiles('model', accepted)).toBe(false)
  expect(canWriteFiles('model', accepted, 'functions.mjs')).toBe(true)
  writeFileSync(join(accepted, 'mcp.json'), '{}')
  expect(canWriteFiles('model', accepted)).toBe(true)
  expect([undefined, 'command', 'person'].map((executor) => canWriteFiles(executor, accepted))).toEqual([
    true,
    true,
    false,
  ])
})
