/** Runs the demo as `npm start` does: kills it, starts it twice, interrupts it, runs it to its end, and runs chaos. */
import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { openFakeProvider, type FakeRequest } from '../support/agents/fake-openai.js'
import { testFolder } from '../support/postgres.js'
import { runCli, type Cli } from '../support/process.js'
import { isToday } from '../support/thorough.js'
import { until } from '../support/until.js'
import { isAlive } from '../support/folder.js'

const upPattern = /the server is up \(pid (\d+), database (\d+), workers (\d+), (\d+)\)/

let cwd = ''
beforeAll(async () => {
  cwd = await testFolder()
})
afterAll(() => rm(cwd, { recursive: true, force: true }))

function start(words: readonly string[] = ['--scripted'], env: Readonly<Record<string, string>> = {}): Cli {
  const demo = runCli(['demo', ...words], { cwd, env })
  onTestFinished(async () => {
    if (demo.alive()) demo.signal('SIGINT')
    await demo.ended
  })
  return demo
}

async function up(demo: Cli): Promise<number[]> {
  return until(
    'the server is up',
    async () => {
      if (!demo.alive()) throw new Error(`the demo exited:\n${demo.stdout()}${demo.stderr()}`)
      return upPattern.exec(demo.stdout())?.slice(1).map(Number)
    },
    60_000,
  )
}

/** A model that calls its tool once and then answers. */
function callThenAnswer({ body }: FakeRequest) {
  const answers = body.messages.filter((message) => message.role === 'assistant').length
  const offered = JSON.stringify(body.tools ?? [])
  if (answers > 0) return { text: '{"summary":"written","files":["columns/bridge.md"]}' }
  if (offered.includes('"save"'))
    return { calls: [{ name: 'save', args: { path: 'columns/bridge.md', text: 'It is late.' } }] }
  if (offered.includes('"look-up"')) return { calls: [{ name: 'look-up', args: { question: 'who' } }] }
  return { text: 'A paragraph.' }
}

it('a real model writes if the environment has a key; a second demo is rejected; the server of a killed demo stops', async () => {
  const provider = await openFakeProvider()
  provider.behave(callThenAnswer)
  onTestFinished(() => provider.close())
  const key = 'sk-demo-test'
  const demo = start([], { OPENAI_API_KEY: key, OPENAI_BASE_URL: provider.url })
  const pids = await up(demo)
  await until('the model is called', async () => (provider.requests.length > 2 ? true : undefined), 30_000)
  expect(provider.requests[0]).toMatchObject({
    headers: { authorization: `Bearer ${key}` },
    body: { model: 'gpt-4.1-mini', max_tokens: 800 },
  })
  expect(demo.stdout()).toMatch(/openai\/gpt-4\.1-mini does the writing, with at most [\d,]+ tokens in total/)
  expect(demo.stdout()).not.toContain(key)

  const second = start()
  expect(await second.ended).toBe(1)
  expect(second.stderr()).toContain('[folder_in_use]')

  demo.signal('SIGKILL')
  await until('the server exits too', async () => (pids.some(isAlive) ? undefined : true), 30_000)
})

it('Ctrl-C while the server starts stops everything', async () => {
  const demo = start()
  await until(
    'the server starts',
    async () => (demo.stdout().includes('starting bellwether up') ? true : undefined),
    20_000,
  )
  demo.signal('SIGINT')
  expect(await demo.ended).toBe(130)
  expect(demo.stdout()).toContain('everything is stopped')
  // A server and a database that stop in order remove these files.
  const left = ['up.json', 'database/cluster/postmaster.pid'].map((name) => join(cwd, '.bellwether/demo/run', name))
  expect(left.filter((file) => existsSync(file))).toEqual([])
})

it('the demo runs to its end after a kill and an interrupt, with no turn stuck or lost', async () => {
  const demo = start()
  const pids = await up(demo)
  const code = await demo.ended
  const output = demo.stdout()
  expect({ code, output: code === 0 ? '' : output }).toEqual({ code: 0, output: '' })
  expect(output).toMatch(/open the dashboard with this one-time link: http:\/\/127\.0\.0\.1:\d+\/login#token=/)
  expect(output).toMatch(/kill -9 \d+: killed the worker of target models; marathon is at lap \d+ of 12/)
  expect(output).toMatch(/a new worker \(pid \d+\) took marathon over at lap \d+, from its cards/)
  // A turn of the killed run may have written the page before this run aborted its task; then the page exists but is old.
  expect(output).toMatch(
    /T-\d+: boaster reports done; rejected: pages\/sports\.txt (is claimed but does not exist|has not changed)/,
  )
  expect(output).toContain('the recovery chain gave it to printer; it is done')
  expect(output).toMatch(/T-\d+: budget_exceeded.*; the task waits for a person/)
  expect(output).toContain('12 of 13 children delivered; lead asks a person')
  expect(output).toContain('the demo answers: yes')
  expect(output).toContain('the call timed out and the turn continued: “unknown: No reading, so: changeable.”')
  expect(output).toContain('no host runs pigeon-post; the watchdog timed the call out')
  expect(output).toMatch(/\nturns +\d+ in \d+ s\nby outcome +.*success \d+/)
  expect(output).toMatch(/\ntasks of the board +done 5\n/)
  for (const fault of ['tool hangs', 'tool without a host', 'worker killed with SIGKILL', 'budget exceeded'])
    expect(output).toContain(`${fault} 1`)
  expect(output).toMatch(/\ninterventions +.*tool_timeout \d+/)
  expect(output).toMatch(/\ntask events per turn +1\nstuck +0\nlost +0\nreplayed exactly +(\d+) of \1: .*model [1-9]/)
  expect(pids.filter(isAlive)).toEqual([])
})

// It takes more than a minute of CPU time.
it.runIf(isToday('chaos'))(
  'after one round of every chaos fault and poison turn all healthy turns have succeeded, the view equals the disk and no process is left',
  // A turn that kills its worker ends after several lives of a worker, which takes minutes on a busy machine.
  { timeout: 900_000 },
  async () => {
    const chaos = start(['--chaos', '--quick', '--rounds', '1', '--seed', '2280', '--json'])
    const code = await chaos.ended
    const result = JSON.parse(chaos.stdout() || '{}') as { faults: Record<string, number>; turns: number }
    expect({ code, result, output: code === 0 ? '' : chaos.stderr() }).toMatchObject({
      code: 0,
      result: {
        ok: true,
        seed: 2280,
        rounds: 1,
        stuck: 0,
        lost: 0,
        violations: [],
        task_events_per_turn: 1,
        processes_left: 0,
        view: { differences: 0 },
      },
      output: '',
    })
    const killed = ['worker', 'function worker', 'guardian', 'cleaner', 'sensor', 'postmaster', 'backend']
    expect(Object.keys(result.faults)).toEqual(
      expect.arrayContaining([
        ...[...killed, 'server', 'database', 'machine'].map((role) => `${role} frozen`),
        ...killed.map((role) => `${role} killed`),
        ...['connections cut', 'all killed at once'],
        ...['killer', 'hog', 'thrower', 'blocker'].map((agent) => `${agent} turn`),
      ]),
    )
    expect(result.turns).toBeGreaterThan(10)
  },
)
