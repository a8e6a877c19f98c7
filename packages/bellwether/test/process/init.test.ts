import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { initFolder } from '../../src/cli/init.js'
import { examine } from '../../src/runtime/doctor.js'
import { testFolder } from '../support/postgres.js'

async function project(): Promise<string> {
  const folder = await testFolder()
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

const look = (folder: string, env = {}) => examine({ folder, dataDir: join(folder, '.bellwether'), env })

it('makes a folder in which the doctor finds nothing bad', async () => {
  const folder = await project()
  const { made } = initFolder(folder)
  expect(made).toEqual(['bellwether.toml', 'agents/greeter.md', 'agents/coder.md', '.gitignore'])
  const findings = await look(folder, { BELLWETHER__SERVER__PORT: '0' })
  expect(findings.filter((one) => one.state === 'bad')).toEqual([])
  expect(findings.map((one) => one.what)).toEqual(
    expect.arrayContaining(['node', 'settings', 'agents', 'tools', 'folder', 'room', 'watches', 'database', 'port']),
  )
})

it('leaves what is there as it is', async () => {
  const folder = await project()
  await writeFile(join(folder, 'bellwether.toml'), '[server]\nport = 1234\n')
  await writeFile(join(folder, '.gitignore'), 'node_modules')
  const { kept } = initFolder(folder)
  expect(kept).toEqual(['bellwether.toml'])
  expect(await readFile(join(folder, 'bellwether.toml'), 'utf8')).toBe('[server]\nport = 1234\n')
  expect(await readFile(join(folder, '.gitignore'), 'utf8')).toBe('node_modules\n.bellwether/\n')
  expect(initFolder(folder).made).toEqual([])
})

it('finds a bad setting, a bad agent, a database that is away and broken JSON, each with what to do', async () => {
  const folder = await project()
  initFolder(folder)
  await writeFile(join(folder, 'agents', 'wrong.md'), '---\nexecuter: model\n---\n')
  await writeFile(join(folder, 'mcp.json'), '{"mcpServers": ')
  const away = await look(folder, { BELLWETHER__DATABASE__URL: 'postgres://nobody@127.0.0.1:1/none' })
  const bad = away.filter((one) => one.state === 'bad')
  expect(bad.map((one) => one.what)).toEqual(['agents', 'tools', 'database'])
  expect(bad.every((one) => one.mend !== undefined && one.mend !== '')).toBe(true)
  expect(bad[0]?.found).toContain('did you mean executor')
  const unset = await look(folder, { BELLWETHER__SERVER__PORD: '1' })
  expect(unset.find((one) => one.what === 'settings')?.found).toMatch(/PORD|pord/)
})
