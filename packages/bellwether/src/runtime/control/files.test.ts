import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { loadSettings } from '../../settings/load.js'
import { listControlFiles, readOnlyPaths } from './files.js'

it('lets a sandboxed agent change no control file, of whatever kind', () => {
  const folder = mkdtempSync(join(tmpdir(), 'bellwether-control-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  for (const file of ['agents/coder.md', 'config/budget-policy.json', 'schedules/nightly.toml']) {
    mkdirSync(dirname(join(folder, file)))
    writeFileSync(join(folder, file), '')
  }
  const env = { BELLWETHER__WORKER__AGENTS: 'functions.mjs' }
  const files = listControlFiles({ folder, root: '.', agentsFile: 'functions.mjs' })
  expect(files).toEqual(expect.arrayContaining(['tools.json', 'functions.mjs', 'schedules/nightly.toml']))
  const paths = readOnlyPaths(loadSettings({ folder, env }))
  expect(files.filter((file) => paths.every((path) => relative(path, file).startsWith('..')))).toEqual([])
})
