/** Turns, agents, tool results, batches, cards and boxes over real HTTP. */
import { describe, expect, it } from 'vitest'
import { project, target } from '../support/kernel.js'
import { until } from '../support/until.js'
import { addAgent, addTurn, serverPerFile, type Body } from './test-server.js'

const server = serverPerFile()

const p = `/projects/${project}`
const count = async (table: string) => (await server.t.one<{ n: number }>(`select count(*)::int as n from ${table}`)).n
/** Claims in this process and returns the turn of the agent. */
const claimed = async (agentId: string) => {
  const { turns } = await server.kernel.claim({ workerTarget: target, workerId: 'w', max: 100, resumeLeaseSeconds: 30 })
  return turns.find((turn) => turn.agentId === agentId)!
}

describe('agents', () => {
  it('agents are created, listed in pages, read and changed', async () => {
    for (const name of ['list-a', 'list-b', 'list-c']) expect((await addAgent(server, name)).status).toBe(200)
    const first = await server.get(`${p}/agents?limit=2`)
    const second = await server.get(`${p}/agents?limit=500&cursor=${first.body.cursor}`)
    const names = [...(first.body['agents'] as Body[]), ...(second.body['agents'] as Body[])].map(
      (one) => one['agent_id'] as string,
    )
    expect(names).toEqual([...new Set(names)].toSorted((a, b) => (a < b ? -1 : 1)))
    expect(names).toEqual(expect.arrayContaining(['list-a', 'list-b', 'list-c']))
    await addAgent(server, 'list-a', { metadata: { note: 1 }, status: 'retired' })
    const one = await server.get(`${p}/agents/list-a`)
    expect(one.body).toMatchObject({ status: 'retired', metadata: { note: 1 }, state: { status: 'idle' }, queued: 0 })
    expect((await server.get(`${p}/agents/unknown`)).body).toMatchObject({ status: 404, code: 'not_found' })
    expect((await server.post(`${p}/agents/list-a/turns`, { instruction: 'x' })).body).toMatchObject({
      status: 409,
      code: 'agent_retired',
    })
    const many = await server.request('PUT', `${p}/agents`, { agents: [{ agent_id: 'list-d', worker_target: target }] })
    expect(many.body).toEqual({ count: 1 })
  })

  it('an agent needs an existing profile and inherits its deadline', async () => {
    expect((await addAgent(server, 'prof', { profile_id: 'quick' })).body).toMatchObject({
      status: 400,
      code: 'unknown_profile',
    })
    const spec = { turn_deadline_seconds: 7 }
    expect((await server.request('PUT', `${p}/profiles/quick`, { worker_target: target, spec })).status).toBe(200)
    expect((await addAgent(server, 'prof', { profile_id: 'quick' })).status).toBe(200)
    await addTurn(server, 'prof')
    const { seconds } = await server.t.one<{ seconds: number }>(
      `select extract(epoch from turn_deadline - leased_at)::int as seconds from state.agent_state_head where agent_id = 'prof'`,
    )
    expect(seconds).toBe(7)
    expect(
      (await server.request('PUT', `${p}/tools/grep`, { description: 'looks', options: { timeout_seconds: 9 } }))
        .status,
    ).toBe(200)
  })
})

