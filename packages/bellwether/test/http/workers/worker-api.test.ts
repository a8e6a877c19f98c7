/** The worker API: a turn from claim to delivery, and the fence. */
import { describe, expect, it } from 'vitest'
import { project } from '../../support/kernel.js'
import { serverPerFile, type Body } from '../test-server.js'
import { workerClient } from './worker-client.js'

const server = serverPerFile()
const { round, target, as, agent, enqueue, claim, callWorkerApi, detail, counts, pass } = workerClient(server)
const p = `/projects/${project}`

describe('a turn', () => {
  it('[T3.1e] the server carries out actions on agents of HTTP workers: the worker gets no turn, the result is the deliverable', async () => {
    const agentId = await agent('acted-on')
    await server.request('PUT', `${p}/tools/refund`, {})
    const { body } = await server.post(`${p}/ui-actions`, {
      action_id: agentId,
      agent_id: agentId,
      tool_name: 'refund',
      args: { order: 7 },
    })
    expect(await claim()).toEqual([])
    const call = `${body.agent_turn_id}-action`
    expect((await server.post(`${p}/tool-calls/${call}/start`, { host: 'shop' }, as())).body).toMatchObject({
      status: 'started',
      tool_name: 'refund',
      arguments: { order: 7 },
    })
    await server.post(`${p}/tool-calls/${call}/result`, { status: 'success', result: 'refunded order 7' }, as())
    expect(await claim()).toEqual([])
    expect(await detail(body.agent_turn_id!)).toMatchObject({
      status: 'success',
      deliverable: { content: { text: 'refunded order 7' } },
    })
  })

  it('[T6.1] [T6.2] a claimed turn contains all its input, records steps, suspends on tools, resumes with their results and delivers', async () => {
    await server.request('PUT', `${p}/profiles/coder`, { worker_target: target(), spec: { model: 'm' } })
    await server.request('PUT', `${p}/tools/grep`, { description: 'looks', parameters: { type: 'object' } })
    const agentId = await agent('full', { profile_id: 'coder' })
    const fields = [{ name: 'answer', required: true }]
    const turnId = await enqueue(agentId, { instruction: 'look it up', result_fields: fields })
    const [turn] = await claim()
    expect(turn).toMatchObject({
      agent_turn_id: turnId,
      fence: { agent_turn_id: turnId, turn_epoch: turn!.turn_epoch, lease_token: turn!.lease_token },
      kind: 'turn',
      taken_over: false,
      project_id: project,
      agent_id: agentId,
      agent: { agent_id: agentId, profile_id: 'coder', worker_target: target(), status: 'active' },
      profile: { name: 'coder', spec: { model: 'm' } },
      output: [],
      results: [],
      left: null,
      turn_deadline: expect.any(String),
      beat_seconds: 5,
    })
    expect((turn!['context'] as Body[]).map((card) => card['type'])).toEqual(['task.instruction', 'task.result_fields'])
    expect((turn!['tools'] as Body[]).some((tool) => tool['tool_name'] === 'grep')).toBe(true)
    expect(await claim()).toEqual([])

    expect((await callWorkerApi(turn!, 'beat', { activity: 'thinking' })).body).toEqual({
      status: 'alive',
      messages: [],
    })
    const card = { card_id: '01890000-0000-7000-8000-000000000001', type: 'agent.thought', content: { text: 'hm' } }
    const step = { step_id: `${turnId}/1`, phase: 'think', status: 'done', metadata: { usage: { total_tokens: 5 } } }
    const written = await callWorkerApi(turn!, 'steps', { cards: [card], step })
    expect(written.body).toEqual({
      status: 'recorded',
      step_id: `${turnId}/1`,
      card_ids: [card.card_id],
      left: null,
      exceeded_keys: [],
    })
    expect((await callWorkerApi(turn!, 'steps', { cards: [card], step })).status).toBe(200)
    const calls = [{ tool_call_id: `${turnId}-c1`, tool_name: 'grep', arguments: { pattern: 'x' } }]
    expect((await callWorkerApi(turn!, 'suspend', { calls })).body).toMatchObject({ status: 'suspended' })
    expect((await callWorkerApi(turn!, 'suspend', { calls })).body).toMatchObject({ status: 'already' })
    expect((await callWorkerApi(turn!, 'beat')).body).toMatchObject({ status: 409, code: 'stale' })
    expect(await claim()).toEqual([])

    await server.post(`${p}/tool-calls/${turnId}-c1/result`, { status: 'success', result: { hits: 3 } }, as())
    const [resumed] = await claim()
    expect(resumed).toMatchObject({
      kind: 'resume',
      results: [{ tool_name: 'grep', status: 'success', result: { hits: 3 } }],
    })
    expect((resumed!['output'] as Body[]).map((one) => one['type'])).toEqual([
      'agent.thought',
      'tool.call',
      'tool.result',
    ])
    expect(await detail(turnId)).toMatchObject({ status: 'running' })

    const refused = await callWorkerApi(resumed!, 'deliver', { text: 'three' })
    expect(refused.body).toMatchObject({ status: 422, code: 'missing_result_fields', missing: ['answer'] })
    const deliver = () => callWorkerApi(resumed!, 'deliver', { fields: [{ name: 'answer', value: 3 }] })
    expect((await deliver()).body).toEqual({ status: 'ended' })
    expect((await deliver()).body).toEqual({ status: 'already' })
    expect(await detail(turnId)).toMatchObject({
      status: 'success',
      deliverable: { content: { fields: [{ name: 'answer', value: 3 }] } },
      steps: [{ step_id: `${turnId}/1` }],
      waits: [{ wait_status: 'applied' }],
    })
  })

  it('[T3.3c] a turn with a terminating tool call ends with its result, without another claim', async () => {
    const turnId = await enqueue(await agent('term'))
    const [turn] = await claim()
    await callWorkerApi(turn!, 'suspend', {
      calls: [{ tool_call_id: `${turnId}-t`, tool_name: 'final', after_execution: 'terminate' }],
    })
    await server.post(`${p}/tool-calls/${turnId}-t/result`, { status: 'success', result: 'that was it' })
    expect(await claim()).toEqual([])
    expect(await detail(turnId)).toMatchObject({ status: 'success', deliverable: { content: { text: 'that was it' } } })
  })

  it('[T4.4] a turn can neither suspend on submit_result nor record a deliverable card', async () => {
    await enqueue(await agent('submit'))
    const [turn] = await claim()
    const before = await counts()
    const call = { tool_call_id: 'x', tool_name: 'submit_result', arguments: { text: 'x' } }
    expect((await callWorkerApi(turn!, 'suspend', { calls: [call] })).body).toMatchObject({
      status: 400,
      code: 'use_deliver',
    })
    const card = { type: 'task.deliverable', content: { text: 'forged' } }
    expect((await callWorkerApi(turn!, 'steps', { cards: [card] })).body).toMatchObject({
      status: 400,
      code: 'invalid_request',
    })
    expect(await counts()).toEqual(before)
    expect((await callWorkerApi(turn!, 'deliver', { text: 'ok' })).status).toBe(200)
  })

  it('a turn that forks suspends until its batch is done', async () => {
    const agentId = await agent('fork')
    await server.request('PUT', `${p}/profiles/kid-${round()}`, { worker_target: `${target()}-kids` })
    const turnId = await enqueue(agentId)
    const [turn] = await claim()
    const tasks = [{ target_strategy: 'new', target_ref: `kid-${round()}`, instruction: 'part' }]
    const call = { tool_call_id: `${turnId}-f`, tool_name: 'fork_join', batch: { tasks } }
    expect((await callWorkerApi(turn!, 'suspend', { calls: [call] })).body).toMatchObject({ status: 'suspended' })
    expect((await server.get(`${p}/batches`)).body['batches']).toMatchObject([
      { parent_agent_turn_id: turnId, task_count: 1 },
    ])
    const kids = await server.post(`/workers/${target()}-kids/claim`, {}, as())
    expect(kids.body.turns).toHaveLength(1)
  })

  it('[T9.3] a claimed turn contains what its caller gave, what it wrote itself, and the earlier turns that the memory allows', async () => {
    const deliver = async (agentId: string, instruction: string, session: string) => {
      const turnId = await enqueue(agentId, { instruction, session_id: session })
      const [turn] = await claim()
      await callWorkerApi(turn!, 'steps', {
        cards: [{ type: 'agent.thought', content: { text: `hm ${instruction}` } }],
      })
      await callWorkerApi(turn!, 'deliver', { text: `done: ${instruction}` })
      return turnId
    }
    const seen: Record<string, unknown> = {}
    for (const memory of ['none', 'session', 'box']) {
      const agentId = await agent(`memory-${memory}`, { memory })
      expect((await server.get(`${p}/agents/${agentId}`)).body).toMatchObject({ memory })
      await deliver(agentId, 'one', 'a')
      await deliver(agentId, 'two', 'b')
      const turnId = await enqueue(agentId, { instruction: 'three', session_id: 'a' })
      const [turn] = await claim()
      await callWorkerApi(turn!, 'steps', { cards: [{ type: 'agent.thought', content: { text: 'mine' } }] })
      await pass(40)
      // The takeover reads the cards of its own turn, and the same memory.
      const [again] = await claim({ worker_id: 'two' })
      const texts = (cards: unknown) => (cards as Body[]).map((card) => (card['content'] as { text: string }).text)
      for (const one of [turn!, again!]) expect(texts(one['context'])).toEqual(['three'])
      expect(texts(again!['output'])).toEqual(['mine'])
      expect(texts(again!['memory'])).toEqual(texts(turn!['memory']))
      expect(again).toMatchObject({
        agent_turn_id: turnId,
        session_id: 'a',
        memory_truncated: false,
        agent: { memory },
      })
      await callWorkerApi(again!, 'deliver', { text: 'ok' })
      const { context_size: size, session_id: session } = await detail(turnId)
      const cards = (turn!['memory'] as Body[]).length
      const aNumber: unknown = expect.any(Number)
      expect([session, size]).toEqual([
        'a',
        {
          memory,
          cards: 1,
          bytes: expect.any(Number),
          memory_cards: cards,
          memory_bytes: cards === 0 ? 0 : aNumber,
          memory_truncated: false,
        },
      ])
      seen[memory] = texts(turn!['memory'])
    }
    expect(seen).toEqual({
      none: [],
      session: ['one', 'done: one'],
      box: ['hm one', 'done: one', 'hm two', 'done: two'],
    })
    const bad = await server.request('PUT', `${p}/agents/x`, { worker_target: target(), memory: 'all' })
    expect([bad.status, JSON.stringify(bad.body)]).toEqual([400, expect.stringContaining('memory')])
  })

  it('a turn with a long output box is claimed with its newest cards, and reports the limit', async () => {
    const agentId = await agent('long')
    await enqueue(agentId)
    const [turn] = await claim()
    const big = { type: 'agent.thought', content: { text: 'x'.repeat(900_000) } }
    for (let at = 0; at < 6; at += 1) expect((await callWorkerApi(turn!, 'steps', { cards: [big] })).status).toBe(200)
    await callWorkerApi(turn!, 'steps', { cards: [{ type: 'agent.thought', content: { text: 'last' } }] })
    // Another worker takes the turn over and reads what the first one wrote.
    await pass(40)
    const [next] = await claim({ worker_id: 'two' })
    const output = next!['output'] as Body[]
    expect(next).toMatchObject({ taken_over: true, output_truncated: true, context_truncated: false, memory: [] })
    expect(output.length).toBeLessThan(7)
    expect(output.at(-1)).toMatchObject({ content: { text: 'last' } })
  })
})

