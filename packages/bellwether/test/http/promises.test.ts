/** Idempotency keys, cursors and streams keep their guarantees when clients misuse them. */
import { defined } from '@bellwether/base'
import { once } from 'node:events'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import type { Socket } from 'node:net'
import { project } from '../support/kernel.js'
import { boardPart } from './board-part.js'
import { addAgent, serverPerFile, type Body } from './test-server.js'
import { readEvents, type SseReader } from './reader.js'

let taskRoot = ''
const server = serverPerFile(async (world) => {
  const board = await boardPart(world)
  taskRoot = board.dispatcher.board.root
  return { board, limits: { silenceMs: 1_000 } }
})
beforeAll(async () => {
  await addAgent(server, 'ann')
  await server.request('PUT', '/projects/q/agents/ann', { worker_target: 'w' })
})

const p = `/projects/${project}`
const turns = async (from = project) =>
  (await server.t.one<{ n: number }>(`select count(*)::int as n from state.agent_inbox where project_id = $1`, from)).n

describe('an idempotency key', () => {
  const send = (key: string, instruction: string, options: { path?: string; as?: string } = {}) =>
    server.post(
      options.path ?? `${p}/agents/ann/turns`,
      { instruction },
      { headers: { 'idempotency-key': key }, ...defined({ key: options.as }) },
    )

  it('concurrent requests with one idempotency key create one turn and get the same response', async () => {
    const before = await turns()
    const answers = await Promise.all(Array.from({ length: 20 }, () => send('many', 'x')))
    expect(new Set(answers.map((one) => one.body.agent_turn_id)).size).toBe(1)
    expect(new Set(answers.map((one) => one.status))).toEqual(new Set([202]))
    expect(await turns()).toBe(before + 1)
  })

  it('an idempotency key with another body is rejected, and two concurrent bodies create one turn', async () => {
    const before = await turns()
    const both = await Promise.all([send('race', 'one'), send('race', 'two')])
    expect(new Set(both.map((one) => one.status))).toEqual(new Set([202, 422]))
    expect(both.find((one) => one.status === 422)!.body).toMatchObject({ code: 'idempotency_key_reused' })
    expect(await turns()).toBe(before + 1)
  })

  it('an idempotency key is scoped to its project and URL', async () => {
    const first = await send('shared', 'x')
    const other = await send('shared', 'x', { path: '/projects/q/agents/ann/turns' })
    expect(other.body.agent_turn_id).not.toBe(first.body.agent_turn_id)
    await addAgent(server, 'bob')
    const bob = await send('shared', 'x', { path: `${p}/agents/bob/turns` })
    expect(bob.body.agent_turn_id).not.toBe(first.body.agent_turn_id)
    // Another spelling of the URL is the same request.
    const spelled = await send('shared', 'x', { path: `${p}/agents/%61nn/turns` })
    expect(spelled.body.agent_turn_id).toBe(first.body.agent_turn_id)
    const ofQ = await server.key('operator', { project: 'q' })
    expect((await send('shared', 'x', { as: ofQ })).status).toBe(403)
  })

  it.each(['', 'a b', 'x'.repeat(201), 'ü'])('the invalid idempotency key %j is rejected', async (key) => {
    const headers = { 'idempotency-key': Buffer.from(key).toString('latin1') }
    const answer = await server.post(`${p}/agents/ann/turns`, { instruction: 'x' }, { headers })
    expect([answer.status, answer.body.code]).toEqual([400, 'invalid_request'])
  })
})

describe('a cursor', () => {
  it('a cursor of another project or an invented one returns only turns of the own project', async () => {
    const foreign = await server.post('/projects/q/agents/ann/turns', { instruction: 'SECRET' })
    for (const cursor of [foreign.body.agent_turn_id!, '~', '0', 'zzz', "' or 1=1 --", '\u{10ffff}']) {
      const { status, body } = await server.get(`${p}/turns?cursor=${encodeURIComponent(cursor)}`)
      expect([cursor, status]).toEqual([cursor, 200])
      expect(body.turns!.every((turn) => turn['project_id'] === project)).toBe(true)
    }
  })

  it.each([
    ['/audit?cursor=-1', 400],
    ['/audit?cursor=1e9', 400],
    ['/audit?cursor=99999999999999999999', 400],
    ['/board/tasks?cursor=999999999999999', 200],
    ['/board/tasks?cursor=-1', 400],
    ['/watchdog/interventions?cursor=0x10', 400],
    [`${p}/boxes/none/cards?cursor=5`, 404],
    [`${p}/agents?cursor=%00`, 400],
    [`${p}/agents?limit=1.5`, 400],
    [`${p}/agents?limit=1001`, 400],
    [`${p}/turns?limit=-1`, 400],
    [`${p}/turns/none?wait=-1`, 400],
    [`${p}/turns/none?wait=1e9`, 400],
  ])('an invalid cursor, limit or wait is rejected without an internal error: %s', async (path, status) => {
    expect((await server.get(path)).status).toBe(status)
  })
})

