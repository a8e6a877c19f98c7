/** Invalid requests are rejected with a problem that names the reason, and write nothing. */
import { defined } from '@bellwether/base'
import { connect } from 'node:net'
import { gzipSync } from 'node:zlib'
import { beforeAll, describe, expect, it } from 'vitest'
import { project, target } from '../support/kernel.js'
import { addAgent, addTurn, serverPerFile, type Body } from './test-server.js'

const server = serverPerFile()
let turn: Body
beforeAll(async () => {
  await addAgent(server, 'ann')
  await addTurn(server, 'ann')
  turn = (await server.post(`/workers/${target}/claim`)).body.turns![0]!
})

const p = `/projects/${project}`
const tables = [
  'cards.cards',
  'cards.boxes',
  'state.agent_inbox',
  'state.agent_steps',
  'state.events',
  'state.turn_waiting_tools',
  'state.batches',
  'resource.project_agents',
  'resource.profiles',
  'resource.tools',
  'resource.api_keys',
]
const counts = () =>
  server.t.one(`select ${tables.map((table, at) => `(select count(*) from ${table}) as c${at}`).join(', ')}`)
const deep = (levels: number) => JSON.parse(`${'['.repeat(levels)}${']'.repeat(levels)}`) as unknown
const nul = 'a\u0000b'
const half = 'a\ud800b'

type Case = readonly [what: string, method: string, path: string, body: unknown, status?: number, code?: string]