describe('turns', () => {
  it('[T1.5] an enqueued turn is answered with 202, and the next turn is queued behind it', async () => {
    await addAgent(server, 'ann')
    const first = await server.post(`${p}/agents/ann/turns`, { instruction: 'do it', metadata: { why: 'test' } })
    expect(first.status).toBe(202)
    expect(first.body).toMatchObject({
      status: 'pending',
      agent_turn_id: expect.any(String),
      inbox_id: expect.any(String),
    })
    const second = await server.post(`${p}/agents/ann/turns`, { instruction: 'then this' })
    expect(second.body).toMatchObject({ status: 'queued' })
    const found = await server.get(`${p}/turns/${first.body.agent_turn_id}`)
    expect(found.body).toMatchObject({
      agent_id: 'ann',
      status: 'dispatched',
      ended_at: null,
      steps: [],
      waits: [],
      children: [],
      parent: null,
    })
    const box = await server.get(`${p}/boxes/${String(found.body['context_box_id'])}/cards`)
    expect(box.body['cards']).toMatchObject([{ content: { text: 'do it' } }])
    expect(found.body['output_box_id']).toEqual(expect.any(String))
    expect((await server.post(`${p}/agents/unknown/turns`, { instruction: 'x' })).body).toMatchObject({
      status: 404,
      code: 'unknown_agent',
    })
  })

  it('[T1.5] requests with the same Idempotency-Key create one turn and get one response, also concurrently', async () => {
    await addAgent(server, 'once')
    const ask = (instruction: string, key = 'k-1') =>
      server.post(`${p}/agents/once/turns`, { instruction }, { headers: { 'idempotency-key': key } })
    const answers = await Promise.all(Array.from({ length: 8 }, () => ask('do it')))
    expect(new Set(answers.map((one) => one.text)).size).toBe(1)
    const turn = await claimed('once')
    await server.kernel.deliver({ ...turn, status: 'success', content: { text: 'ok' } })
    const later = await ask('do it')
    expect([later.status, later.text, later.headers['idempotent-replay']]).toEqual([202, answers[0]!.text, 'true'])
    expect((await ask('something else')).body).toMatchObject({ status: 422, code: 'idempotency_key_reused' })
    expect((await ask('something else', 'k-2')).body.agent_turn_id).not.toBe(answers[0]!.body.agent_turn_id)
    const { n } = await server.t.one<{ n: number }>(
      `select count(*)::int as n from state.agent_inbox where agent_id = 'once'`,
    )
    expect(n).toBe(2)
    expect((await ask('x', 'bad key')).body).toMatchObject({ status: 400, code: 'invalid_request' })
  })

  it('[T1.5] a retry after a crash between the enqueue and its response gets the same turn', async () => {
    await addAgent(server, 'crash')
    const ask = () =>
      server.post(`${p}/agents/crash/turns`, { instruction: 'a' }, { headers: { 'idempotency-key': 'c' } })
    const first = await ask()
    // As if the server had died before it stored its response.
    await server.t.all(`update resource.http_responses set status = null, response = null where idempotency_key = 'c'`)
    expect((await ask()).body).toMatchObject({ agent_turn_id: first.body.agent_turn_id })
  })

  it('turns are listed newest first, by status and agent, in pages without gap or repetition', async () => {
    await addAgent(server, 'many')
    const made: string[] = []
    for (let at = 0; at < 7; at += 1) made.push(await addTurn(server, 'many', { instruction: `turn ${at}` }))
    const seen: string[] = []
    for (let cursor: string | null = ''; cursor !== null;) {
      const page = await server.get(`${p}/turns?agent=many&limit=3${cursor === '' ? '' : `&cursor=${cursor}`}`)
      seen.push(...page.body.turns!.map((turn) => turn.agent_turn_id!))
      cursor = page.body.cursor as string | null
    }
    expect(seen).toEqual(made.toReversed())
    const inLine = await server.get(`${p}/turns?agent=many&status=queued`)
    expect(inLine.body.turns!.map((turn) => turn.agent_turn_id)).toEqual(made.slice(1).toReversed())
    const turn = await claimed('many')
    expect((await server.get(`${p}/turns?agent=many&status=running`)).body.turns).toMatchObject([
      { agent_turn_id: turn.agentTurnId },
    ])
    await server.kernel.deliver({ ...turn, status: 'failed', error: 'no', content: { text: 'no' } })
    expect((await server.get(`${p}/turns?agent=many&status=failed`)).body.turns).toMatchObject([
      { agent_turn_id: made[0], error: 'no' },
    ])
    expect((await server.get(`${p}/turns?agent=many&status=success`)).body).toMatchObject({ turns: [], cursor: null })
    expect((await server.get(`/projects/other/turns`)).body).toEqual({ turns: [], cursor: null })
  })

  it('a request with wait is answered when the turn ends, or after the wait', async () => {
    await addAgent(server, 'slow')
    const turnId = await addTurn(server, 'slow')
    const turn = await claimed('slow')
    const waiting = server.get(`${p}/turns/${turnId}?wait=30`)
    const queries = Array.from({ length: 20 }, () => server.get(`${p}/turns/${turnId}?wait=30`))
    await until('followers', async () =>
      (await server.get(`${p}/turns/${turnId}`)).body.status === 'running' ? true : undefined,
    )
    await server.kernel.deliver({ ...turn, status: 'success', content: { text: 'done' } })
    const answer = await waiting
    expect(answer.body).toMatchObject({ status: 'success', deliverable: { content: { text: 'done' } } })
    for (const one of await Promise.all(queries)) expect(one.body.status).toBe('success')
    expect((await server.get(`${p}/turns/${turnId}?wait=30`)).body.status).toBe('success')
    const other = await addTurn(server, 'slow')
    expect((await server.get(`${p}/turns/${other}?wait=0.05`)).body).toMatchObject({ status: 'dispatched' })
  })

  it('a request with wait is answered when the turn ends although an open transaction delays all events', async () => {
    await addAgent(server, 'delayed')
    const turnId = await addTurn(server, 'delayed')
    const turn = await claimed('delayed')
    const waiting = server.get(`${p}/turns/${turnId}?wait=30`)
    let release = () => {}
    const over = new Promise<void>((resolve) => (release = resolve))
    const long = server.t.db.transaction(async (tx) => {
      await tx.query({
        text: `insert into state.outbox (project_id, subject, kind, payload, created_at)
          values ('p', 's', 'step', '{}', state.now())`,
      })
      await server.kernel.deliver({ ...turn, status: 'success', content: { text: 'done' } })
      await over
    })
    expect((await waiting).body.status).toBe('success')
    release()
    await long
  })

  it('[T3.6] a running turn is stopped once, and a queued turn is canceled', async () => {
    await addAgent(server, 'halt')
    const first = await addTurn(server, 'halt')
    const second = await addTurn(server, 'halt')
    expect((await server.post(`${p}/turns/${second}/stop`, { reason: 'changed my mind' })).body).toMatchObject({
      status: 'ended',
    })
    expect((await server.post(`${p}/turns/${first}/stop`)).body).toMatchObject({ status: 'ended' })
    expect((await server.request('POST', `${p}/turns/${first}/stop`)).body).toMatchObject({ status: 'already' })
    expect((await server.get(`${p}/turns/${second}`)).body).toMatchObject({ status: 'canceled' })
    expect((await server.post(`${p}/turns/nothing/stop`)).body).toMatchObject({ status: 404, code: 'unknown_turn' })
    expect((await server.post(`/projects/other/turns/${first}/stop`)).status).toBe(404)
  })
})

