/** The fields of agents, turns, tasks, views and parts that clients read over HTTP. */
import { beforeAll, describe, expect, it } from 'vitest'
import type { PartHealth } from '../../src/http/routes/health.js'
import { project, target } from '../support/kernel.js'
import { boardPart } from './board-part.js'
import { addAgent, addTurn, serverPerFile, view, type Body } from './test-server.js'

const server = serverPerFile(async (world) => ({ board: await boardPart(world), parts: () => parts }))
let parts: readonly PartHealth[] = []
beforeAll(async () => {
  for (const name of ['ann', 'bob', 'eve', 'tom']) await addAgent(server, name)
})

const p = `/projects/${project}`
const claimed = async (agentId: string) => {
  const { turns } = await server.kernel.claim({ workerTarget: target, workerId: 'w', max: 100, resumeLeaseSeconds: 30 })
  return turns.find((turn) => turn.agentId === agentId)!
}
/** Runs a turn to its end: enqueue, thoughts, deliverable. */
async function ran(agentId: string, thoughts: readonly string[], content: object = { text: 'ok' }) {
  const turnId = await addTurn(server, agentId, { instruction: `ask ${agentId}` })
  const turn = await claimed(agentId)
  for (const text of thoughts)
    await server.kernel.record({ ...turn, cards: [{ type: 'agent.thought', content: { text } }] })
  await server.kernel.deliver({ ...turn, status: 'success', content: content as { text: string } })
  return turnId
}
const turnOf = async (turnId: string) => {
  const { status, body } = await server.get(`${p}/turns/${turnId}`)
  expect([status, server.lines.filter((line) => line.level === 'error')]).toEqual([200, []])
  return body
}
const texts = (cards: unknown) => (cards as Body[]).map((card) => (card['content'] as Body)['text'])

describe('agents', () => {
  it('an agent has the turn that ended last, and null before the first', async () => {
    expect((await server.get(`${p}/agents/eve`)).body['last_turn']).toBeNull()
    await ran('ann', ['one'])
    const second = await ran('ann', ['two'])
    expect((await server.get(`${p}/agents/ann`)).body['last_turn']).toEqual({
      agent_turn_id: second,
      outcome: 'success',
      ended_at: expect.stringMatching(/^\d{4}-/),
    })
    const third = await addTurn(server, 'ann')
    await claimed('ann')
    const listed = (await server.get(`${p}/agents`)).body['agents'] as Body[]
    expect(listed.find((one) => one['agent_id'] === 'ann')!['last_turn']).toMatchObject({ agent_turn_id: second })
    await server.post(`${p}/turns/${third}/stop`)
    expect((await server.get(`${p}/agents/ann`)).body['last_turn']).toMatchObject({
      agent_turn_id: third,
      outcome: 'canceled',
    })
  })

  it('the workers of a project have their capacity and free room', async () => {
    await server.t.all(`select state.sign_in('w-1', $1, 4, 3)`, target)
    const { workers } = (await server.get(`${p}/workers`)).body as unknown as { workers: Body[] }
    expect(workers.find((one) => one['worker_id'] === 'w-1')).toMatchObject({
      worker_target: target,
      concurrency: 4,
      free: 3,
      started_at: expect.any(String),
      seen_at: expect.any(String),
      last_claim_at: null,
    })
  })
})

