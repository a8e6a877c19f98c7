/** Real worker processes with a real HTTP provider, killed with SIGKILL in the middle of a model's turn: others end it, once. */
import { rm } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openFakeProvider, type FakeProvider } from '../../support/agents/fake-openai.js'
import { kernelPerFile, project, target } from '../../support/kernel.js'
import { eventsOf, headOf, turnRow, waitsOf } from '../../support/kernel-rows.js'
import { toolName } from '../../support/agents/model-agents.js'
import { testFolder } from '../../support/postgres.js'
import { runCli, type Cli } from '../../support/process.js'
import { until } from '../../support/until.js'

const agents = fileURLToPath(new URL('../../support/agents/model-agents.ts', import.meta.url))
// So long that a busy machine alone causes no takeover, which would call the model once more.
const timings = {
  WORKER__INBOX_PROCESSING_TIMEOUT_SECONDS: '6',
  WORKER__WATCHDOG_INTERVAL_SECONDS: '0.3',
  WORKER__RESUME_LEASE_SECONDS: '6',
  WORKER__BEAT_SECONDS: '0.4',
  WORKER__POLL_SECONDS: '0.3',
  DATABASE__POOL_SIZE: '4',
}

const t = kernelPerFile({ time: 'real' })
let provider: FakeProvider
let folder: string
const workers: Cli[] = []
beforeAll(async () => {
  provider = await openFakeProvider()
  folder = await testFolder()
})
afterAll(async () => {
  for (const cli of workers.filter((one) => one.alive())) cli.signal('SIGKILL')
  await Promise.all(workers.map((cli) => cli.ended))
  await provider.close()
  await rm(folder, { recursive: true, force: true })
})

async function worker(): Promise<Cli> {
  const settings = Object.fromEntries(
    Object.entries({ ...timings, DATABASE__URL: t.url, NATS__URL: '' }).map(([name, value]) => [
      `BELLWETHER__${name}`,
      value,
    ]),
  )
  const env = { ...settings, OPENAI_BASE_URL: provider.url, OPENAI_API_KEY: 'k' }
  const cli = runCli(['worker', '--target', target, '--agents', agents, '--json', '--parent-pipe'], {
    cwd: folder,
    env,
  })
  workers.push(cli)
  await cli.ready()
  return cli
}

async function kill(cli: Cli): Promise<void> {
  cli.signal('SIGKILL')
  await cli.ended
}

async function begin(agentId: string): Promise<string> {
  await t.agents(agentId)
  return (await t.kernel.enqueue({ projectId: project, agentId, instruction: 'count' })).agentTurnId
}

const ended = (turn: string) =>
  until(
    'the turn has ended',
    async () => ((await turnRow(t, turn)).ended_at === null ? undefined : turnRow(t, turn)),
    25_000,
  )

async function expectOnce(turn: string, text: string, steps: number): Promise<void> {
  const row = await ended(turn)
  expect(row).toMatchObject({ outcome: 'success', error: null })
  expect((await t.kernel.readCard(row.deliverable_card_id!))!.content).toEqual({ text })
  expect(await eventsOf(t, turn, 'task')).toHaveLength(1)
  const rows = await t.all<{ step_id: string; status: string }>(
    'select step_id, status from state.agent_steps where agent_turn_id = $1 order by 1',
    turn,
  )
  expect(rows).toEqual(
    Array.from({ length: steps }, (_, index) => ({ step_id: `${turn}-s000${index + 1}`, status: 'success' })),
  )
}

it('[T8.1] [W2.1] killed while the model thinks: the other worker asks again and delivers', async () => {
  const from = provider.requests.length
  provider.behave((_request, number) =>
    number === from + 1 ? { text: 'never to be read', everyMs: 500 } : { text: 'thought by the heir' },
  )
  const first = await worker()
  const turn = await begin('thinker')
  await until('the model is asked', async () => provider.requests.length > from || undefined)
  await kill(first)
  const heir = await worker()
  await expectOnce(turn, 'thought by the heir', 1)
  expect(provider.requests.length - from).toBe(2)
  await kill(heir)
})

it('[T8.1] [W2.3b] killed between the tool’s result and the resume: the tool is not called again, nor the model for the same step', async () => {
  const from = provider.requests.length
  provider.behave((_request, number) =>
    number === from + 1 ? { calls: [{ name: toolName, args: { n: 1 } }] } : { text: 'counted once' },
  )
  const first = await worker()
  const turn = await begin('caller')
  await until('it waits for the tool', async () =>
    (await headOf(t, 'caller')).status === 'suspended' ? true : undefined,
  )
  first.signal('SIGSTOP')
  const [wait] = await waitsOf(t, turn)
  await t.kernel.report([{ projectId: project, toolCallId: wait!.tool_call_id, status: 'success', result: 1 }])
  await kill(first)
  const heir = await worker()
  await expectOnce(turn, 'counted once', 2)
  expect(await waitsOf(t, turn)).toHaveLength(1)
  expect(provider.requests.length - from).toBe(2)
  await kill(heir)
})

it("[T1.6] a worker killed while it delivers: the model's answer is delivered once, and the model is not called again", async () => {
  const from = provider.requests.length
  const first = await worker()
  let turn = ''
  // A delivery waits at its card for as long as the test holds the lock; steps are written as ever.
  await t.all(`create function state.test_wait() returns trigger language plpgsql as
    'begin perform pg_advisory_xact_lock(42); return new; end';`)
  await t.all(`create trigger test_wait before insert on cards.cards for each row when (new.type = 'task.deliverable')
    execute function state.test_wait()`)
  await t.db.transaction(async (tx) => {
    await tx.query({ text: 'select pg_advisory_xact_lock(42)' })
    provider.behave(() => ({ text: 'written before the end' }))
    turn = await begin('deliverer')
    await until('the step is written', async () => {
      const rows = await t.all("select from cards.cards where metadata ->> 'agent_turn_id' = $1", turn)
      return rows.length > 0 || undefined
    })
    await kill(first)
  })
  const heir = await worker()
  await expectOnce(turn, 'written before the end', 1)
  expect(provider.requests.length - from).toBe(1)
  await kill(heir)
})
