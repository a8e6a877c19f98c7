/** What turns use (H7.6): usage by kind while a step runs, one purse for a turn and its children, working time without people. */
import { expect, it } from 'vitest'
import type { ClaimedTurn } from '../../../src/kernel/verbs/turn/claim.js'
import { kernelPerFile, project } from '../../support/kernel.js'
import { budgetOf, deliverAll, forkFrom, join, reuse, wrongSums } from '../../support/forks.js'
import { eventsOf, turnRow } from '../../support/kernel-rows.js'
import { guardOn, pass } from '../../support/watchdog.js'
import type { NewTurn } from '../../../src/kernel/verbs/turn/enqueue.js'

const t = kernelPerFile()

/** A running turn with a budget. */
async function spender(agentId: string, budget: NonNullable<NewTurn['budget']>) {
  await t.agents(agentId)
  return t.running(agentId, { budget })
}

const usage = {
  input_tokens: 100,
  output_tokens: 30,
  cache_read_tokens: 5_000,
  cache_write_tokens: 20,
  cost_usd: 0.012,
}

const report = (turn: ClaimedTurn, stepId: string, metadata: Record<string, unknown>, status = 'running') =>
  t.kernel.record({ ...turn, step: { stepId, phase: 'command', status, metadata } })

it('[H7.6] charges the usage that a running step reports, by kind and in money; a repeated report changes nothing', async () => {
  const turn = await spender('a', { tokens: 1_000, costMicros: 50_000 })
  expect(await report(turn, 'a-1', { usage })).toMatchObject({
    left: { tokens: 850, costMicros: 38_000, exceededKeys: [] },
  })
  await report(turn, 'a-1', { usage })
  await report(turn, 'a-1', { usage: { ...usage, output_tokens: 60, cost_usd: 0.02 } }, 'success')
  // A model's reservations have charged this one.
  await report(turn, 'a-2', { usage, charged: true }, 'success')
  expect(await budgetOf(t, turn.agentTurnId)).toMatchObject({
    tokens_used: 180,
    output_tokens_used: 60,
    cache_read_tokens_used: 5_000,
    cache_write_tokens_used: 20,
    cost_micros_used: 20_000,
    tokens_reserved: 0,
  })
  expect(await wrongSums(t)).toEqual([])
  // One event per status, however often a running step reports.
  expect(await eventsOf(t, turn.agentTurnId, 'step')).toHaveLength(3)
  expect(
    await t.kernel.record({
      ...turn,
      turnEpoch: turn.turnEpoch - 1,
      step: { stepId: 'a-3', phase: 'x', status: 'y', metadata: { usage } },
    }),
  ).toBe('stale')
  expect((await budgetOf(t, turn.agentTurnId)).tokens_used).toBe(180)
})

it('[H7.6] [H7.5] [T4.1] a turn over its budget fails with its keys, although its worker delivers success', async () => {
  const turn = await spender('b', { tokens: 10, costMicros: 20_000 })
  expect(await report(turn, 'b-1', { usage: { total_tokens: 50_000, cost_usd: 0.03 } })).toMatchObject({
    left: { exceededKeys: ['tokens', 'cost_micros'] },
  })
  await deliverAll(t, [turn])
  expect(await turnRow(t, turn.agentTurnId)).toMatchObject({ outcome: 'failed', error: 'budget_exceeded' })
  const [task] = await eventsOf(t, turn.agentTurnId, 'task')
  expect(task!.payload).toMatchObject({ error: 'budget_exceeded', exceeded_keys: ['tokens', 'cost_micros'] })
  const card = await t.kernel.readCard(task!.payload.deliverable_card_id as string)
  expect(card!.content).toMatchObject({ text: 'b is done', fallback: { exceeded_keys: ['tokens', 'cost_micros'] } })
})

it('[H7.6] the runs of a task and their children draw on one purse, which is charged by kind', async () => {
  await t.kernel.openPurse({
    projectId: project,
    budgetId: 'task',
    tokens: 1_000,
    used: { tokens: 100, costMicros: 7 },
  })
  await t.agents('c1')
  const first = await spender('c', { purseId: 'task' })
  await forkFrom(t, first, 'c-call', [reuse('c1')])
  const child = (await t.claim()).find((one) => one.agentId === 'c1')!
  // The child has an equal share of what is left; its usage above that would come from its parent.
  await report(child, 'c1-1', { usage })
  await deliverAll(t, [child])
  await join(t, 2)
  await t.kernel.stop({ projectId: project, agentTurnId: first.agentTurnId })
  expect(await t.kernel.readBudget('task')).toMatchObject({
    tokens_used: 250,
    cost_micros_used: 12_007,
    cache_read_tokens_used: 5_000,
    output_tokens_used: 30,
    tokens_escrowed: 0,
  })
  const second = await spender('c', { purseId: 'task' })
  expect(await t.kernel.limitTurn(second, {})).toMatchObject({ tokens: 750, exceededKeys: [] })
  expect(await report(second, 'c-2', { usage: { total_tokens: 751 } })).toMatchObject({
    left: { exceededKeys: ['tokens'] },
  })
  // Opening the purse again sets its limits and keeps what was used.
  await t.kernel.openPurse({ projectId: project, budgetId: 'task', tokens: 5_000, used: { tokens: 9 } })
  await deliverAll(t, [second])
  expect(await t.kernel.readBudget('task')).toMatchObject({ tokens_used: 1_001, token_limit: 5_000, closed_at: null })
  await expect(t.kernel.openPurse({ projectId: 'other', budgetId: 'task' })).rejects.toMatchObject({
    code: 'duplicate_budget',
  })
})