describe('a turn', () => {
  it('a turn shows its input and what it wrote, and nothing of other turns of the agent', async () => {
    const before = await ran('bob', ['a1', 'a2'])
    const turnId = await ran('bob', ['b1', 'b2', 'b3'])
    await ran('bob', ['c1'])
    const turn = await turnOf(turnId)
    expect(texts(turn['cards'])).toEqual(['b1', 'b2', 'b3', 'ok'])
    expect(texts(turn['context_cards'])).toEqual(['ask bob'])
    expect(turn).toMatchObject({ cards_truncated: false, files: [], children: [], parent: null })
    expect(texts((await turnOf(before))['cards'])).toEqual(['a1', 'a2', 'ok'])
  })

  it('a turn with many cards shows the newest within a limit, and reports the limit', async () => {
    const turnId = await addTurn(server, 'bob')
    const turn = await claimed('bob')
    const text = 'x'.repeat(300_000)
    for (let at = 0; at < 6; at += 1)
      await server.kernel.record({ ...turn, cards: [{ type: 'agent.thought', content: { text, at } }] })
    const shown = await turnOf(turnId)
    expect((shown['cards'] as Body[]).map((card) => (card['content'] as Body)['at'])).toEqual([2, 3, 4, 5])
    expect(shown['cards_truncated']).toBe(true)
    await server.post(`${p}/turns/${turnId}/stop`)
  })

  it('a turn shows its usage, cost, budget and trace', async () => {
    const traceparent = '00-0123456789abcdef0123456789abcdef-0123456789abcdef-01'
    const budget = { max_tokens: 1_000, max_cost_micros: 1_000 }
    const turnId = await addTurn(server, 'bob', { instruction: 'x', traceparent, budget })
    const turn = await claimed('bob')
    const step = (stepId: string, metadata: Readonly<Record<string, unknown>>) =>
      server.kernel.record({
        ...turn,
        step: { stepId: `${turnId}-${stepId}`, phase: 'think', status: 'done', metadata },
      })
    await step('1', { usage: { total_tokens: 30, input_tokens: 20, output_tokens: 10 }, cost_micros: 250 })
    await step('2', { usage: { total_tokens: 5, cost_usd: 0.0001 } })
    await step('3', { usage: { total_tokens: 'many', input_tokens: -7, cost_usd: null }, cost_micros: 'x' })
    await server.kernel.reserve(turn, { reservationId: `${turnId}-r`, tokens: 100, costMicros: 600 })
    await server.kernel.commitUsage(turn, { reservationId: `${turnId}-r`, tokens: 100, costMicros: 600 })
    const shown = await turnOf(turnId)
    expect(shown).toMatchObject({
      trace_id: '0123456789abcdef0123456789abcdef',
      usage: { steps: 3, total_tokens: 35, input_tokens: 20, output_tokens: 10, cost_micros: 350 },
      budget: {
        tokens: { used: 100, limit: 1_000 },
        cost_micros: { used: 600, limit: 1_000 },
        wall_ms: { used: expect.any(Number), limit: null },
        fraction: 0.6,
        nearest: 'cost_micros',
      },
    })
    await server.post(`${p}/turns/${turnId}/stop`)
    expect((await turnOf(await ran('eve', [])))['budget']).toBeNull()
  })

  it('a turn shows its children, their children, and its parent', async () => {
    const turnId = await addTurn(server, 'eve')
    const turn = await claimed('eve')
    const fork = (from: object, name: string) => ({
      ...from,
      stepId: `${turnId}-${name}`,
      calls: [
        {
          toolCallId: `${turnId}-${name}`,
          toolName: 'fork_join',
          args: {},
          batch: { tasks: [{ targetStrategy: 'reuse' as const, targetRef: name, instruction: 'part' }] },
        },
      ],
    })
    await server.kernel.suspend(fork(turn, 'ann') as never, 30)
    const { children } = (await turnOf(turnId)) as unknown as { children: Body[] }
    expect(children).toMatchObject([{ agent_id: 'ann', status: expect.any(String), outcome: null, children: [] }])
    const child = await turnOf(String(children[0]!['agent_turn_id']))
    expect(child['parent']).toMatchObject({ agent_turn_id: turnId, agent_id: 'eve', status: 'suspended' })
    await server.post(`${p}/turns/${turnId}/stop`)
  })

  it('a turn lists the files that it claims and those that changed while it ran, for keys that may read the view', async () => {
    const key = server.keys.sensor
    const session = (
      await server.post(
        '/pipe/session',
        { task_id: 'h1:s1', client_info: { agent_id: 'h1', source_id: 's1' } },
        { key },
      )
    ).body['session_id'] as string
    const row = (path: string, modified: number) => ({
      path,
      file_name: path.split('/').at(-1),
      size: 7,
      modified_time: modified,
      is_directory: false,
    })
    const turnId = await addTurn(server, 'bob')
    const turn = await claimed('bob')
    const now = Date.parse(String((await turnOf(turnId))['started_at'])) / 1_000
    const rows = [
      row('/old/x', now - 999),
      row('/new/made', now + 0.001),
      row('/new/later', now + 9_999),
      row('/claimed', now - 5),
    ]
    const events = [
      {
        event_type: 'insert',
        event_schema: 'fs',
        table: 'files',
        fields: [],
        rows,
        index: 0,
        message_source: 'snapshot',
      },
    ]
    await server.post(`/pipe/ingest/${session}/events`, { events, source_type: 'snapshot', is_end: true }, { key })
    const files = ['claimed', '../../etc/passwd', 'a\n\u001b[2Jb', 5, { path: '/not-there' }]
    await server.kernel.deliver({ ...turn, status: 'success', content: { text: 'ok', files } as never })
    const shown = (await turnOf(turnId))['files'] as Body[]
    const brief = shown.map((one) => [one['path'], one['how'], one['found'], one['view']])
    expect(brief).toEqual([
      ['/claimed', 'claimed', true, view],
      ['../../etc/passwd', 'claimed', false, null],
      ['a\n\u001b[2Jb', 'claimed', false, null],
      ['/not-there', 'claimed', false, null],
      ['/new/made', 'changed', true, view],
    ])
    const limited = await server.key('reader', { project })
    const seen = (await server.get(`${p}/turns/${turnId}`, { key: limited })).body['files'] as Body[]
    expect(seen.map((one) => [one['path'], one['found']])).toEqual([
      ['claimed', null],
      ['../../etc/passwd', null],
      ['a\n\u001b[2Jb', null],
      ['/not-there', null],
    ])
  })
})

