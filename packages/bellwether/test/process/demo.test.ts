/** The demo as a process, the way `npm start` runs it: killed, started twice, interrupted, played to its end, and under attack. */
import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { openFakeProvider, type FakeRequest } from '../support/fake-openai.js'
import { testFolder } from '../support/postgres.js'
import { runCli, type Cli } from '../support/process.js'
import { until } from '../support/until.js'

const housePattern = /the house is up \(pid (\d+), database (\d+), workers (\d+), (\d+)\)/

let cwd = ''
beforeAll(async () => {
  cwd = await testFolder()
})
afterAll(() => rm(cwd, { recursive: true, force: true }))

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false
    throw error
  }
}

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
    'the house is up',
    async () => {
      if (!demo.alive()) throw new Error(`the demo has ended:\n${demo.stdout()}${demo.stderr()}`)
      return housePattern.exec(demo.stdout())?.slice(1).map(Number)
    },
    60_000,
  )
}

/** What a model that works does: calls the tools it is given, once, then answers as it is asked to. */
function works({ body }: FakeRequest) {
  const said = body.messages.filter((message) => message.role === 'assistant').length
  const offered = JSON.stringify(body.tools ?? [])
  if (said > 0) return { text: '{"summary":"written","files":["columns/bridge.md"]}' }
  if (offered.includes('"save"'))
    return { calls: [{ name: 'save', args: { path: 'columns/bridge.md', text: 'It is late.' } }] }
  if (offered.includes('"look-up"')) return { calls: [{ name: 'look-up', args: { question: 'who' } }] }
  return { text: 'A paragraph.' }
}

it(
  'with a key in the environment a real model does the writing; killed, the demo takes its house along and lets the next one in',
  { timeout: 120_000 },
  async () => {
    const provider = await openFakeProvider()
    provider.behave(works)
    onTestFinished(() => provider.close())
    const key = 'sk-demo-test'
    const demo = start([], { OPENAI_API_KEY: key, OPENAI_BASE_URL: provider.url })
    const pids = await up(demo)
    await until('the model is asked', async () => (provider.requests.length > 2 ? true : undefined), 30_000)
    expect(provider.requests[0]).toMatchObject({
      headers: { authorization: `Bearer ${key}` },
      body: { model: 'gpt-4.1-mini', max_tokens: 800 },
    })
    expect(demo.stdout()).toMatch(/openai\/gpt-4\.1-mini does the writing; at most [\d,]+ tokens in all/)
    expect(demo.stdout()).not.toContain(key)

    const second = start()
    expect(await second.ended).toBe(1)
    expect(second.stderr()).toContain('[folder_in_use]')

    demo.signal('SIGKILL')
    await until('the house follows it', async () => (pids.some(isAlive) ? undefined : true), 30_000)
  },
)

it('Ctrl-C while the house is starting stops everything', { timeout: 60_000 }, async () => {
  const demo = start()
  await until('it has begun', async () => (demo.stdout().includes('starting the house') ? true : undefined), 20_000)
  demo.signal('SIGINT')
  expect(await demo.ended).toBe(130)
  expect(demo.stdout()).toContain('everything is stopped')
  // The house removes it, and the database its own, when they go in good order.
  const left = ['up.json', 'database/cluster/postmaster.pid'].map((name) => join(cwd, '.bellwether/demo/run', name))
  expect(left.filter((file) => existsSync(file))).toEqual([])
})

it('the demo plays to its end after all that, with nothing stuck and nothing lost', { timeout: 120_000 }, async () => {
  const demo = start()
  const pids = await up(demo)
  const code = await demo.ended
  const told = demo.stdout()
  expect({ code, told: code === 0 ? '' : told }).toEqual({ code: 0, told: '' })
  expect(told).toMatch(/watch it live, this link works once: http:\/\/127\.0\.0\.1:\d+\/login\?token=/)
  expect(told).toMatch(/kill -9 \d+: the worker of desk is dead, marathon after lap \d+ of 12/)
  expect(told).toMatch(/a new worker \(pid \d+\) has taken marathon over after lap \d+, from its cards/)
  expect(told).toMatch(/T-\d+: boaster says done, and is not believed: .*claimed/)
  expect(told).toContain('printer was asked next; now it is done')
  expect(told).toMatch(/T-\d+: budget_exceeded.*; it waits for a person/)
  expect(told).toContain('12 of 13 children delivered; lead now asks a person')
  expect(told).toContain('the demo answers: yes')
  expect(told).toContain('the call was timed out, the turn went on: “unknown: No reading, so: changeable.”')
  expect(told).toContain('the watchdog answered in the pigeon’s place')
  expect(told).toMatch(/\nturns +\d+ in \d+ s\nby outcome +.*success \d+/)
  expect(told).toMatch(/\ntasks of the board +done 5\n/)
  for (const fault of [
    'tool that hangs',
    'tool that nobody hosts',
    'worker killed with SIGKILL',
    'budget that runs out',
  ])
    expect(told).toContain(`${fault} 1`)
  expect(told).toMatch(/\ninterventions +.*tool_timeout \d+/)
  expect(told).toMatch(/\ntask events per turn +1\nstuck +0\nlost +0\n/)
  expect(pids.filter(isAlive)).toEqual([])
})

it(
  'under attack turns and tasks keep flowing; Ctrl-C ends the attacks, and none is stuck or lost',
  { timeout: 240_000 },
  async () => {
    // This seed deals: connections cut, database killed, worker killed, house killed.
    const chaos = start(['--chaos', '--seed', '32', '--json'])
    await until(
      'the killed house is up again',
      async () => {
        if (!chaos.alive()) throw new Error(`chaos has ended:\n${chaos.stderr()}`)
        return chaos.stderr().includes('the house is up again') || undefined
      },
      120_000,
    )
    chaos.signal('SIGINT')
    const code = await chaos.ended
    const result = JSON.parse(chaos.stdout() || '{}') as { faults: Record<string, number>; turns: number }
    expect({ code, result, told: code === 0 ? '' : chaos.stderr() }).toMatchObject({
      code: 0,
      result: { ok: true, seed: 32, stuck: 0, lost: 0, violations: [], task_events_per_turn: 1 },
      told: '',
    })
    expect(result.faults).toMatchObject({
      'connections cut': 1,
      'database killed': 1,
      'worker killed': 1,
      'house killed': 1,
    })
    expect(result.turns).toBeGreaterThan(10)
  },
)
