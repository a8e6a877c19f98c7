/** Agents, turns with what they wrote, and views, as the API shows them. `request` of test-server.ts checks every response. */
import { beforeAll, describe, expect, it } from 'vitest'
import { project, target } from '../support/kernel.js'
import { addAgent, addTurn, view, type Body } from './test-server.js'
import { claimTurnOf, fullServerPerFile, snapshotOf } from './full-server.js'

const { server } = fullServerPerFile()
const p = `/projects/${project}`

beforeAll(async () => {
  for (const name of ['dan', 'eve', 'kim']) await addAgent(server, name)
})

const claimed = (agentId: string) => claimTurnOf(server, agentId)

/** Runs a turn to its end: enqueue, thoughts, deliverable. */
async function ran(agentId: string, thoughts: readonly string[]) {
  const turnId = await addTurn(server, agentId, { instruction: `ask ${agentId}` })
  const turn = await claimed(agentId)
  for (const text of thoughts)
    await server.kernel.record({ ...turn, cards: [{ type: 'agent.thought', content: { text } }] })
  await server.kernel.deliver({ ...turn, status: 'success', content: { text: 'ok' } })
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
    await ran('dan', ['one'])
    const second = await ran('dan', ['two'])
    expect((await server.get(`${p}/agents/dan`)).body['last_turn']).toEqual({
      agent_turn_id: second,
      outcome: 'success',
      ended_at: expect.stringMatching(/^\d{4}-/),
    })
    const third = await addTurn(server, 'dan')
    await claimed('dan')
    const listed = (await server.get(`${p}/agents`)).body['agents'] as Body[]
    expect(listed.find((one) => one['agent_id'] === 'dan')!['last_turn']).toMatchObject({ agent_turn_id: second })
    await server.post(`${p}/turns/${third}/stop`)
    expect((await server.get(`${p}/agents/dan`)).body['last_turn']).toMatchObject({
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
      last_claim_at: null,
    })
  })
})