describe('large responses', () => {
  it('the cards of a large box come in pages of limited size, each card once', async () => {
    const text = 'x'.repeat(900_000)
    const boxes: string[] = []
    for (const half of [0, 1]) {
      const cards = Array.from({ length: 7 }, (_, at) => ({
        type: 'agent.thought',
        content: { at: half * 7 + at, text },
      }))
      boxes.push(String((await server.post(`${p}/boxes`, { cards })).body['box_id']))
    }
    const box = String((await server.post(`${p}/boxes`, { pack: boxes })).body['box_id'])
    const received: unknown[] = []
    let pages = 0
    for (let cursor: string | null = '0'; cursor !== null; pages += 1) {
      const { body, text: page } = await server.get(`${p}/boxes/${box}/cards?limit=500&cursor=${cursor}`)
      expect(page.length).toBeLessThan(9_500_000)
      received.push(...(body['cards'] as Body[]).map((card) => (card['content'] as Body)['at']))
      cursor = body.cursor === null ? null : String(body.cursor)
    }
    expect([received, pages]).toEqual([[...Array(14).keys()], 2])
  })

  it('a large step keeps its usage and cost in the response', async () => {
    const turnId = await addTurn(server, 'bob')
    const turn = await claimed('bob')
    const metadata = { usage: { total_tokens: 7 }, prompt: 'x'.repeat(9_000) }
    await server.kernel.record({ ...turn, step: { stepId: `${turnId}-s`, phase: 'think', status: 'done', metadata } })
    const { steps, usage } = (await turnOf(turnId)) as unknown as { steps: Body[]; usage: Body }
    expect(steps).toMatchObject([{ metadata: { usage: { total_tokens: 7 }, truncated: true }, phase: 'think' }])
    expect(usage).toMatchObject({ total_tokens: 7 })
    await server.post(`${p}/turns/${turnId}/stop`)
  })
})

describe('views', () => {
  it('views are listed with their sources and leaders, to keys that may read them', async () => {
    const { body } = await server.get('/views')
    expect(body['views']).toMatchObject([
      {
        view_id: view,
        ready: true,
        sessions: 1,
        total_files: 4,
        total_size: 28,
        sources: [{ source_id: 's1', ready: true, sessions: 1, leader: { agent_id: 'h1' }, item_count: 6 }],
      },
    ])
    const other = await server.key('reader', { view: 'other' })
    expect((await server.get('/views', { key: other })).body).toEqual({ views: [] })
  })
})

