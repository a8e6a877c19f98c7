/** Budgets of HTTP workers: reserve, commit and release, what steps and claims say about the budget, and the end of a turn that exceeds it. */
import { expect, it } from 'vitest'
import { budgetOf } from '../../support/forks.js'
import { guardOn } from '../../support/watchdog.js'
import { serverPerFile, type Body } from '../test-server.js'
import { workerClient } from './worker-client.js'

const server = serverPerFile()
const { target, agent, enqueue, claim, callWorkerApi, detail, counts, pass } = workerClient(server)

let spenders = 0
/** A claimed turn with a budget. */
async function spender(budget?: object): Promise<Body> {
  spenders += 1
  await enqueue(await agent(`spender-${spenders}`), { instruction: 'spend', ...(budget && { budget }) })
  return (await claim())[0]!
}
const reserve = async (turn: Body, reservation_id: string, tokens: number, more: object = {}) =>
  (await callWorkerApi(turn, 'reserve', { reservation_id, tokens, ...more })).body
const commit = async (turn: Body, reservation_id: string, tokens: number, more: object = {}) =>
  (await callWorkerApi(turn, 'commit', { reservation_id, tokens, ...more })).body
const release = async (turn: Body, reservation_id: string) =>
  (await callWorkerApi(turn, 'release', { reservation_id })).body
const left = (tokens: number | null, cost_micros: number | null = null) => ({ tokens, cost_micros, wall_ms: null })

it('[H7.6] an HTTP worker reserves, commits and releases from its budget, and a repeated request changes nothing', async () => {
  const turn = await spender({ max_tokens: 1_000, max_cost_micros: 500 })
  expect(turn['left']).toEqual(left(1_000, 500))
  const first = { status: 'reserved', left: left(400, 300), exceeded_keys: [] }
  expect(await reserve(turn, 'a', 600, { cost_micros: 200 })).toEqual(first)
  expect(await reserve(turn, 'a', 600, { cost_micros: 200 })).toEqual({ ...first, status: 'already' })
  expect(await reserve(turn, 'b', 401)).toEqual({ status: 'exceeded', left: left(400, 300), exceeded_keys: ['tokens'] })
  expect(await reserve(turn, 'b', 1, { cost_micros: 301 })).toMatchObject({ exceeded_keys: ['cost_micros'] })
  const kinds = { output_tokens: 30, cache_write_tokens: 20, cache_read_tokens: 5_000, cost_micros: 120 }
  const charged = { status: 'committed', left: left(850, 380), exceeded_keys: [] }
  expect(await commit(turn, 'a', 150, kinds)).toEqual(charged)
  expect(await commit(turn, 'a', 150, kinds)).toEqual({ ...charged, status: 'already' })
  expect(await reserve(turn, 'b', 850)).toMatchObject({ status: 'reserved', left: left(0, 380) })
  expect(await release(turn, 'b')).toEqual({ status: 'released', left: left(850, 380), exceeded_keys: [] })
  expect(await release(turn, 'b')).toMatchObject({ status: 'already', left: left(850, 380) })
  expect(await budgetOf(server.t, turn.agent_turn_id!)).toMatchObject({
    tokens_used: 150,
    output_tokens_used: 30,
    cache_write_tokens_used: 20,
    cache_read_tokens_used: 5_000,
    cost_micros_used: 120,
    tokens_reserved: 0,
  })
  const step = { phase: 'think', status: 'done', metadata: { usage: { input_tokens: 50 } } }
  expect((await callWorkerApi(turn, 'steps', { step })).body).toMatchObject({ left: left(800, 380), exceeded_keys: [] })
  const cards = [{ type: 'agent.thought', content: { text: 'hm' } }]
  expect((await callWorkerApi(turn, 'steps', { cards })).body).toMatchObject({ left: left(800, 380) })
})

it('[H7.6] a turn without a budget is unlimited for its HTTP worker', async () => {
  const turn = await spender()
  const unlimited = { status: 'unlimited', left: null, exceeded_keys: [] }
  expect(await reserve(turn, 'a', 1_000_000)).toEqual(unlimited)
  expect(await commit(turn, 'a', 1_000_000)).toEqual(unlimited)
  expect(await release(turn, 'b')).toEqual(unlimited)
})

it('[H7.5] an HTTP worker learns from steps or commit that its turn exceeded its budget, and its delivery fails with the keys', async () => {
  const byStep = await spender({ max_tokens: 10 })
  const step = { phase: 'think', status: 'running', metadata: { usage: { input_tokens: 300_000 } } }
  expect((await callWorkerApi(byStep, 'steps', { step })).body).toMatchObject({
    left: left(-299_990),
    exceeded_keys: ['tokens'],
  })
  const byCommit = await spender({ max_cost_micros: 100 })
  await reserve(byCommit, 'a', 500, { cost_micros: 100 })
  expect(await commit(byCommit, 'a', 500, { cost_micros: 101 })).toMatchObject({ exceeded_keys: ['cost_micros'] })
  for (const [turn, key] of [
    [byStep, 'tokens'],
    [byCommit, 'cost_micros'],
  ] as const) {
    expect((await callWorkerApi(turn, 'deliver', { text: 'half of it' })).body).toEqual({ status: 'ended' })
    expect(await detail(turn.agent_turn_id!)).toMatchObject({
      status: 'failed',
      error: 'budget_exceeded',
      budget: { exceeded_keys: [key] },
      deliverable: { kind: 'fallback', content: { text: 'half of it' } },
    })
  }
})

