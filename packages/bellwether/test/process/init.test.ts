import { execFileSync } from 'node:child_process'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { createdText, initFolder } from '../../src/cli/start/init-folder.js'
import { loadPolicies, policyFiles } from '../../src/board/policies/load.js'
import { dataFolderOf } from '../../src/runtime/data-folder.js'
import { examine } from '../../src/runtime/doctor/examine.js'
import { testFolder } from '../support/postgres.js'
import { programName } from '../../src/cli/shared/output.js'

async function project(): Promise<string> {
  const folder = await testFolder()
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

const check = (folder: string, env = {}) => examine({ folder, dataDir: dataFolderOf(folder), env })

it('creates a folder in which the doctor finds nothing bad', async () => {
  const folder = await project()
  const { created } = initFolder(folder)
  expect(created).toEqual([
    'bellwether.toml',
    ...policyFiles.slice(0, -1),
    'agents/greeter.md',
    'agents/coder.md',
    'schedules/nightly.toml.example',
  ])
  const findings = await check(folder, { BELLWETHER__SERVER__PORT: '0' })
  expect(findings.filter((one) => one.state === 'bad')).toEqual([])
  expect(findings.map((one) => one.check)).toEqual(
    expect.arrayContaining(['node', 'settings', 'agents', 'tools', 'folder', 'disk', 'inotify', 'database', 'port']),
  )
})

it('[H6.1] [H7.1] [H8.1] the policy files of init are commented, valid, and say what applies without them', async () => {
  const [folder, empty] = [await project(), await project()]
  initFolder(folder)
  const [written, defaults] = [await loadPolicies(folder), await loadPolicies(empty)]
  const { reasonPolicies } = defaults.recovery
  const own = {
    recoveryChain: ['human'],
    sameAgentFirst: true,
    reasonPolicies: { ...reasonPolicies, incomplete_output: { cooldownSec: 0 } },
  }
  expect(written).toEqual({ ...defaults, recovery: { ...defaults.recovery, ...own } })
  for (const file of policyFiles.slice(0, -1))
    expect(JSON.parse(await readFile(join(folder, file), 'utf8'))).toHaveProperty('$comment')
})

it('init names no agent that is not there, and ends with the next command as it was started', async () => {
  const folder = await project()
  const done = initFolder(folder)
  expect(JSON.parse(await readFile(join(folder, 'config/acceptance-policy.json'), 'utf8'))).toMatchObject({
    roles: { human: { minEvidence: 0 } },
  })
  expect((await check(folder)).find((one) => one.check === 'policies')!.found).not.toContain('invest-analyst')
  const [installed, npx] = [{}, { npm_command: 'exec' }].map((env) => programName(env))
  expect(createdText(done, { program: installed!, runs: false })).toMatch(/Next: +cd \/\S+ && bellwether up\n$/)
  const started = createdText(done, { program: npx!, runs: true })
  expect(started).toMatch(/npx bellwether turn run greeter/)
  expect(started).toMatch(/Next: +`up` runs here already and has loaded the agents\n$/)
})

it('shows the policies in force, and where they come from', async () => {
  const folder = await project()
  const policies = async () => (await check(folder)).find((one) => one.check === 'policies')
  expect(await policies()).toMatchObject({
    state: 'good',
    found: expect.stringMatching(
      /^defaults\nrecovery +coder \(no agent file\) → debugger \(no agent file\) → .* → human; /,
    ),
  })
  await mkdir(join(folder, 'config'))
  const budget = { global: { maxTaskTokens: 777, maxTaskRetries: null }, agents: { writer: { maxTaskTokens: 1 } } }
  await writeFile(join(folder, 'config', 'budget-policy.json'), JSON.stringify(budget))
  await writeFile(
    join(folder, 'config', 'runtime-policy.json'),
    JSON.stringify({ agents: [{ id: 'writer', capabilities: ['docs'] }] }),
  )
  expect(await policies()).toMatchObject({ state: 'good' })
  const found = (await policies())!.found
  expect(found).toMatch(/^config\/budget-policy\.json, config\/runtime-policy\.json\n/)
  expect(found).toMatch(/\nbudget +777 tokens, .*any number of runs per task.*; other values for writer\n/)
  expect(found).toMatch(/\nagents +writer \(docs\)\n/)
  await writeFile(join(folder, 'config', 'budget-policy.json'), '{"global": {"maxTaskTokns": 1}}')
  expect(await policies()).toMatchObject({
    state: 'bad',
    found: expect.stringContaining('did you mean'),
    fix: expect.any(String),
  })
})

it('writes a check that runs the tests of the project, if its files say how', async () => {
  const cases: readonly (readonly [file: string, text: string, command: string | null])[] = [
    ['package.json', '{"scripts": {"test": "vitest run"}}', 'npm test'],
    ['package.json', '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}', null],
    ['package.json', '{', null],
    ['Cargo.toml', '', 'cargo test'],
    ['go.mod', '', 'go test ./...'],
    ['pyproject.toml', '[tool.pytest.ini_options]', 'python3 -m pytest'],
    ['pyproject.toml', '[project]', null],
    ['Makefile', 'all:\n\ntest: all\n\ttrue\n', 'make test'],
    ['Makefile', 'test := x\n', null],
  ]
  for (const [file, text, command] of cases) {
    const folder = await project()
    await writeFile(join(folder, file), text)
    expect(initFolder(folder).tests, `${file} ${text}`).toBe(command)
    const { checks } = (await loadPolicies(folder)).acceptance
    expect(checks).toEqual(command === null ? {} : { tests: { command, timeoutSec: 900, description: command } })
    // An existing policy file is kept, so nothing is announced.
    expect(initFolder(folder).tests).toBeNull()
  }
})

it('[H6.6] marks members of the recovery chain that have no agent file', async () => {
  const folder = await project()
  initFolder(folder)
  const policies = async () => (await check(folder)).find((one) => one.check === 'policies')
  expect(await policies()).toMatchObject({
    state: 'good',
    found: expect.stringMatching(/\nrecovery +the same agent again → human; 2/),
  })
  const chain = { recoveryChain: ['coder', 'tester', 'human'] }
  await writeFile(join(folder, 'config', 'recovery-policy.json'), JSON.stringify(chain))
  expect(await policies()).toMatchObject({
    state: 'warning',
    found: expect.stringMatching(/\nrecovery +coder → tester \(no agent file\) → human; /),
    fix: expect.stringContaining('create agents/tester.md'),
  })
})

it('keeps existing files', async () => {
  const folder = await project()
  await writeFile(join(folder, 'bellwether.toml'), '[server]\nport = 1234\n')
  const { kept } = initFolder(folder)
  expect(kept).toEqual(['bellwether.toml'])
  expect(await readFile(join(folder, 'bellwether.toml'), 'utf8')).toBe('[server]\nport = 1234\n')
  expect(initFolder(folder).created).toEqual([])
})

it('reports an invalid setting, an invalid agent, an unavailable database and broken JSON, each with a fix', async () => {
  const folder = await project()
  initFolder(folder)
  await writeFile(join(folder, 'agents', 'wrong.md'), '---\nexecuter: model\n---\n')
  await writeFile(join(folder, 'mcp.json'), '{"mcpServers": ')
  const findings = await check(folder, {
    BELLWETHER__DATABASE__URL: 'postgres://none@127.0.0.1:1/none',
    BELLWETHER__SERVER__PORT: '0',
  })
  const bad = findings.filter((one) => one.state === 'bad')
  expect(bad.map((one) => one.check)).toEqual(['agents', 'tools', 'database'])
  expect(bad.every((one) => one.fix !== undefined && one.fix !== '')).toBe(true)
  expect(bad[0]?.found).toContain('Did you mean "executor"')
  const unset = await check(folder, { BELLWETHER__SERVER__PORD: '1' })
  expect(unset.find((one) => one.check === 'settings')?.found).toMatch(/PORD|pord/)
})

it.each(['mcp.json', 'tools.json', 'agents/pipe.md', 'package.json'])(
  'the doctor and init do not wait for %s if it is a pipe',
  async (file) => {
    const folder = await project()
    await mkdir(join(folder, 'agents'))
    execFileSync('mkfifo', [join(folder, file)])
    await check(folder)
    expect(initFolder(folder).created).toContain('agents/greeter.md')
  },
)

it('init refuses a .gitignore that is a pipe instead of waiting for it', async () => {
  const folder = await project()
  await mkdir(join(folder, '.git'))
  execFileSync('mkfifo', [join(folder, '.gitignore')])
  await check(folder)
  expect(() => initFolder(folder)).toThrow('is not a regular file')
})