describe('tasks', () => {
  const task = async (body: object) => String((await server.post('/board/tasks', body)).body['taskId'])
  const listed = async (taskId: string) =>
    ((await server.get('/board/tasks')).body['tasks'] as Body[]).find((one) => one['taskId'] === taskId)!

  it('a task shows what it waits for, its place in the queue and the reason', async () => {
    const first = await task({ title: 'first', agent: 'ann', priority: 9 })
    const second = await task({ title: 'second', agent: 'ann', priority: 3 })
    const third = await task({ title: 'third', agent: 'ann', dependencies: [first] })
    expect(await listed(first)).toMatchObject({
      waitCode: null,
      next: { place: 1, of: 2, assignee: 'ann', why: expect.stringContaining('priority 9') },
      recovery: null,
      budget: null,
      costMicros: null,
    })
    expect((await listed(second))['next']).toMatchObject({
      place: 2,
      of: 2,
      why: expect.stringContaining('is 3, not 9'),
    })
    expect(await listed(third)).toMatchObject({ waitCode: 'dependency', next: null })
    await server.request('PATCH', `/board/tasks/${second}`, { action: 'freeze' })
    expect(await listed(second)).toMatchObject({ waitCode: 'frozen', next: null })
    await server.request('PATCH', `/board/tasks/${first}`, { action: 'freeze' })
  })

  it('a task shows its runs with turns, cost and budget, and the state of its recovery', async () => {
    const id = await task({ title: 'fails', agent: 'tom', priority: 50 })
    const dispatched = server.post(`/board/tasks/${id}/dispatch`)
    const turn = await claimedSoon('tom')
    const usage = { total_tokens: 6_000 }
    const step = { stepId: `${id}-step`, phase: 'think', status: 'done', metadata: { usage, cost_micros: 1_234 } }
    await server.kernel.record({ ...turn, step })
    await server.kernel.deliver({ ...turn, status: 'failed', content: { text: 'no' }, error: 'broke' })
    expect((await dispatched).status).toBe(200)
    const shown = (await server.get(`/board/tasks/${id}`)).body
    expect(shown).toMatchObject({
      status: 'blocked',
      waitCode: 'cooldown',
      waitUntil: expect.any(String),
      costMicros: 1_234,
      recovery: {
        reasonCode: 'spawn_failed',
        attempt: 1,
        maxAttempts: 2,
        action: 'retry',
        recoveryState: 'recovery_scheduled',
        nextAssignee: 'coder',
        cooldownUntilTs: expect.any(Number),
        deadlineTs: expect.any(Number),
        reminders: 0,
      },
      budget: {
        agent: 'tom',
        tokenUsage: 6_000,
        retryCount: 1,
        limits: { maxTaskTokens: 12_000 },
        nearest: { unit: 'tokens', used: 6_000, limit: 12_000, fraction: 0.5 },
      },
      runs: [{ agentTurnId: turn.agentTurnId, turnStatus: 'failed', costMicros: 1_234, agent: 'tom' }],
    })
    const line = await listed(id)
    expect(line).toMatchObject({ costMicros: 1_234, waitCode: 'cooldown', recovery: { attempt: 1 } })
  })

  const claimedSoon = async (agentId: string) => {
    for (;;) {
      const turn = await claimed(agentId)
      if (turn !== undefined) return turn
    }
  }
})

describe('health', () => {
  it('health lists supervised parts with their errors, only to keys without a limit', async () => {
    parts = [
      { name: 'pmo', status: 'ready', pid: 5, restarts: 0, last_end: null },
      {
        name: 'worker py',
        status: 'quarantined',
        pid: null,
        restarts: 7,
        last_end: 'exit code 1',
        next_start_at: 'soon',
      },
    ]
    const { body } = await server.get('/health/components')
    expect(body['summary']).toMatchObject({ status: 'failed', troubled: { 'part:worker py': 'failed' } })
    const shown = (body['components'] as Body[]).filter((one) => one['kind'] === 'part')
    expect(shown).toMatchObject([
      { name: 'pmo', state: 'ok', status: 'ready', pid: 5, error: null },
      { name: 'worker py', state: 'failed', restarts: 7, error: 'exit code 1', next_start_at: 'soon' },
    ])
    for (const limits of [{ project }, { view: 'other' }]) {
      const { text } = await server.get('/health/components', { key: await server.key('reader', limits) })
      // Neither the list nor the summary contains processes, or a view that the key may not read.
      expect([text.includes('worker py'), text.includes('fusion_pipe')]).toEqual([false, false])
    }
  })
})
