/** Runs every example as a program on a real database, and fails if an example has no run. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { freshDatabase, testFolder } from '../support/postgres.js'
import { programFor, programOf, runCli, type Cli } from '../support/process.js'

const repository = fileURLToPath(new URL('../../../..', import.meta.url))
const examples = join(repository, 'examples')
const isBuilt = process.env['BELLWETHER_TEST_BUILT'] === '1'

/** Example → what it prints. */
const runs: Readonly<Record<string, RegExp>> = {
  'function-agent.mjs': /^Hello! You asked: Good morning\n$/,
  'isolation.mjs': /^agent_out_of_memory\nStill here: good morning\n$/,
  'tools.mjs': /^900 cents\n$/,
  'fork-join.mjs': /^success: .*"3".*"5".*"9"/,
  'budget.mjs': /^budget_exceeded: stopped before call 3\n$/,
  'person.mjs': /^Publish "The evening edition"\?\npublished\n$/,
  'schedule.mjs': /^(success, started once: true\n){2}$/,
  'events.mjs': /^state [^]*task success\ncontinue later/,
  'mcp-client.mjs': /run_turn among them: true\n[^]*Hello! You asked: Good morning/,
  'workspace-evidence.sh': /rejected: the file does not exist\n[^]*done/,
}
/** Example → the test that runs it. */
const runElsewhere: Readonly<Record<string, string>> = {
  'python-worker': 'packages/bellwether/test/http/workers/python.test.ts',
  'coding-agent': 'packages/bellwether/test/docs/tutorial.test.ts',
  evaluate: 'packages/bellwether/test/process/evals.test.ts',
}

let database: Awaited<ReturnType<typeof freshDatabase>>
let folder = ''
let server: Cli
let ready: Readonly<Record<string, unknown>>
let path = ''
beforeAll(async () => {
  database = await freshDatabase()
  folder = await testFolder()
  const env = { BELLWETHER__DATABASE__URL: database.url, BELLWETHER__NATS__URL: '' }
  server = runCli(['server', '--port', '0', '--json', '--parent-pipe'], { cwd: folder, env })
  ready = await server.ready(50_000)
  const bin = join(folder, 'bin')
  await mkdir(bin)
  const program = programFor([]).map((word) => `'${word}'`)
  await writeFile(join(bin, 'bellwether'), `#!/bin/sh\nexec '${process.execPath}' ${program.join(' ')} "$@"\n`)
  await chmod(join(bin, 'bellwether'), 0o755)
  path = `${bin}:${process.env['PATH']}`
})
afterAll(async () => {
  server.signal('SIGTERM')
  await server.ended
  await database.drop()
  await rm(folder, { recursive: true, force: true })
})

async function run(name: string): Promise<{ readonly code: number; readonly stdout: string; readonly stderr: string }> {
  const file = join(examples, name)
  const [command, args] = name.endsWith('.sh')
    ? ['sh', [file]]
    : [process.execPath, isBuilt ? [file] : [...programOf(file)]]
  const env = {
    ...process.env,
    PATH: path,
    DATABASE_URL: database.url,
    BELLWETHER_SERVER: String(ready['url']),
    BELLWETHER_KEY: String(ready['adminKey']),
    PERIOD_MS: '500',
    PERIODS: '2',
  }
  const child = spawn(command, args, { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] })
  let [stdout, stderr] = ['', '']
  child.stdout.on('data', (data: Buffer) => (stdout += data.toString()))
  child.stderr.on('data', (data: Buffer) => (stderr += data.toString()))
  const [code] = (await once(child, 'close')) as [number]
  return { code, stdout, stderr }
}

// One after the other: they share the worker target of one database.
for (const [name, expected] of Object.entries(runs)) {
  it(`examples/${name} prints what it should`, async () => {
    const { code, stdout, stderr } = await run(name)
    expect(code, stderr).toBe(0)
    expect(stdout).toMatch(expected)
  })
}

it('every example has a run and a line in the README', async () => {
  const found = (await readdir(examples)).filter((name) => name !== 'README.md')
  expect([...Object.keys(runs), ...Object.keys(runElsewhere)].toSorted()).toEqual(found.toSorted())
  const readme = await readFile(join(examples, 'README.md'), 'utf8')
  expect(found.filter((name) => !readme.includes(`](${name}`))).toEqual([])
  for (const [name, test] of Object.entries(runElsewhere))
    expect(await readFile(join(repository, test), 'utf8')).toContain(name)
})