describe('tool calls', () => {
  const suspended = async (agentId: string, toolCallId: string, toolName = 'grep') => {
    await addAgent(server, agentId)
    await addTurn(server, agentId)
    const turn = await claimed(agentId)
    const calls = [{ toolCallId, toolName, args: { question: 'why?' } }]
    await server.kernel.suspend({ ...turn, stepId: `s-${toolCallId}`, calls }, 30)
    return turn
  }

  it('[T8.2] a tool call gets one result; a repeated result is answered with 202 and changes nothing', async () => {
    await suspended('tool', 'call-1')
    const start = await server.post(`${p}/tool-calls/call-1/start`, { host: 'h1' }, { key: server.keys.worker })
    expect(start.body).toMatchObject({ status: 'started', arguments: { question: 'why?' } })
    expect((await server.post(`${p}/tool-calls/call-1/start`, { host: 'h2' })).body).toMatchObject({
      status: 'unknown',
    })
    const result = { status: 'success', result: { hits: 3 } }
    const first = await server.post(`${p}/tool-calls/call-1/result`, result, { key: server.keys.worker })
    expect([first.status, first.body.status]).toEqual([202, 'reported'])
    const before = [await count('cards.cards'), await count('state.agent_inbox'), await count('state.events')]
    const again = await server.post(`${p}/tool-calls/call-1/result`, { status: 'failed', error: 'late' })
    expect([again.status, again.body.status]).toEqual([202, 'ignored'])
    expect([await count('cards.cards'), await count('state.agent_inbox'), await count('state.events')]).toEqual(before)
    expect((await server.post(`${p}/tool-calls/none/result`, result)).body).toMatchObject({
      status: 404,
      code: 'unknown_tool_call',
    })
    expect((await server.post(`/projects/other/tool-calls/call-1/result`, result)).status).toBe(404)
  })

  it('open questions to people are listed with their deadline until they are answered', async () => {
    await suspended('asker', 'call-q', 'ask_person')
    const { body } = await server.get(`${p}/questions`, { key: server.keys.reader })
    expect(body['questions']).toMatchObject([
      { tool_call_id: 'call-q', agent_id: 'asker', arguments: { question: 'why?' }, deadline: expect.any(String) },
    ])
    await server.post(
      `${p}/tool-calls/call-q/result`,
      { status: 'success', result: 'because' },
      { key: server.keys.operator },
    )
    await claimed('asker')
    expect((await server.get(`${p}/questions`)).body).toEqual({ questions: [] })
  })

  it('[T3.1c] [T3.1e] a UI action is accepted by an idle agent; a busy agent, an unknown tool and a reused id get the reason', async () => {
    await addAgent(server, 'ui')
    await server.request('PUT', `${p}/tools/click`, {})
    const action = (actionId: string, more: object = {}) =>
      server.post(`${p}/ui-actions`, { action_id: actionId, agent_id: 'ui', tool_name: 'click', args: {}, ...more })
    expect((await action('a0', { tool_name: 'clik' })).body).toEqual({
      status: 'rejected',
      agent_turn_id: null,
      error: { code: 'unknown_tool', message: expect.stringContaining('has no tool "clik". Did you mean "click"?') },
    })
    const first = await action('a1')
    expect([first.status, first.body.status]).toEqual([202, 'accepted'])
    expect((await action('a1')).body).toEqual(first.body)
    expect((await action('a1', { args: { x: 1 } })).body).toMatchObject({ status: 409, code: 'action_conflict' })
    expect((await action('a2')).body).toEqual({ status: 'busy', agent_turn_id: null, error: null })
    expect((await action('a3', { agent_id: 'nobody' })).body).toMatchObject({
      status: 'rejected',
      error: { code: 'unknown_agent' },
    })
  })
})