describe('the fence', () => {
  it('[T1.2] [T8.1] every call with a lost fence is answered with 409 stale and changes nothing', async () => {
    const turnId = await enqueue(await agent('lost'))
    const [turn] = await claim({ worker_id: 'one' })
    await pass(40)
    const [other] = await claim({ worker_id: 'two' })
    expect(other).toMatchObject({ agent_turn_id: turnId, taken_over: true, deaths: 1 })
    expect(other!.turn_epoch).toBe(turn!.turn_epoch! + 1)
    const before = await counts()
    const answers = [
      await callWorkerApi(turn!, 'beat'),
      await callWorkerApi(turn!, 'steps', {
        cards: [{ type: 'agent.thought', content: {} }],
        step: { phase: 'x', status: 'done' },
      }),
      await callWorkerApi(turn!, 'reserve', { reservation_id: 'r', tokens: 1 }),
      await callWorkerApi(turn!, 'commit', { reservation_id: 'r', tokens: 1 }),
      await callWorkerApi(turn!, 'release', { reservation_id: 'r' }),
      await callWorkerApi(turn!, 'suspend', { calls: [{ tool_call_id: `${turnId}-z`, tool_name: 'grep' }] }),
      await callWorkerApi(turn!, 'deliver', { text: 'late' }),
    ]
    for (const answer of answers) {
      expect(answer.body).toMatchObject({ status: 409, code: 'stale' })
      expect(answer.headers['content-type']).toBe('application/problem+json')
    }
    expect(await counts()).toEqual(before)
    expect((await callWorkerApi(other!, 'deliver', { text: 'mine' })).body).toEqual({ status: 'ended' })
    expect((await callWorkerApi(turn!, 'deliver', { text: 'late' })).body).toMatchObject({ code: 'stale' })
    expect(await detail(turnId)).toMatchObject({ deliverable: { content: { text: 'mine' } } })
  })

  it('[T1.2] the worker of a stopped turn gets stale at its next beat', async () => {
    const turnId = await enqueue(await agent('stopped'))
    const [turn] = await claim()
    expect((await callWorkerApi(turn!, 'beat')).status).toBe(200)
    await server.post(`${p}/turns/${turnId}/stop`)
    expect((await callWorkerApi(turn!, 'beat')).body).toMatchObject({ status: 409, code: 'stale' })
    expect((await callWorkerApi(turn!, 'deliver', { text: 'x' })).body).toMatchObject({ code: 'stale' })
  })

  it('a forged epoch or an unknown turn is rejected', async () => {
    await enqueue(await agent('forged'))
    const [turn] = await claim()
    for (const epoch of [turn!.turn_epoch! + 1, 9_007_199_254_740_991])
      expect((await callWorkerApi({ ...turn!, turn_epoch: epoch }, 'deliver', { text: 'x' })).body).toMatchObject({
        code: 'stale',
      })
    for (const epoch of [0, -1, 1.5, 1e300, '1', null])
      expect((await server.post(`/turns/${turn!.agent_turn_id}/beat`, { turn_epoch: epoch }, as())).status).toBe(400)
    expect((await server.post('/turns/none/beat', { turn_epoch: 1 }, as())).status).toBe(404)
    expect((await callWorkerApi(turn!, 'deliver', { text: 'ok' })).status).toBe(200)
  })

  it('a step_id of another turn is rejected and writes no event', async () => {
    await enqueue(await agent('step-a'))
    await enqueue(await agent('step-b'))
    const [a, b] = await claim()
    const step = { step_id: `shared-${round()}`, phase: 'x', status: 'done' }
    expect((await callWorkerApi(a!, 'steps', { step })).status).toBe(200)
    const before = await counts()
    expect((await callWorkerApi(b!, 'steps', { step })).body).toMatchObject({ status: 409, code: 'duplicate_step' })
    expect(await counts()).toEqual(before)
  })
})