describe('bodies', () => {
  it('an invalid request is rejected with a problem and writes nothing', async () => {
    const t = () => `/turns/${turn.agent_turn_id}`
    const fence = { turn_epoch: turn.turn_epoch, lease_token: turn.lease_token }
    const instruction = 'x'
    const cases: readonly Case[] = [
      ['no instruction', 'POST', `${p}/agents/ann/turns`, {}],
      ['a number for an object', 'POST', `${p}/agents/ann/turns`, 5],
      ['a list for an object', 'POST', `${p}/agents/ann/turns`, []],
      ['null', 'POST', `${p}/agents/ann/turns`, null],
      ['both contexts', 'POST', `${p}/agents/ann/turns`, { instruction, context_box_id: 'b' }],
      ['an unknown key', 'POST', `${p}/agents/ann/turns`, { instruction, agent: 'bob' }],
      ['NUL', 'POST', `${p}/agents/ann/turns`, { instruction: nul }],
      ['half a surrogate pair', 'POST', `${p}/agents/ann/turns`, { instruction: half }],
      ['NUL in a correlation id', 'POST', `${p}/agents/ann/turns`, { instruction, correlation_id: nul }],
      [
        'NUL deep inside',
        'POST',
        `${p}/agents/ann/turns`,
        { instruction, metadata: { a: [nul] } },
        400,
        'invalid_text',
      ],
      [
        'an invalid traceparent',
        'POST',
        `${p}/agents/ann/turns`,
        { instruction, traceparent: 'x' },
        400,
        'invalid_traceparent',
      ],
      ['an invalid channel', 'POST', `${p}/agents/ann/turns`, { instruction, channel_id: 'a.b' }],
      [
        'a result field twice',
        'POST',
        `${p}/agents/ann/turns`,
        { instruction, result_fields: [{ name: 'a' }, { name: 'a' }] },
        400,
        'invalid_result_fields',
      ],
      ['a negative budget', 'POST', `${p}/agents/ann/turns`, { instruction, budget: { max_tokens: -1 } }],
      ['a huge budget', 'POST', `${p}/agents/ann/turns`, { instruction, budget: { max_tokens: 1e300 } }],
      [
        'too deep',
        'POST',
        `${p}/agents/ann/turns`,
        { instruction, metadata: { a: deep(100) } },
        400,
        'content_too_deep',
      ],
      [
        'much too deep',
        'POST',
        `${p}/agents/ann/turns`,
        Buffer.from(`{"metadata":${'['.repeat(200_000)}${']'.repeat(200_000)}}`),
        400,
        'content_too_deep',
      ],
      [
        'too many values',
        'POST',
        `${p}/agents/ann/turns`,
        Buffer.from(`{"metadata":[${'0,'.repeat(300_000)}0]}`),
        413,
        'too_large',
      ],
      ['too long', 'POST', `${p}/agents/ann/turns`, { instruction: 'x'.repeat(1_000_001) }],
      [
        'an oversized payload',
        'POST',
        `${p}/agents/ann/turns`,
        { instruction, metadata: { a: 'x'.repeat(100_000) } },
        413,
        'content_too_large',
      ],
      ['an invalid project name', 'POST', `/projects/P%20P/agents/ann/turns`, { instruction }],
      ['an invalid agent name', 'POST', `${p}/agents/A.B/turns`, { instruction }],
      ['an invalid target name', 'PUT', `${p}/agents/new`, { worker_target: 'a b' }],
      ['an unknown status', 'PUT', `${p}/agents/new`, { worker_target: 'a', status: 'asleep' }],
      ['a deadline of a century', 'PUT', `${p}/agents/new`, { worker_target: 'a', turn_deadline_seconds: 1e12 }],
      [
        'an agent twice',
        'PUT',
        `${p}/agents`,
        {
          agents: [
            { agent_id: 'a', worker_target: 'a' },
            { agent_id: 'a', worker_target: 'a' },
          ],
        },
      ],
      ['an invalid subject', 'PUT', `${p}/tools/new`, { target_subject: 'evt.>' }, 400, 'invalid_subject'],
      ['a result without status', 'POST', `${p}/tool-calls/x/result`, {}],
      ['an unknown status', 'POST', `${p}/tool-calls/x/result`, { status: 'great' }],
      ['an action without id', 'POST', `${p}/ui-actions`, { agent_id: 'ann', tool_name: 'x' }],
      ['an empty batch', 'POST', `${p}/batches`, { tasks: [] }],
      [
        'a batch without instructions',
        'POST',
        `${p}/batches`,
        { tasks: [{ target_strategy: 'new', target_ref: 'x' }] },
        400,
        'no_instruction',
      ],
      [
        'a huge batch',
        'POST',
        `${p}/batches`,
        { tasks: Array.from({ length: 2_001 }, () => ({ target_strategy: 'new', target_ref: 'x', instruction })) },
      ],
      ['an empty box', 'POST', `${p}/boxes`, {}],
      ['an unknown card', 'POST', `${p}/boxes`, { card_ids: ['none'] }, 400, 'unknown_card'],
      ['an unknown card type', 'POST', `${p}/boxes`, { cards: [{ type: 'x', content: {} }] }],
      [
        'a card of a megabyte',
        'POST',
        `${p}/boxes`,
        { cards: [{ type: 'agent.thought', content: 'x'.repeat(1_100_000) }] },
        413,
        'content_too_large',
      ],
      ['a card without content', 'POST', `${p}/boxes`, { cards: [{ type: 'agent.thought' }] }],
      ['an unknown role', 'POST', '/keys', { role: 'king' }],
      ['an invalid view name', 'POST', '/keys', { role: 'sensor', view: '../x' }],
      ['too many turns', 'POST', `/workers/${target}/claim`, { max: 1_000_000 }],
      ['a negative wait', 'POST', `/workers/${target}/claim`, { wait_seconds: -1 }],
      ['no fence', 'POST', `${t()}/beat`, {}],
      ['an unknown activity', 'POST', `${t()}/beat`, { ...fence, activity: 'napping' }],
      ['no calls', 'POST', `${t()}/suspend`, { ...fence, calls: [] }],
      [
        'a tool call id twice',
        'POST',
        `${t()}/suspend`,
        {
          ...fence,
          calls: [
            { tool_call_id: 'a', tool_name: 'x' },
            { tool_call_id: 'a', tool_name: 'x' },
          ],
        },
        400,
        'invalid_tool_calls',
      ],
      [
        'an invalid tool name',
        'POST',
        `${t()}/suspend`,
        { ...fence, calls: [{ tool_call_id: 'a', tool_name: 'x.>' }] },
      ],
      [
        'a wait of 30 years',
        'POST',
        `${t()}/suspend`,
        { ...fence, calls: [{ tool_call_id: 'a', tool_name: 'x', timeout_seconds: 1e9 }] },
      ],
      [
        'NUL in arguments',
        'POST',
        `${t()}/suspend`,
        { ...fence, calls: [{ tool_call_id: 'a', tool_name: 'x', arguments: { a: nul } }] },
        400,
        'invalid_text',
      ],
      ['nothing delivered', 'POST', `${t()}/deliver`, fence],
      ['text and fields', 'POST', `${t()}/deliver`, { ...fence, text: 'x', fields: [] }],
      ['a worker that delivers canceled', 'POST', `${t()}/deliver`, { ...fence, text: 'x', status: 'canceled' }],
      ['NUL delivered', 'POST', `${t()}/deliver`, { ...fence, text: nul }],
      ['a NUL in the URL', 'GET', `${p}/cards/a%00b`, undefined],
      ['bytes that are not UTF-8 in the URL', 'GET', `${p}/cards/%ff%fe`, undefined, 400],
      ['a NUL in the query', 'GET', `${p}/turns?cursor=a%00b`, undefined],
      ['an unknown status', 'GET', `${p}/turns?status=idle`, undefined],
      ['a limit of zero', 'GET', `${p}/turns?limit=0`, undefined],
      ['an oversized limit', 'GET', `${p}/turns?limit=1000000`, undefined],
      ['an invalid cursor', 'GET', `${p}/boxes/x/cards?cursor=abc`, undefined],
      ['an invalid wait', 'GET', `${p}/turns/x?wait=soon`, undefined],
      ['a very long name', 'GET', `${p}/cards/${'x'.repeat(600)}`, undefined, 414],
      ['SQL in a name', 'GET', `${p}/cards/x';drop table cards.cards;--`, undefined, 404, 'not_found'],
    ]
    const before = await counts()
    for (const [what, method, path, body, status = 400, code] of cases) {
      const answer = await server.request(method, path, body)
      expect([what, answer.status, answer.text.slice(0, 300)]).toEqual([what, status, answer.text.slice(0, 300)])
      expect([what, answer.headers['content-type']]).toEqual([what, 'application/problem+json'])
      expect(answer.body).toMatchObject({
        status,
        title: expect.any(String),
        detail: expect.any(String),
        ...defined({ code }),
      })
      expect(answer.text).not.toMatch(/at \w+ \(|node_modules|\.ts:\d/)
    }
    expect(await counts()).toEqual(before)
    expect((await server.post(`${t()}/beat`, fence)).status).toBe(200)
  })

  it('a body that is not JSON, not UTF-8, not valid gzip or too large is rejected', async () => {
    const path = `${p}/agents/ann/turns`
    const send = async (bytes: Buffer, headers = {}) => {
      const { status, body } = await server.request('POST', path, bytes, { headers })
      return [status, body.code]
    }
    expect(await send(Buffer.from('{'))).toEqual([400, 'not_json'])
    expect(await send(Buffer.from('{"instruction":"\xff"}', 'latin1'))).toEqual([400, 'not_utf8'])
    expect(await send(Buffer.from('x'), { 'content-encoding': 'gzip' })).toEqual([400, 'not_zipped'])
    expect(await send(Buffer.from('{}'), { 'content-encoding': 'br' })).toEqual([415, 'unsupported_encoding'])
    const bomb = gzipSync(Buffer.alloc(100 * 1_048_576, ' '))
    expect(await send(bomb, { 'content-encoding': 'gzip' })).toEqual([413, 'too_large'])
    const good = gzipSync(JSON.stringify({ instruction: 'zipped' }))
    expect((await send(good, { 'content-encoding': 'gzip' }))[0]).toBe(202)
  })

  it('a body of 64 MB is rejected before it is read', async () => {
    const answer = await new Promise<string>((resolve, reject) => {
      const socket = connect(Number(new URL(server.url).port), '127.0.0.1')
      let text = ''
      socket.write(
        `POST /api/v1${p}/agents/ann/turns HTTP/1.1\r\nhost: x\r\nx-api-key: ${server.keys.admin}\r\ncontent-length: 67108864\r\n\r\n`,
      )
      socket.on('data', (data) => (text += data.toString()))
      socket.on('close', () => resolve(text))
      socket.on('error', reject)
    })
    expect(answer).toContain('413 Payload Too Large')
    expect(answer).toContain('"code":"too_large"')
    expect((await server.get('/healthz')).status).toBe(200)
  })

  it('a body cannot change object prototypes', async () => {
    await server.request(
      'POST',
      `${p}/agents/ann/turns`,
      Buffer.from('{"instruction":"x","metadata":{"__proto__":{"polluted":1}}}'),
    )
    await server.get(`${p}/turns?__proto__=1&constructor=2`)
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
  })
})

describe('headers and logs', () => {
  it('line breaks in a request inject no header into the response', async () => {
    const asks = [
      `GET /api/v1/me HTTP/1.1\r\nhost: x\r\nx-api-key: a\rinjected: 1\r\nconnection: close\r\n\r\n`,
      `GET /api/v1/me%0d%0ainjected:%201 HTTP/1.1\r\nhost: x\r\nx-api-key: ${server.keys.admin}\r\nconnection: close\r\n\r\n`,
      `GET /api/v1${p}/events?cursor=0:0%0d%0ainjected:1 HTTP/1.1\r\nhost: x\r\nx-api-key: ${server.keys.admin}\r\nconnection: close\r\n\r\n`,
    ]
    for (const ask of asks) {
      const answer = await new Promise<string>((resolve) => {
        const socket = connect(Number(new URL(server.url).port), '127.0.0.1', () => socket.write(ask))
        let text = ''
        socket.on('data', (data) => (text += data.toString()))
        socket.on('close', () => resolve(text))
        socket.on('error', () => resolve(text))
      })
      expect(answer).toMatch(/^HTTP\/1\.1 4\d\d/)
      expect(answer.split('\r\n\r\n')[0]).not.toContain('injected')
    }
  })

  it('text of a client stays within one field of one line in the log and the audit log', async () => {
    const evil = 'x%0a{"level":30,"msg":"forged"}%1b[2J'
    await server.post(`${p}/turns/${evil}/stop`)
    await server.get(`/${evil}`)
    for (const line of server.lines) expect(line.message).not.toContain('forged')
    const { body } = await server.get('/audit?limit=1')
    const [row] = body['audit'] as { path: string }[]
    expect(row!.path).toContain('%0a')
    expect(row!.path).toMatch(/^[\x21-\x7e]+$/)
  })

  it('the response to an internal error contains no internal detail', async () => {
    await server.t.all('alter table state.interventions rename to interventions_gone')
    const answer = await server.get('/watchdog/interventions')
    await server.t.all('alter table state.interventions_gone rename to interventions')
    expect(answer.body).toEqual({
      type: 'urn:bellwether:problem:internal',
      title: 'Internal Server Error',
      status: 500,
      code: 'internal',
      detail: 'Internal error; the server’s log has the details',
    })
    expect(server.lines.some((line) => line.level === 'error' && line.message === 'request failed')).toBe(true)
  })
})