describe('a turn', () => {
  it('a turn shows its input and what it wrote, and nothing of other turns of the agent', async () => {
    const before = await ran('kim', ['a1', 'a2'])
    const turnId = await ran('kim', ['b1', 'b2', 'b3'])
    await ran('kim', ['c1'])
    const turn = await turnOf(turnId)
    expect(texts(turn['cards'])).toEqual(['b1', 'b2', 'b3', 'ok'])
    expect(texts(turn['context_cards'])).toEqual(['ask kim'])
    expect(turn).toMatchObject({ cards_truncated: false, files: [], children: [], parent: null })
    expect(texts((await turnOf(before))['cards'])).toEqual(['a1', 'a2', 'ok'])
  })

  it('a turn with many cards shows the newest within a limit, and reports the limit', async () => {
    const turnId = await addTurn(server, 'kim')
    const turn = await claimed('kim')
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
    const turnId = await addTurn(server, 'kim', { instruction: 'x', traceparent, budget })
    const turn = await claimed('kim')
    const step = (stepId: string, metadata: Readonly<Record<string, unknown>>) =>
      server.kernel.record({ ...turn, step: { stepId: turnId + stepId, phase: 'think', status: 'done', metadata } })
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
        // The usage of the steps and the reservation.
        tokens: { used: 135, limit: 1_000 },
        cost_micros: { used: 950, limit: 1_000 },
        wall_ms: { limit: null },
        fraction: 0.95,
        nearest: 'cost_micros',
      },
    })
    await server.post(`${p}/turns/${turnId}/stop`)
    expect((await turnOf(await ran('eve', [])))['budget']).toBeNull()
  })

  it('a turn shows its children, their children, and its parent', async () => {
    const turnId = await addTurn(server, 'eve')
    const turn = await claimed('eve')
    const batch = { tasks: [{ targetStrategy: 'reuse' as const, targetRef: 'dan', instruction: 'part' }] }
    const call = { toolCallId: `${turnId}-dan`, toolName: 'fork_join', args: {}, batch }
    await server.kernel.suspend({ ...turn, stepId: `${turnId}-dan`, calls: [call] } as never, 30)
    const { children } = (await turnOf(turnId)) as unknown as { children: Body[] }
    expect(children).toMatchObject([{ agent_id: 'dan', outcome: null, children: [], relation: 'fork_join' }])
    const child = await turnOf(String(children[0]!['agent_turn_id']))
    expect(child['parent']).toMatchObject({ agent_turn_id: turnId, agent_id: 'eve', status: 'suspended' })
    expect(child['parent']).toMatchObject({ relation: 'fork_join' })
    await server.post(`${p}/turns/${turnId}/stop`)
  })

  it('a turn shows how each of its children began: enqueued, delegated, as a follow-up or as a fork', async () => {
    for (const name of ['source', 'other', 'third']) await addAgent(server, name)
    const turnId = await addTurn(server, 'source')
    const turn = await claimed('source')
    await server.kernel.record({ ...turn, step: { stepId: `${turnId}-1`, phase: 'model', status: 'success' } })
    const source = { agentId: 'source', agentTurnId: turnId }
    await server.kernel.enqueue({ projectId: project, agentId: 'other', instruction: 'x', source })
    const batch = { tasks: [{ targetStrategy: 'reuse' as const, targetRef: 'third', instruction: 'part' }] }
    const call = { toolCallId: `${turnId}-third`, toolName: 'delegate', args: {}, batch }
    await server.kernel.suspend({ ...turn, stepId: `${turnId}-1`, calls: [call] } as never, 30)
    await server.post(`${p}/turns/${turnId}/stop`)
    expect((await server.post(`${p}/turns/${turnId}/continue`, { instruction: 'more' })).status).toBe(202)
    expect((await server.post(`${p}/turns/${turnId}/fork`, { at: 0 })).status).toBe(202)
    const { children } = (await turnOf(turnId)) as unknown as { children: Body[] }
    expect(children.map(({ agent_id, relation }) => [agent_id, relation])).toEqual([
      ['other', 'enqueued'],
      ['third', 'delegate'],
      ['source', 'follow_up'],
      ['source', 'fork'],
    ])
    const parents = await Promise.all(
      children.map(async (one) => (await turnOf(String(one['agent_turn_id'])))['parent']),
    )
    expect(parents.map((one) => (one as Body)['relation'])).toEqual(['enqueued', 'delegate', 'follow_up', 'fork'])
  })

  it('a turn lists the files that it claims and those that changed while it ran, for keys that may read the view', async () => {
    const row = (path: string, modified_time: number) => {
      return { path, file_name: path.split('/').at(-1), size: 7, modified_time, is_directory: false }
    }
    const turnId = await addTurn(server, 'kim')
    const turn = await claimed('kim')
    const now = Date.parse(String((await turnOf(turnId))['started_at'])) / 1_000
    const rows = [
      row('/old/x', now - 999),
      row('/new/made', now + 0.001),
      row('/new/later', now + 9_999),
      row('/claimed', now - 5),
    ]
    await snapshotOf(server, { agent_id: 'h1', source_id: 's2' }, rows)
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
      const contents = Array.from({ length: 7 }, (_, at) => ({ at: half * 7 + at, text }))
      const cards = contents.map((content) => ({ type: 'agent.thought', content }))
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
    const turnId = await addTurn(server, 'kim')
    const turn = await claimed('kim')
    const metadata = { usage: { total_tokens: 7 }, prompt: 'x'.repeat(9_000) }
    await server.kernel.record({ ...turn, step: { stepId: `${turnId}-s`, phase: 'think', status: 'done', metadata } })
    const { steps, usage } = (await turnOf(turnId)) as unknown as { steps: Body[]; usage: Body }
    expect(steps).toMatchObject([{ metadata: { usage: { total_tokens: 7 }, truncated: true }, phase: 'think' }])
    expect(usage).toMatchObject({ total_tokens: 7 })
    await server.post(`${p}/turns/${turnId}/stop`)
  })
})

it('views are listed with their sources and leaders, to keys that may read them', async () => {
  const { body } = await server.get('/views')
  expect(body['views']).toMatchObject([{ view_id: view, ready: true, sessions: 2, total_files: 5, total_size: 35 }])
  const [{ sources }] = body['views'] as [{ sources: Body[] }]
  expect(sources.find((one) => one['source_id'] === 's2')).toMatchObject({
    ready: true,
    sessions: 1,
    leader: { agent_id: 'h1' },
    item_count: 6,
  })
  const other = await server.key('reader', { view: 'other' })
  expect((await server.get('/views', { key: other })).body).toEqual({ views: [] })
})
