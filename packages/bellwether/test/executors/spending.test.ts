/** Spending limits of programs and functions: a program is stopped while it runs, and what a function reports counts. */
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { systemClock } from '@bellwether/base'
import type { SpendingAction } from '@bellwether/protocol'
import { releaseParked } from '../../src/kernel/verbs/accounts/accounts.js'
import { readSpending } from '../../src/kernel/reads/quotas.js'
import { setSpendingLimits } from '../../src/kernel/verbs/budgets/spending.js'
import type { AgentFunction } from '../../src/worker/agent.js'
import { openWorker } from '../../src/worker/worker.js'
import { headOf, turnRow } from '../support/kernel-rows.js'
import { moveToNoon, project } from '../support/kernel.js'
import { quietLog } from '../support/quiet-log.js'
import { turnsDone } from '../support/worker.js'
import { carriers, openCommandSetup, type CommandSetup } from './command-setup.js'

let b: CommandSetup
beforeAll(async () => {
  b = await openCommandSetup()
  await moveToNoon(b.t)
})
afterAll(() => b.close())

const limit = (agent: string, tokens: number, action: SpendingAction) =>
  setSpendingLimits(b.t.db, [{ scope: 'agent', name: agent, period: 'day', tokens }], { action, timeZone: 'UTC' })
const usedBy = async (agent: string) =>
  (await readSpending(b.t.db)).find((one) => one.limit === `agent ${agent} day`)?.tokens?.used

const used = (id: number) =>
  JSON.stringify({ type: 'assistant', message: { id: `m${id}`, usage: { input_tokens: 400, output_tokens: 100 } } })
const result = JSON.stringify({ type: 'result', result: 'did it', usage: { input_tokens: 1_200, output_tokens: 300 } })
/** Uses 1,500 tokens; then it works until it is stopped, or ends if the file exists. */
const program = (file: string) =>
  `${[1, 2, 3].map((id) => `echo '${used(id)}'`).join('; ')}; [ -e ${file} ] || exec sleep 1000; echo '${result}'`

it('stops a running program when a spending limit is used up, parks its turn until the next period, and then runs it again', async () => {
  await limit('ann', 1_000, 'hold')
  const file = join(b.folder, 'goes-on')
  const turn = await b.begin({ preset: 'claude', command: program(file) }, { agentId: 'ann' })
  await turnsDone(b.worker)
  expect(carriers(turn)).toEqual([])
  expect((await headOf(b.t, 'ann')).status).toBe('suspended')
  expect(await usedBy('ann')).toBe(1_500)
  const [hold] = await b.t.all<{ account: string; until: Date }>('select * from state.account_holds')
  expect(hold!.account).toBe('spending: p, agent ann day')
  expect(hold!.until.toISOString()).toMatch(/T00:00:00\.000Z$/)
  const steps = await b.t.all('select status, error from state.agent_steps where agent_turn_id = $1', turn)
  expect(steps).toContainEqual({ status: 'failed', error: 'spending_limit' })

  await b.write('goes-on', '')
  await limit('ann', 10_000, 'hold')
  await releaseParked(b.t.db, b.t.ids)
  await b.worker.step()
  expect(await b.ended(turn)).toMatchObject({ outcome: 'success', text: 'did it', deaths: 0, taskEvents: 1 })
  expect(await usedBy('ann')).toBe(3_000)
})

it.each(['stop_run', 'manual_handoff'] as const)(
  'ends the turn of a running program with "%s", and starts no other',
  async (action) => {
    const agent = `bob-${action.replace('_', '-')}`
    await limit(agent, 1_000, action)
    const spec = { preset: 'claude', command: program('/none') } as const
    const turn = await b.begin(spec, { agentId: agent })
    expect(await b.ended(turn)).toMatchObject({ outcome: 'failed', error: 'budget_exceeded', taskEvents: 1 })
    expect(carriers(turn)).toEqual([])
    const next = await b.run(spec, { agentId: agent })
    expect(next).toMatchObject({ outcome: 'failed', error: 'budget_exceeded', steps: [] })
    expect(next.text).toBe(`The turn was not started: the spending limit "agent ${agent} day" is used up.`)
  },
)

it('delivers the result of a program that ends while it uses the limit up', async () => {
  await limit('cid', 1_000, 'stop_run')
  await b.write('done', '')
  const spec = { preset: 'claude', command: program(join(b.folder, 'done')) } as const
  expect(await b.run(spec, { agentId: 'cid' })).toMatchObject({ outcome: 'success', text: 'did it' })
  expect(await usedBy('cid')).toBe(1_500)
})

it('counts what a function reports, once, and refuses its reservation when the limit is used up', async () => {
  await limit('dan', 1_000, 'hold')
  const step = (tokens: number) => ({
    ...{ stepId: 'dan-step', phase: 'call', status: 'running' as const },
    metadata: { usage: { input_tokens: tokens } },
  })
  const agent: AgentFunction = async (context) => {
    await context.record({ step: step(300) })
    await context.record({ step: step(700) })
    const reserved = await context.reserve({ reservationId: 'dan-1', tokens: 400 })
    const left = await context.record({ step: step(1_000) })
    return { deliver: { text: `${reserved.what}, ${left?.spending?.limit ?? 'room'}` } }
  }
  await b.t.kernel.putAgents([{ projectId: project, agentId: 'dan', workerTarget: 'functions' }])
  const { agentTurnId } = await b.t.kernel.enqueue({ projectId: project, agentId: 'dan', instruction: 'x' })
  const settings = { concurrency: 1, suspendTimeoutSeconds: 30, resumeLeaseSeconds: 30 }
  const worker = openWorker({
    ...{ kernel: b.t.kernel, clock: systemClock, log: quietLog, workerId: 'functions', workerTarget: 'functions' },
    settings: { ...settings, inboxProcessingTimeoutSeconds: 30 },
    agent: () => agent,
  })
  await worker.step()
  await turnsDone(worker)
  const row = await turnRow(b.t, agentTurnId)
  expect((await b.t.kernel.readCard(row.deliverable_card_id!))?.content).toEqual({ text: 'exceeded, agent dan day' })
  expect(await usedBy('dan')).toBe(1_000)
})