it('[H7.5] the guard ends a turn over its budget whose HTTP worker goes on, and the next request of the worker is stale', async () => {
  const [tokens, time] = [await spender({ max_tokens: 10 }), await spender({ max_wall_ms: 60_000 })]
  expect((time['left'] as Body)['wall_ms']).toBeGreaterThan(0)
  await callWorkerApi(tokens, 'steps', {
    cards: [{ type: 'agent.thought', content: { text: 'half of it' } }],
    step: { phase: 'think', status: 'running', metadata: { usage: { input_tokens: 300 } } },
  })
  const guard = guardOn(server.t, {}, target())
  const both = [tokens, time]
  await guard.step()
  for (const turn of both) expect((await callWorkerApi(turn, 'beat')).status).toBe(200)
  for (let seconds = 0; seconds < 75; seconds += 5) {
    await server.t.advance(5)
    await guard.step()
  }
  for (const turn of both) {
    expect((await callWorkerApi(turn, 'beat')).body).toMatchObject({ status: 409, code: 'stale' })
    expect(await reserve(turn, 'late', 1)).toMatchObject({ status: 409, code: 'stale' })
    expect(await detail(turn.agent_turn_id!)).toMatchObject({
      status: 'failed',
      error: 'budget_exceeded',
      budget: { exceeded_keys: [turn === tokens ? 'tokens' : 'wall_ms'] },
    })
  }
})

it('[H7.5] the server ends a turn that resumes over its budget, instead of sending it to an HTTP worker', async () => {
  const turn = await spender({ max_wall_ms: 1_000_000 })
  const call = `${turn.agent_turn_id}-c`
  await callWorkerApi(turn, 'suspend', { calls: [{ tool_call_id: call, tool_name: 'grep' }] })
  await server.t.advance(1_001)
  await server.post(`/projects/${String(turn['project_id'])}/tool-calls/${call}/result`, { status: 'success' })
  expect(await claim()).toEqual([])
  expect(await detail(turn.agent_turn_id!)).toMatchObject({
    status: 'failed',
    error: 'budget_exceeded',
    budget: { exceeded_keys: ['wall_ms'] },
  })
})

it('[T1.2] a worker that lost its turn can neither reserve nor settle, and the next worker may use the same reservation ids', async () => {
  const turn = await spender({ max_tokens: 1_000 })
  await reserve(turn, 'a', 300)
  await pass(40)
  const [other] = await claim()
  expect(other).toMatchObject({ agent_turn_id: turn.agent_turn_id, taken_over: true })
  // The takeover charged the reservation in full.
  expect(other!['left']).toEqual(left(700))
  const before = await counts()
  for (const answer of [
    await reserve(turn, 'b', 1),
    await reserve(turn, 'a', 300),
    await commit(turn, 'a', 5),
    await release(turn, 'a'),
  ])
    expect(answer).toMatchObject({ status: 409, code: 'stale' })
  expect(await counts()).toEqual(before)
  expect(await reserve(other!, 'a', 100)).toMatchObject({ status: 'reserved', left: left(600) })
  expect(await commit(other!, 'a', 5)).toMatchObject({ status: 'committed', left: left(695) })
})

it('a reservation id that is settled or unknown is named as such, and its worker is not stale', async () => {
  const [turn, other] = [await spender({ max_tokens: 1_000 }), await spender({ max_tokens: 1_000 })]
  await reserve(turn, 'a', 300)
  await commit(turn, 'a', 100)
  expect(await reserve(turn, 'a', 300)).toMatchObject({ status: 409, code: 'duplicate_reservation' })
  for (const answer of [await commit(turn, 'never', 1), await release(turn, 'never'), await commit(other, 'a', 1)])
    expect(answer).toMatchObject({ status: 404, code: 'unknown_reservation' })
  // Ids of another turn do not collide.
  expect(await reserve(other, 'a', 300)).toMatchObject({ status: 'reserved' })
  expect(await budgetOf(server.t, turn.agent_turn_id!)).toMatchObject({ tokens_used: 100, tokens_reserved: 0 })
})

it('amounts and ids out of range are rejected and change nothing', async () => {
  const turn = await spender({ max_tokens: 1_000 })
  await reserve(turn, 'a', 300)
  const before = await counts()
  const bodies: readonly (readonly [string, object])[] = [
    ...[-1, 0.5, 1e13, 1e300, '1', null].map((tokens) => ['reserve', { reservation_id: 'x', tokens }] as const),
    ['reserve', { reservation_id: '', tokens: 1 }],
    ['reserve', { reservation_id: 'x'.repeat(201), tokens: 1 }],
    ['reserve', { reservation_id: 'x\0', tokens: 1 }],
    ['reserve', { reservation_id: 'x', tokens: 1, cost_micros: -1 }],
    ['reserve', { reservation_id: 'x' }],
    ['commit', { reservation_id: 'a', tokens: 5, output_tokens: 3, cache_write_tokens: 3 }],
    ['commit', { reservation_id: 'a', tokens: 5, cache_read_tokens: 1e13 }],
    ['commit', { reservation_id: 'a' }],
    ['release', { reservation_id: 'a', tokens: 5 }],
  ]
  for (const [what, body] of bodies)
    expect([body, (await callWorkerApi(turn, what, body)).body]).toMatchObject([body, { code: 'invalid_request' }])
  expect(await counts()).toEqual(before)
  expect(await commit(turn, 'a', 1_000_000_000_000)).toMatchObject({ exceeded_keys: ['tokens'] })
})