it('[H7.6] the limits of an agent narrow the budget of its turn and give the rest back', async () => {
  await t.kernel.openPurse({ projectId: project, budgetId: 'wide', tokens: 1_000 })
  const turn = await spender('d', { purseId: 'wide' })
  expect(await t.kernel.limitTurn(turn, { tokens: 300, wallMs: 60_000 })).toMatchObject({ tokens: 300 })
  expect(await t.kernel.limitTurn(turn, { tokens: 900 })).toMatchObject({ tokens: 300 })
  expect(await t.kernel.readBudget('wide')).toMatchObject({ tokens_escrowed: 300 })
  // The slice is no longer soft: it may not take more than the agent's own limit.
  expect(await t.kernel.reserve(turn, { reservationId: 'd-1', tokens: 301 })).toMatchObject({ what: 'exceeded' })
  expect(await budgetOf(t, turn.agentTurnId)).toMatchObject({
    exceeded_keys: ['tokens'],
    agent_limits: ['tokens', 'wall_ms'],
  })
  const free = await t.running((await t.agents('d2'), 'd2'))
  expect(await t.kernel.limitTurn(free, {})).toBeNull()
  expect(await t.kernel.limitTurn(free, { tokens: 50 })).toMatchObject({ tokens: 50, costMicros: null })
  await deliverAll(t, [free, turn])
  expect(await budgetOf(t, free.agentTurnId)).toMatchObject({ closed_at: expect.any(Date), agent_limits: ['tokens'] })
  expect(await t.kernel.limitTurn(free, { tokens: 5 })).toBe('stale')
  expect(await t.kernel.readBudget('wide')).toMatchObject({ tokens_escrowed: 0, open_children: 0 })
})

it('[H7.6] waiting for a person, in the turn or in a child, and frozen time are not working time', async () => {
  const asking = await spender('e1', { wallMs: 60_000 })
  const working = await spender('e2', { wallMs: 60_000 })
  const frozen = await spender('e3', { wallMs: 60_000 })
  await t.agents('e4')
  const parent = await spender('e5', { wallMs: 60_000 })
  const call = (toolCallId: string, hostedBy?: string) => ({
    toolCallId,
    toolName: hostedBy === undefined ? 'grep' : 'ask_person',
    args: {},
    timeoutSeconds: 10_000,
    ...(hostedBy && { hostedBy }),
  })
  await t.kernel.suspend({ ...asking, stepId: 's1', calls: [call('e-ask', 'people')] }, 10_000)
  await t.kernel.suspend({ ...working, stepId: 's2', calls: [call('e-grep')] }, 10_000)
  await forkFrom(t, parent, 'e-fork', [reuse('e4')])
  const child = (await t.claim()).find((one) => one.agentId === 'e4')!
  await t.kernel.suspend({ ...child, stepId: 's4', calls: [call('e-ask-2', 'people')] }, 10_000)
  await report(frozen, 'e3-1', { frozen_ms: 100_000 })
  const beating = { step: async () => void (await t.kernel.beat([frozen], null)) }
  await pass(t, 90, guardOn(t), beating)
  expect(await turnRow(t, working.agentTurnId)).toMatchObject({ outcome: 'failed', error: 'budget_exceeded' })
  for (const turn of [asking, frozen, parent, child]) expect((await turnRow(t, turn.agentTurnId)).outcome).toBeNull()
  // With the answer, the clock of the turn runs again.
  await t.kernel.report([{ projectId: project, toolCallId: 'e-ask', status: 'success', result: 'yes' }])
  const resumed = (await t.claim()).find((one) => one.agentTurnId === asking.agentTurnId)!
  await t.kernel.resume(resumed, 'w')
  const both = { step: async () => void (await t.kernel.beat([frozen, resumed], null)) }
  await pass(t, 90, guardOn(t), both)
  expect(await turnRow(t, asking.agentTurnId)).toMatchObject({ outcome: 'failed', error: 'budget_exceeded' })
  const [task] = await eventsOf(t, asking.agentTurnId, 'task')
  expect(task!.payload).toMatchObject({ exceeded_keys: ['wall_ms'] })
  const { wall_ms_used: used } = await t.one<{ wall_ms_used: number }>(
    'select wall_ms_used from state.budgets where agent_turn_id = $1',
    asking.agentTurnId,
  )
  expect(used).toBeLessThan(120_000)
})