describe('streams', () => {
  const url = (query = '') => `${server.url}/api/v1${p}/events${query}`
  const ids = (reader: SseReader) => reader.events.map((one) => one.data['event_id'] as number)

  it('the stream cuts off a reader that does not read, and continues after its reconnect without gap or repetition', async () => {
    const start = await server.tail.now()
    const text = `insert into state.outbox (project_id, subject, kind, payload, created_at)
      select $1, 'big', 'step', jsonb_build_object('text', repeat('x', 20000), 'at', i), state.now() from generate_series(1, 1500) i`
    await server.t.all(text, project)
    const accepted = once(server.http.app.server, 'connection') as Promise<[Socket]>
    const reader = await readEvents(url(), { key: server.keys.reader, last: start })
    reader.pause()
    const [theirs] = await accepted
    await once(theirs, 'close')
    // The reader still gets what was in the network buffers; then the stream ends.
    reader.resume()
    await reader.ended
    const before = ids(reader)
    expect(before.length).toBeLessThan(1_500)
    const stored = await server.t.all<{ event_id: number }>(
      `select event_id from state.events where project_id = $1 and subject = 'big' order by xid, event_id`,
      project,
    )
    const read = [...before]
    for (let last = reader.lastId(); read.length < stored.length;) {
      const again = await readEvents(url(), { key: server.keys.reader, last })
      const isLast = ({ data }: { readonly data: Body }) => (data['payload'] as Body)['at'] === 1_500
      // On a busy machine the server may cut off this reader, too.
      await Promise.race([again.ended, again.next('the last', isLast)])
      again.cut()
      await again.ended
      read.push(...ids(again))
      last = again.lastId()
    }
    expect(read).toEqual(stored.map((row) => row.event_id))
  })

  it('the board’s stream continues where a reader stopped, without gap or repetition', async () => {
    const board = (last?: string) => readEvents(`${server.url}/api/v1/board/events`, { key: server.keys.reader, last })
    const titles: string[] = []
    let last = '0'
    for (let at = 0; at < 4; at += 1) {
      await server.post('/board/tasks', { title: `t-${at}-a` })
      await server.post('/board/tasks', { title: `t-${at}-b` })
      const reader = await board(last)
      await reader.next('the newest', ({ data }) => (data['payload'] as Body)['title'] === `t-${at}-b`)
      reader.cut()
      titles.push(...reader.events.map(({ data }) => String((data['payload'] as Body)['title'])))
      last = reader.lastId()!
    }
    expect(titles).toEqual([0, 1, 2, 3].flatMap((at) => [`t-${at}-a`, `t-${at}-b`]))
  })

  it('a stream answers a foreign or impossible position with reset, or rejects it', async () => {
    const ahead = await readEvents(url(), { key: server.keys.reader, last: '9999999999999:1' })
    expect(await ahead.next('reset', () => true)).toMatchObject({ event: 'reset' })
    ahead.cut()
    const board = await readEvents(`${server.url}/api/v1/board/events`, { key: server.keys.reader, last: '999999' })
    expect(await board.next('reset', () => true)).toMatchObject({ event: 'reset' })
    board.cut()
    const files = await readEvents(`${server.url}/api/v1/views/v/events`, { key: server.keys.reader, last: 'nonsense' })
    expect(await files.next('reset', () => true)).toMatchObject({ event: 'reset' })
    files.cut()
  })
})

it('an invalid policy file prevents neither reading nor changing the board, and ready tasks name it', async () => {
  const config = join(taskRoot, 'config')
  await mkdir(config)
  await writeFile(join(config, 'budget-policy.json'), '{"global":{"maxTaskTokens":"many"}}')
  const waiting = { waitCode: 'policy', waitsFor: expect.stringContaining('config/budget-policy.json') }
  const added = await server.post('/board/tasks', { taskId: 'policy-1', title: 'one' })
  expect([added.status, added.body]).toEqual([201, expect.objectContaining(waiting)])
  const frozen = await server.request('PATCH', '/board/tasks/policy-1', { action: 'freeze' })
  expect(frozen.body).toMatchObject({ waitCode: 'frozen' })
  const { body } = await server.get('/board/tasks')
  expect((body['tasks'] as Body[]).map(({ waitCode }) => waitCode)).toContain('policy')
  await rm(config, { recursive: true })
  expect((await server.request('PATCH', '/board/tasks/policy-1', { action: 'unfreeze' })).body).toMatchObject({
    waitCode: null,
  })
})