describe('cards, boxes and batches', () => {
  it('[T5.2] a box is created from cards and other boxes, and read in pages, in its own project only', async () => {
    const one = await server.post(`${p}/boxes`, { cards: [{ type: 'task.instruction', content: { text: 'first' } }] })
    expect(one.status).toBe(201)
    const packed = await server.post(`${p}/boxes`, {
      pack: [one.body['box_id']],
      cards: [{ type: 'task.instruction', content: { text: 'second' } }],
    })
    const first = await server.get(`${p}/boxes/${String(packed.body['box_id'])}/cards?limit=1`)
    const second = await server.get(`${p}/boxes/${String(packed.body['box_id'])}/cards?cursor=${first.body.cursor}`)
    const cards = [...(first.body['cards'] as Body[]), ...(second.body['cards'] as Body[])]
    expect(cards.map((card) => card['content'])).toEqual([{ text: 'first' }, { text: 'second' }])
    const card = String(cards[0]!['card_id'])
    expect((await server.get(`${p}/cards/${card}`, { key: server.keys.worker })).body).toMatchObject({
      content: { text: 'first' },
    })
    for (const path of [`/cards/${card}`, `/boxes/${String(packed.body['box_id'])}/cards`])
      expect((await server.get(`/projects/other${path}`)).status).toBe(404)
    const stolen = await server.post('/projects/other/boxes', { pack: [packed.body['box_id']] })
    expect(stolen.body).toMatchObject({ status: 400, code: 'unknown_card' })
    await addAgent(server, 'boxed')
    expect((await server.post(`${p}/agents/boxed/turns`, { context_box_id: packed.body['box_id'] })).status).toBe(202)
    expect((await server.post(`${p}/agents/boxed/turns`, { context_box_id: 'none' })).body).toMatchObject({
      code: 'unknown_box',
    })
  })

  it('a batch is forked once per key, and shows each of its tasks', async () => {
    await server.request('PUT', `${p}/profiles/helper`, { worker_target: 'helpers' })
    const tasks = Array.from({ length: 3 }, (_, at) => ({
      target_strategy: 'new',
      target_ref: 'helper',
      instruction: `part ${at}`,
    }))
    const ask = (body: object) => server.post(`${p}/batches`, body, { headers: { 'idempotency-key': 'b' } })
    const first = await ask({ tasks })
    expect([first.status, first.body.status]).toEqual([202, 'open'])
    expect((await ask({ tasks })).text).toBe(first.text)
    expect((await ask({ tasks: tasks.slice(1) })).status).toBe(422)
    const batch = await server.get(`${p}/batches/${String(first.body['batch_id'])}`)
    expect(batch.body).toMatchObject({ task_count: 3, status: 'open' })
    expect(batch.body['tasks']).toHaveLength(3)
    expect((await server.get(`${p}/batches`)).body['batches']).toMatchObject([{ batch_id: first.body['batch_id'] }])
    expect((await server.get(`/projects/other/batches/${String(first.body['batch_id'])}`)).status).toBe(404)
  })
})

describe('the rest', () => {
  it('health, readiness, metrics and OpenAPI need no key on a loopback address', async () => {
    for (const path of ['/healthz', '/readyz', '/metrics', '/api/v1/openapi.json'])
      expect((await server.get(path, { key: null })).status).toBe(200)
    const { body } = await server.get('/openapi.json', { key: null })
    const paths = Object.keys(body['paths'] as object)
    expect(paths).toContain('/api/v1/projects/{project}/agents/{agent}/turns')
    expect(paths).toContain('/api/v1/workers/{target}/claim')
    const schema = JSON.stringify(body)
    expect(schema).toContain('idempot')
    expect(schema).toContain('turn_epoch')
  })

  it('interventions are listed newest first, by project and kind', async () => {
    await addAgent(server, 'mute')
    await addTurn(server, 'mute')
    await claimed('mute')
    server.watch.add(target)
    await server.watch.step()
    for (let seconds = 0; seconds < 40; seconds += 5) {
      await server.t.advance(5)
      await server.watch.step()
    }
    const { body } = await server.get('/watchdog/interventions?kind=reclaim&limit=1')
    expect(body['interventions']).toMatchObject([{ kind: 'reclaim', project_id: project }])
    expect((await server.get('/watchdog/interventions?project=other')).body).toMatchObject({ interventions: [] })
  })
})
