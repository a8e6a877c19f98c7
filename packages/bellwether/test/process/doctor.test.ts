/** Each finding of `doctor`, with the command that fixes it, and what `init` writes on machines with different programs. */
import { execFileSync } from 'node:child_process'
import { chmodSync } from 'node:fs'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { initFolder } from '../../src/cli/start/init-folder.js'
import { readAgents } from '../../src/runtime/doctor/agents.js'
import { examine } from '../../src/runtime/doctor/examine.js'
import { checkClock } from '../../src/runtime/doctor/surroundings.js'
import { testFolder } from '../support/postgres.js'
import { listen } from '../support/servers/listen.js'

async function tempFolder(): Promise<string> {
  const folder = await testFolder()
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

/** A machine with these programs on its PATH and nothing else. */
async function machine(...programs: readonly string[]) {
  const home = await tempFolder()
  for (const name of ['sh', ...programs]) {
    await writeFile(join(home, name), '#!/bin/sh\n')
    chmodSync(join(home, name), 0o755)
  }
  return { HOME: home, PATH: home, BELLWETHER__SERVER__PORT: '0' }
}

type Env = Readonly<Record<string, string>>

async function finding(check: string, folder: string, env: Env, dataDir = join(folder, 'data')) {
  const all = await examine({ folder, dataDir, env })
  return all.find((one) => one.check === check)
}

const agent = (folder: string, name: string, head: string) =>
  writeFile(join(folder, 'agents', `${name}.md`), `---\n${head}\n---\nWork.\n`)

it('init writes a coding agent that this machine has, with the keys that are set, and says what is missing', async () => {
  const folder = await tempFolder()
  const env = { ...(await machine('codex', 'claude')), CODEX_API_KEY: 'k' }
  expect(initFolder(folder, env)).toMatchObject({ found: ['codex', 'claude'], missing: null })
  const coder = await readFile(join(folder, 'agents', 'coder.md'), 'utf8')
  expect(coder).toMatch(/^preset: codex\b/m)
  expect(coder).toMatch(/^env: \[CODEX_API_KEY\]/m)
  expect([await finding('programs', folder, env), await finding('keys', folder, env)]).toMatchObject([
    { state: 'good', found: 'codex, sh' },
    { state: 'good' },
  ])
  // A second run, also on another machine, changes nothing.
  const again = initFolder(folder, await machine('claude'))
  expect(again).toMatchObject({ created: [], missing: null })
  expect(await readFile(join(folder, 'agents', 'coder.md'), 'utf8')).toBe(coder)

  expect(initFolder(await tempFolder(), await machine('gemini')).missing).toMatch(
    /^gemini has no key .* export GEMINI_API_KEY/,
  )
  // `codex exec` does not read the key of the API.
  expect(initFolder(await tempFolder(), { ...(await machine('codex')), OPENAI_API_KEY: 'k' }).missing).toMatch(
    /^codex has no key .* export CODEX_API_KEY/,
  )
  const none = await tempFolder()
  expect(initFolder(none, await machine()).missing).toContain('npm install -g @anthropic-ai/claude-code')
  expect(await finding('programs', none, await machine())).toMatchObject({
    state: 'warning',
    found: 'agents/coder.md needs the program "claude", which is not on the PATH',
    fix: 'install it: npm install -g @anthropic-ai/claude-code',
  })
})

it('init lets claude run the tests of the project and no other command', async () => {
  const coderIn = async (packageJson: object) => {
    const folder = await tempFolder()
    await writeFile(join(folder, 'package.json'), JSON.stringify(packageJson))
    initFolder(folder, await machine('claude'))
    const { agents } = await readAgents(folder, false)
    return agents.find(({ name }) => name === 'coder')!.settings.args
  }
  const mayEdit = ['--permission-mode', 'acceptEdits']
  expect(await coderIn({ scripts: { test: 'node --test' } })).toEqual([
    ...mayEdit,
    '--allowedTools',
    'Bash(npm test *)',
  ])
  expect(await coderIn({})).toEqual(mayEdit)
})

it('in a git repository, init makes git ignore the tasks and keeps the rest of .gitignore', async () => {
  const folder = await tempFolder()
  execFileSync('git', ['init', '-q', folder])
  await writeFile(join(folder, '.gitignore'), 'node_modules')
  expect(initFolder(folder).created).toContain('.gitignore')
  const text = await readFile(join(folder, '.gitignore'), 'utf8')
  expect(text).toMatch(/^node_modules\n# .*\n\/state\/\n$/)
  await mkdir(join(folder, 'state'))
  await writeFile(join(folder, 'state', 'tasks.jsonl'), '')
  expect(execFileSync('git', ['-C', folder, 'status', '--porcelain'], { encoding: 'utf8' })).not.toContain('state/')
  expect(initFolder(folder)).toMatchObject({ created: [], kept: expect.arrayContaining(['.gitignore']) })
  expect(await readFile(join(folder, '.gitignore'), 'utf8')).toBe(text)
  // Aider works in the folder and leaves its conversations there.
  expect(initFolder(folder, await machine('aider'))).toMatchObject({ created: ['.gitignore'], ignored: ['.aider*'] })
  expect(await readFile(join(folder, '.gitignore'), 'utf8')).toBe(`${text}.aider*\n`)
  expect(initFolder(folder, await machine('aider'))).toMatchObject({ created: [], ignored: [] })
  expect(await finding('git', folder, {})).toMatchObject({ state: 'good' })

  await writeFile(join(folder, '.gitignore'), '')
  expect(await finding('git', folder, {})).toMatchObject({
    state: 'warning',
    fix: "add the line: echo '/state/' >> .gitignore",
  })
  await writeFile(join(folder, '.git', 'MERGE_HEAD'), '')
  expect(await finding('git', folder, {})).toMatchObject({
    found: 'a merge is in progress',
    fix: expect.stringContaining('git merge'),
  })
  await writeFile(join(folder, '.git', 'index.lock'), '')
  expect(await finding('git', folder, {})).toMatchObject({ state: 'warning', fix: expect.stringContaining('rm ') })

  // Code that lies in a folder of that name must stay visible to git.
  const source = await tempFolder()
  execFileSync('git', ['init', '-q', source])
  await mkdir(join(source, 'state'))
  await writeFile(join(source, 'state', 'store.ts'), '')
  expect(initFolder(source).created).not.toContain('.gitignore')
  const plain = await tempFolder()
  expect(initFolder(plain).created).not.toContain('.gitignore')
})

it('names the keys that agents need and do not get', async () => {
  const folder = await tempFolder()
  const env = await machine('claude')
  initFolder(folder, env)
  expect(await finding('keys', folder, env)).toMatchObject({
    state: 'warning',
    found: 'claude of agents/coder.md has no key and has not signed in',
    fix: 'sign in once: claude; or export ANTHROPIC_API_KEY=… and restart up',
  })
  await mkdir(join(env.HOME, '.claude'))
  await writeFile(join(env.HOME, '.claude', '.credentials.json'), '{}')
  expect(await finding('keys', folder, env)).toMatchObject({ state: 'good' })
  await rm(join(env.HOME, '.claude'), { recursive: true })
  await agent(folder, 'coder', 'preset: claude')
  expect(await finding('keys', folder, { ...env, ANTHROPIC_API_KEY: 'k' })).toMatchObject({
    fix: 'add to agents/coder.md: env: [ANTHROPIC_API_KEY]',
  })
  await rm(join(folder, 'agents', 'coder.md'))
  for (const [model, name] of [
    ['anthropic/claude-opus', 'ANTHROPIC_API_KEY'],
    ['openai/gpt', 'OPENAI_API_KEY'],
    ['my-lab/qwen', 'MY_LAB_BASE_URL'],
  ] as const) {
    await agent(folder, 'thinker', `model: ${model}`)
    const found = await finding('keys', folder, env)
    expect(found).toMatchObject({ state: 'warning', found: `agents/thinker.md (model ${model}) needs ${name}` })
    expect(found?.fix).toContain(`export ${name}=`)
    expect(await finding('keys', folder, { ...env, [name]: 'http://x' })).toMatchObject({ state: 'good' })
  }
})

it('reports a function agent without code', async () => {
  const folder = await tempFolder()
  const env = await machine()
  initFolder(folder, env)
  await agent(folder, 'fn', 'executor: function')
  expect(await finding('agents', folder, env)).toMatchObject({
    state: 'bad',
    found: expect.stringMatching(/^agents\/fn\.md: executor "function" has no code here\. .*up --agents FILE/),
  })
  expect(await finding('agents', folder, { ...env, BELLWETHER__WORKER__AGENTS: 'agents.mjs' })).toMatchObject({
    state: 'good',
  })
})

it('warns of token limits that end a real coding agent in its first task', async () => {
  const folder = await tempFolder()
  const env = await machine('claude')
  initFolder(folder, env)
  expect(await finding('limits', folder, env)).toMatchObject({ state: 'good' })
  const file = join(folder, 'config', 'budget-policy.json')
  await writeFile(file, JSON.stringify({ global: { maxTaskTokens: 12_000 }, agents: { coder: { maxTaskTokens: 5 } } }))
  await agent(folder, 'coder', 'preset: claude\nbudget:\n  max_tokens: 900')
  const found = await finding('limits', folder, env)
  expect(found?.found.split('\n')).toEqual([
    expect.stringContaining('"global.maxTaskTokens" of config/budget-policy.json is 12000 tokens'),
    expect.stringContaining('"agents.coder.maxTaskTokens"'),
    expect.stringContaining('"budget.max_tokens" of agents/coder.md is 900'),
  ])
  expect(found?.fix).toContain('set it to null: config/budget-policy.json')
})

it('reports endpoints that do not accept connections, by the setting that names them', async () => {
  const folder = await tempFolder()
  const server = createServer()
  const port = await listen(server)
  onTestFinished(() => void server.close())
  await writeFile(join(folder, 'tools.json'), JSON.stringify({ tools: { weather: { url: 'http://127.0.0.1:1/w' } } }))
  const env = {
    BELLWETHER__NOTIFY__WEBHOOK_URL: `http://127.0.0.1:${port}/hook`,
    BELLWETHER__TELEMETRY__OTLP_ENDPOINT: 'http://127.0.0.1:1',
  }
  expect(await finding('endpoints', folder, env)).toMatchObject({
    state: 'warning',
    found:
      'telemetry.otlp_endpoint: 127.0.0.1:1 does not accept connections\nweather of tools.json: 127.0.0.1:1 does not accept connections',
    fix: 'start the server, or correct telemetry.otlp_endpoint, weather of tools.json',
  })
})

it('the port of the own up is not a problem, that of another program is; a killed up is reported', async () => {
  const folder = await tempFolder()
  const dataDir = join(folder, 'data')
  await mkdir(dataDir, { mode: 0o700 })
  const server = createServer()
  const port = await listen(server)
  onTestFinished(() => void server.close())
  const env = { BELLWETHER__SERVER__PORT: String(port) }
  expect(await finding('port', folder, env)).toMatchObject({ state: 'bad', fix: expect.stringContaining('--port 0') })
  const up = (pid: number) =>
    writeFile(join(dataDir, 'up.json'), JSON.stringify({ url: `http://127.0.0.1:${port}`, pid }), { mode: 0o600 })
  await up(process.pid)
  expect(await finding('port', folder, env)).toMatchObject({ state: 'good' })
  expect(await finding('up', folder, env)).toMatchObject({ state: 'good', found: expect.stringContaining(`${port}`) })
  await up(2 ** 22 + 1)
  expect(await finding('port', folder, env)).toMatchObject({ state: 'bad' })
  expect(await finding('up', folder, env)).toMatchObject({
    state: 'warning',
    found: expect.stringContaining('was killed'),
    fix: expect.stringContaining('bellwether up'),
  })
})

it('reports modes that let other accounts in, and a clock that is behind the program', async () => {
  const folder = await tempFolder()
  const dataDir = join(folder, 'data')
  expect(await finding('modes', folder, {})).toMatchObject({ state: 'good' })
  await mkdir(dataDir, { mode: 0o700 })
  await writeFile(join(dataDir, 'admin-key'), 'k', { mode: 0o644 })
  chmodSync(join(dataDir, 'admin-key'), 0o644)
  expect(await finding('modes', folder, {})).toMatchObject({
    state: 'bad',
    fix: `chmod 600 ${join(dataDir, 'admin-key')}`,
  })
  chmodSync(dataDir, 0o777)
  expect(await finding('modes', folder, {})).toMatchObject({ state: 'bad', fix: `chmod go-w ${dataDir}` })
  expect(await checkClock(Date.parse('2001-01-01'))).toMatchObject({
    state: 'bad',
    fix: expect.stringContaining('timedatectl'),
  })
  expect(await finding('clock', folder, {})).toMatchObject({ state: 'good' })
})
