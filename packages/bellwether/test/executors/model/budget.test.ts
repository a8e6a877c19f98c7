/** Budgets in a model's turn (hazard 18, H7.5): reserved before each call, charged after it, never crossed by more than an answer. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { NewTask } from '../../../src/kernel/verbs/batches/fork.js'
import type { ModelRequest } from '../../../src/ports/model/model.js'
import { promptTokens } from '../../../src/ports/model/tokens.js'
import { budgetOf, join, reuse, wrongSums } from '../../support/forks.js'
import { project } from '../../support/kernel.js'
import { turnRow } from '../../support/kernel-rows.js'
import { until } from '../../support/until.js'
import { openModelSetup, toolboxOf, type ModelSetup } from './model-setup.js'

const tasks: NewTask[] = Array.from({ length: 50 }, (_, number) => reuse(`child-${number}`))
const plain = toolboxOf(['note', 'big'])

let b: ModelSetup
beforeAll(async () => {
  b = await openModelSetup({
    tools: { note: () => 'noted', big: () => 'x'.repeat(9_000) },
    toolbox: {
      ...plain,
      plan: (request) =>
        request.name === 'fork_join'
          ? { call: { toolCallId: request.toolCallId, toolName: 'fork_join', args: {}, batch: { tasks } } }
          : plain.plan(request),
    },
  })
})
afterAll(() => b.close())

const usage = (inputTokens: number, outputTokens: number, cacheReadTokens = 0, cacheWriteTokens = 0) => ({
  inputTokens,
  outputTokens,
  cacheReadTokens,
  cacheWriteTokens,
})

it('reserves the prompt and the longest answer of each call, and charges the real usage', async () => {
  const asked: number[] = []
  const model = b.script((request, turn) => {
    asked.push(promptTokens(request) + request.maxOutputTokens)
    return turn === 0
      ? { calls: [{ name: 'note', args: {} }], usage: usage(100, 20) }
      : { text: 'done', usage: usage(150, 10) }
  })
  const ended = await b.run(
    { model, max_output_tokens: 500, prices: { input_per_million: 2, output_per_million: 10 } },
    { budget: { tokens: 10_000, costMicros: 100_000 } },
  )
  expect(ended.outcome).toBe('success')
  expect(await budgetOf(b.t, ended.agent_turn_id!)).toMatchObject({
    tokens_used: 280,
    tokens_reserved: 0,
    cost_micros_used: 800,
  })
  const rows = await b.t.all<{ tokens: number }>(
    'select tokens from state.reservations where agent_turn_id = $1 order by created_at',
    ended.agent_turn_id,
  )
  expect(rows[0]!.tokens).toBe(asked[0])
  // The second is corrected by what the first really came to.
  expect(rows[1]!.tokens).toBeLessThan(asked[1]!)
})

it('charges a call with unknown usage in full, and notes it in the step', async () => {
  const model = b.script(() => ({ text: 'no bill', usage: null }))
  const ended = await b.run({ model, max_output_tokens: 500 }, { budget: { tokens: 10_000 } })
  const [step] = ended.steps
  expect(step!.metadata).toMatchObject({ charged_in_full: 1 })
  expect(step!.metadata).not.toHaveProperty('usage')
  const { tokens_used } = await budgetOf(b.t, ended.agent_turn_id!)
  expect(tokens_used).toBeGreaterThan(500)
})

it('[H7.5] ends the turn before a call that the budget does not cover, and hands over the work so far', async () => {
  let asked = 0
  const model = b.script((_request, turn) => {
    asked += 1
    return { text: `found ${turn}`, calls: [{ name: 'big', args: { n: turn } }] }
  })
  const ended = await b.run(
    { model, max_output_tokens: 500, budget: { degrade: ['manual_handoff'] } },
    { budget: { tokens: 6_000 } },
  )
  expect(ended).toMatchObject({ outcome: 'failed', error: 'budget_exceeded', taskEvents: 1 })
  expect(ended.text).toContain(`found ${asked - 1}`)
  expect(ended.text).toContain('Handed over')
  expect(ended.text).toContain('- step 1: big {"n":0} → success')
  expect(ended.steps.at(-1)).toMatchObject({ status: 'failed', error: 'budget_exceeded' })
  const budget = await budgetOf(b.t, ended.agent_turn_id!)
  expect(budget.tokens_used).toBeLessThanOrEqual(6_000)
  const stopped = await b.run(
    { model, max_output_tokens: 500, budget: { degrade: ['stop_run'] } },
    { budget: { tokens: 400 } },
  )
  expect(stopped).toMatchObject({ outcome: 'failed', error: 'budget_exceeded' })
  expect(stopped.text).not.toContain('Handed over')
})

it('[H7.5] reduced_context continues with a smaller conversation and a shorter answer within the budget', async () => {
  const asked: ModelRequest[] = []
  const model = b.script((request) => {
    asked.push(request)
    return asked.length < 3
      ? { text: `step ${asked.length}`, calls: [{ name: 'big', args: {} }] }
      : { text: 'short and sweet' }
  })
  const ended = await b.run({ model, max_output_tokens: 2_000 }, { budget: { tokens: 8_900 } })
  expect(ended).toMatchObject({ outcome: 'success', text: 'short and sweet' })
  const last = asked.at(-1)!
  expect(last.maxOutputTokens).toBeLessThan(2_000)
  expect(promptTokens(last)).toBeLessThan(promptTokens(asked.at(-2)!))
  expect((await budgetOf(b.t, ended.agent_turn_id!)).tokens_used).toBeLessThanOrEqual(8_900)
})

it('[H7.5] delivers an answer that exceeds the budget and ends the turn', async () => {
  const model = b.script(() => ({ text: 'a dear answer', usage: usage(90_000, 50) }))
  const ended = await b.run({ model, max_output_tokens: 500 }, { budget: { tokens: 5_000 } })
  expect(ended).toMatchObject({
    outcome: 'failed',
    error: 'budget_exceeded',
    text: expect.stringContaining('a dear answer'),
  })
})

it.each([
  ['max_tokens of the file', { budget: { max_tokens: 1_500 } }, {}],
  [
    'max_cost_usd of the file',
    { budget: { max_cost_usd: 0.015 }, prices: { input_per_million: 10, output_per_million: 10 } },
    {},
  ],
  ['the budget of the turn', {}, { budget: { tokens: 1_500 } }],
])('[H7.5] enforces %s too', async (_what, spec, more) => {
  const model = b.script((_request, turn) => ({
    text: `n${turn}`,
    calls: [{ name: 'note', args: {} }],
    usage: usage(300, 100),
  }))
  const ended = await b.run({ model, max_output_tokens: 500, ...spec }, more)
  expect(ended).toMatchObject({ outcome: 'failed', error: 'budget_exceeded', text: expect.stringContaining('n') })
  const { tokens_used, exceeded_keys } = await budgetOf(b.t, ended.agent_turn_id!)
  expect(tokens_used).toBeLessThanOrEqual(1_500)
  expect(exceeded_keys).toHaveLength(1)
  expect(ended.steps.length).toBeGreaterThan(1)
})

it('[H7.5] enforces the working time: a call is not waited for longer than the rest of it', async () => {
  const model = b.script(async (_request, _turn, signal) => {
    await until('it is aborted', async () => signal.aborted || undefined)
    return {}
  })
  const ended = await b.run({ model, budget: { max_wall_seconds: 0.3 } })
  expect(ended).toMatchObject({ outcome: 'failed', error: 'budget_exceeded', text: expect.stringContaining('time') })
})

it('[H7.5] fifty children at once spend no more than their parent’s purse, by not even one answer', async () => {
  const cap = 60_000
  await b.t.kernel.openPurse({ projectId: project, budgetId: 'purse', tokens: cap })
  let together = 0
  let most = 0
  const child = b.script(async (_request, turn) => {
    together += 1
    most = Math.max(most, together)
    await Promise.resolve().then(() => (together -= 1))
    return turn < 12 ? { text: 'x'.repeat(600), calls: [{ name: 'note', args: { turn } }] } : { text: 'enough' }
  })
  const parent = b.script((_request, turn) =>
    turn === 0 ? { calls: [{ name: 'fork_join', args: {} }] } : { text: 'joined' },
  )
  await b.t.agents(...tasks.map((task) => task.targetRef))
  for (const { targetRef } of tasks)
    await b
      .begin({ model: child, max_output_tokens: 300 }, { agentId: targetRef })
      .then((turn) => b.t.kernel.stop({ projectId: project, agentTurnId: turn, reason: 'test' }))
  const turn = await b.begin({ model: parent, max_output_tokens: 300 }, { budget: { purseId: 'purse' } })
  await until(
    'the parent has ended',
    async () => {
      await b.worker.step()
      await b.answerTools()
      await join(b.t)
      return (await turnRow(b.t, turn)).ended_at !== null || undefined
    },
    100_000,
  )
  const children = await b.t.all<{ outcome: string; error: string | null }>(
    "select outcome, error from state.agent_inbox where message_type = 'turn' and agent_id like 'child-%' and outcome <> 'canceled'",
  )
  expect(children).toHaveLength(50)
  expect(children.every(({ outcome, error }) => outcome === 'success' || error === 'budget_exceeded')).toBe(true)
  expect(children.some(({ error }) => error === 'budget_exceeded')).toBe(true)
  const purse = (await b.t.kernel.readBudget('purse'))!
  expect(purse.tokens_used).toBeLessThanOrEqual(cap)
  // And it was not left lying about either.
  expect(purse.tokens_used).toBeGreaterThan(cap * 0.7)
  expect(await wrongSums(b.t)).toEqual([])
})
