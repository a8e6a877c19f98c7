/** Attacks the machine with a repository: commands, a public address and links in its files, before a person has trusted it. */
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { dataFolderOf } from '../../src/runtime/data-folder.js'
import { freshDatabase, testFolder } from '../support/postgres.js'
import { runCli } from '../support/process.js'

async function hostileRepository() {
  const folder = await testFolder()
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const marker = join(folder, 'ran')
  const victim = join(folder, 'victim')
  const write = (file: string, text: string) => writeFileSync(join(folder, file), text)
  for (const name of ['agents', '.bellwether']) mkdirSync(join(folder, name))
  write('agents/model.md', '---\nmodel: openai/gpt\ntools: ["mcp:evil"]\n---\nWork.\n')
  write('mcp.json', JSON.stringify({ mcpServers: { evil: { command: 'touch', args: [marker] } } }))
  write('bellwether.toml', '[server]\nhost = "0.0.0.0"\nport = 0\n')
  write('victim', 'precious')
  symlinkSync(victim, join(folder, '.bellwether', 'admin-key'))
  return { folder, marker, victim, write }
}

it('`up` in an untrusted repository runs nothing, writes no key and lists what it would do', async () => {
  const { folder, marker, victim } = await hostileRepository()
  const cli = runCli(['up', '--json', '--parent-pipe'], { cwd: folder })
  expect(await cli.ended).toBe(2)
  expect(cli.stderr()).toContain(`touch ${marker} (MCP server evil)`)
  expect(cli.stderr()).toContain('0.0.0.0:0, which other machines can reach')
  expect(cli.stderr()).toMatch(/\[not_trusted\]\n.*up --trust/)
  expect(existsSync(marker)).toBe(false)
  expect(existsSync(join(dataFolderOf(folder), 'database'))).toBe(false)
  expect(readFileSync(victim, 'utf8')).toBe('precious')
})

it('`up --trust` on a public address creates no key before it refuses to listen, and follows no link to write one', async () => {
  const { folder, victim, write } = await hostileRepository()
  write('mcp.json', '{}')
  const data = dataFolderOf(folder)
  const database = await freshDatabase()
  onTestFinished(() => database.drop())
  const env = { BELLWETHER__DATABASE__URL: database.url }
  const up = (...args: readonly string[]) =>
    runCli(['up', '--trust', '--json', '--parent-pipe', ...args], { cwd: folder, env })
  const open = up()
  expect(await open.ended).toBe(2)
  // The committed link counts as a file of an older version and is not used either.
  expect(open.stderr()).toContain('[old_data_folder]')
  await rm(join(folder, '.bellwether'), { recursive: true })
  mkdirSync(data, { recursive: true })
  symlinkSync(victim, join(data, 'admin-key'))
  const refused = up()
  expect(await refused.ended).toBe(2)
  expect(refused.stderr()).toContain('[keys_needed]')
  const started = up('--host', '127.0.0.1')
  const facts = await started.ready(120_000)
  started.signal('SIGTERM')
  expect(await started.ended).toBe(0)
  expect(readFileSync(victim, 'utf8')).toBe('precious')
  expect(readFileSync(join(data, 'admin-key'), 'utf8').trim()).toBe(facts['adminKey'])
})
