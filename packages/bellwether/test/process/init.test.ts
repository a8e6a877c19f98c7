import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { initFolder } from '../../src/cli/start/init.js'
import { examine } from '../../src/runtime/doctor.js'
import { testFolder } from '../support/postgres.js'

async function project(): Promise<string> {
  const folder = await testFolder()
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

const check = (folder: string, env = {}) => examine({ folder, dataDir: join(folder, '.bellwether'), env })

it('creates a folder in which the doctor finds nothing bad', async () => {
  const folder = await project()
  const { created } = initFolder(folder)
  expect(created).toEqual([
    'bellwether.toml',
    'config/recovery-policy.json',
    'agents/greeter.md',
    'agents/coder.md',
    '.gitignore',
  ])
  const findings = await check(folder, { BELLWETHER__SERVER__PORT: '0' })
  expect(findings.filter((one) => one.state === 'bad')).toEqual([])
  expect(findings.map((one) => one.check)).toEqual(
    expect.arrayContaining(['node', 'settings', 'agents', 'tools', 'folder', 'disk', 'inotify', 'database', 'port']),
  )
})

it('keeps existing files', async () => {
  const folder = await project()
  await writeFile(join(folder, 'bellwether.toml'), '[server]\nport = 1234\n')
  await writeFile(join(folder, '.gitignore'), 'node_modules')
  const { kept } = initFolder(folder)
  expect(kept).toEqual(['bellwether.toml'])
  expect(await readFile(join(folder, 'bellwether.toml'), 'utf8')).toBe('[server]\nport = 1234\n')
  expect(await readFile(join(folder, '.gitignore'), 'utf8')).toBe('node_modules\n.bellwether/\n')
  expect(initFolder(folder).created).toEqual([])
})

it('reports an invalid setting, an invalid agent, an unavailable database and broken JSON, each with a fix', async () => {
  const folder = await project()
  initFolder(folder)
  await writeFile(join(folder, 'agents', 'wrong.md'), '---\nexecuter: model\n---\n')
  await writeFile(join(folder, 'mcp.json'), '{"mcpServers": ')
  const findings = await check(folder, { BELLWETHER__DATABASE__URL: 'postgres://none@127.0.0.1:1/none' })
  const bad = findings.filter((one) => one.state === 'bad')
  expect(bad.map((one) => one.check)).toEqual(['agents', 'tools', 'database'])
  expect(bad.every((one) => one.fix !== undefined && one.fix !== '')).toBe(true)
  expect(bad[0]?.found).toContain('Did you mean "executor"')
  const unset = await check(folder, { BELLWETHER__SERVER__PORD: '1' })
  expect(unset.find((one) => one.check === 'settings')?.found).toMatch(/PORD|pord/)
})
