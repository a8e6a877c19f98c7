/** Events as they happen: no gap, no repeat, whatever happens to the connection; slow readers cost nothing. */
import { connect, type Socket } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { prune } from '../../src/kernel/verbs/watchdog/watchdog.js'
import { project } from '../support/kernel.js'
import { until } from '../support/until.js'
import { addAgent, addTurn, openDoor, type Body, type Door } from './test-server.js'
import { readEvents, type SseReader } from './reader.js'

let door: Door
beforeAll(async () => {
  door = await openDoor()
  await addAgent(door, 'ann')
})
afterAll(() => door.close())

const url = (query = '') => `${door.url}/api/v1/projects/${project}/events${query}`
const read = (last?: string, query = '') => readEvents(url(query), { key: door.keys.reader, last })
const agents = Array.from({ length: 8 }, (_, at) => `load-${at}`)

/** Turns that start and end, `each` for every agent, some at the same time. */
async function work(each: number): Promise<void> {
  await door.kernel.putAgents(agents.map((agentId) => ({ projectId: project, agentId, workerTarget: 'load' })))
  await Promise.all(
    agents.map(async (agentId) => {
      for (let at = 0; at < each; at += 1)
        await door.kernel.enqueue({ projectId: project, agentId, instruction: `${at}` })
    }),
  )
  for (let left = each * agents.length; left > 0;) {
    const { turns } = await door.kernel.claim({ workerTarget: 'load', workerId: 'w', max: 4, resumeLeaseSeconds: 30 })
    await Promise.all(turns.map((turn) => door.kernel.deliver({ ...turn, status: 'success', content: { text: 'ok' } })))
    left -= turns.length
  }
}

const stored = async (after: string) =>
  (
    await door.t.all<{ event_id: number }>(
      `select event_id from state.events where project_id = $1 and (xid, event_id) > ($2::text::xid8, $3) order by xid, event_id`,
      project,
      after.split(':')[0],
      after.split(':')[1],
    )
  ).map((row) => row.event_id)
const ids = (reader: SseReader) =>
  reader.events
    .filter((one) => one.event !== 'hello' && one.event !== 'reset')
    .map((one) => one.data['event_id'] as number)

describe('the stream', () => {
  it('tells a turn’s events as they happen, from now on or from the beginning, and only what was asked for', async () => {
    const now = await read()
    const hello = await now.next('hello', ({ event }) => event === 'hello')
    const turnId = await addTurn(door, 'ann')
    await door.post(`/projects/${project}/turns/${turnId}/stop`)
    const event = await now.next('its rest', ({ data }) => data['agent_turn_id'] === turnId && data['kind'] === 'state')
    expect(event).toMatchObject({ event: 'state', data: { payload: { status: 'idle', agent_id: 'ann' } } })
    expect(event.data['subject']).toBe(`bw.v1.${project}.public.evt.agent.ann.state`)
    const first = await read('0:0')
    await first.next('the same', ({ id }) => id === event.id)
    const tasks = await read('0:0', '?kind=task')
    const end = await tasks.next('the end', ({ data }) => data['agent_turn_id'] === turnId)
    expect(end.event).toBe('task')
    expect(tasks.events.every((one) => one.event === 'task')).toBe(true)
    const elsewhere = await readEvents(`${door.url}/api/v1/projects/other/events`, {
      key: door.keys.reader,
      last: '0:0',
    })
    await now.next('the end here too', ({ id }) => id === end.id)
    expect(elsewhere.events).toEqual([])
    expect(hello.data['cursor']).toBe(hello.id)
    for (const reader of [now, first, tasks, elsewhere]) reader.cut()
  })

  it('[T1.6] resumed after every cut, under load, has no gap and no repeat', async () => {
    const start = await door.tail.now()
    const seen: number[] = []
    let last = start
    let cuts = 0
    let working = true
    // However slow the reader is, it is cut several times.
    const load = async () => {
      do await work(25)
      while (cuts <= 5)
    }
    const done = load().finally(() => (working = false))
    const collect = async () => {
      for (;;) {
        const reader = await read(last)
        expect(reader.status).toBe(200)
        // Cut in the middle, at a place that differs every time.
        const wanted = 7 + ((cuts * 13) % 60)
        const over = until(
          'enough',
          async () => (reader.events.length >= wanted || !working ? true : undefined),
          30_000,
        )
        await over
        const complete = !working && (await stored(last)).length === ids(reader).length
        reader.cut()
        await reader.ended
        seen.push(...ids(reader))
        last = reader.lastId() ?? last
        cuts += 1
        if (complete) return
      }
    }
    await Promise.all([done, collect()])
    expect(seen).toEqual(await stored(start))
    expect(new Set(seen).size).toBe(seen.length)
    expect(cuts).toBeGreaterThan(5)
  })

  it('[T1.6] shows nothing before what may still be committed in front of it (hazard 4)', async () => {
    const reader = await read()
    await reader.next('hello', ({ event }) => event === 'hello')
    let release = () => {}
    const held = new Promise<void>((resolve) => (release = resolve))
    const insert = (text: string) =>
      `insert into state.events (project_id, subject, kind, payload, created_at) values ('${project}', '${text}', 'step', '{}', state.now())`
    let inserted = () => {}
    const isIn = new Promise<void>((resolve) => (inserted = resolve))
    const slow = door.t.db.transaction(async (tx) => {
      await tx.query({ text: insert('first') })
      inserted()
      await held
    })
    await isIn
    await door.t.all(insert('second'))
    const others = await read('0:0')
    await others.next('something', () => true)
    expect(reader.events.map(({ data }) => data['subject'])).not.toContain('second')
    release()
    await slow
    await reader.next('second', ({ data }) => data['subject'] === 'second')
    const order = reader.events.map(({ data }) => data['subject']).filter((one) => one === 'first' || one === 'second')
    expect(order).toEqual(['first', 'second'])
    reader.cut()
    others.cut()
  })

  it('tells a reader whose place retention has removed to reset, and goes on from now', async () => {
    const turnId = await addTurn(door, 'ann')
    await door.post(`/projects/${project}/turns/${turnId}/stop`)
    const before = await read('0:0')
    const { id } = await before.next('any', () => true)
    before.cut()
    await door.t.advance(86_400 * 2)
    while ((await prune(door.t.db, 1)) > 0);
    const late = await read(id)
    const reset = await late.next('reset', ({ event }) => event === 'reset')
    const next = await addTurn(door, 'ann')
    await door.post(`/projects/${project}/turns/${next}/stop`)
    await late.next('what comes', ({ data }) => data['agent_turn_id'] === next)
    expect(late.events[0]).toEqual(reset)
    late.cut()
  })

  it('tells a reader that is ahead of a database which was put back to reset', async () => {
    const ahead = await read('1000000000:5')
    const reset = await ahead.next('reset', ({ event }) => event === 'reset')
    expect(reset.data['cursor']).toBe(reset.id)
    ahead.cut()
  })

  it('refuses a cursor that is none, before it begins', async () => {
    for (const cursor of ['x', '1', '1:2:3', '-1:0', `${'9'.repeat(20)}:0`, '1:2%0a3']) {
      const answer = await door.get(`/projects/${project}/events?cursor=${cursor}`)
      expect([cursor, answer.status, answer.headers['content-type']]).toEqual([cursor, 400, 'application/problem+json'])
    }
  })

  it('ends when the server stops, and answers a long-poll then', async () => {
    const small = await openDoor()
    try {
      await addAgent(small, 'ann')
      const turnId = await addTurn(small, 'ann')
      const reader = await readEvents(`${small.url}/api/v1/projects/${project}/events`, { key: small.keys.reader })
      const asked: string[] = []
      small.server.app.server.on('request', ({ url: path }: { url: string }) => void asked.push(path))
      const claim = small.post('/workers/none/claim', { wait_seconds: 50 })
      const wait = small.get(`/projects/${project}/turns/${turnId}?wait=50`)
      await reader.next('hello', ({ event }) => event === 'hello')
      await until('both to wait', async () => (asked.length === 2 ? true : undefined))
      small.stop()
      await small.server.drain(10_000)
      await reader.ended
      expect((await wait).body).toMatchObject({ agent_turn_id: turnId })
      expect((await claim).body).toEqual({ turns: [] })
      expect((await small.get('/me')).body).toMatchObject({ status: 503, code: 'draining' })
    } finally {
      await small.close()
    }
  })
})

describe('a reader that does not read', () => {
  it('is waited for: nothing piles up for it, and others are served', async () => {
    const { port } = new URL(door.url)
    const accepted = new Promise<Socket>((resolve) => door.server.app.server.once('connection', resolve))
    const socket = connect(Number(port), '127.0.0.1')
    const ours = await accepted
    const text = `insert into state.events (project_id, subject, kind, payload, created_at)
      select $1, 'big', 'step', jsonb_build_object('text', repeat('x', 20000) || i::text), state.now() from generate_series(1, 2000) i`
    await door.t.all(text, project)
    socket.pause()
    socket.write(
      `GET /api/v1/projects/${project}/events?cursor=0:0 HTTP/1.1\r\nhost: x\r\nx-api-key: ${door.keys.reader}\r\n\r\n`,
    )
    const other = await read('0:0')
    await other.next('the last of them', ({ data }) => String((data['payload'] as Body)['text']).endsWith('x2000'))
    const turnId = await addTurn(door, 'ann')
    await door.post(`/projects/${project}/turns/${turnId}/stop`)
    await other.next('the task', ({ data }) => data['agent_turn_id'] === turnId)
    // 40 MB wait for it in the database; the kernel's buffers take a few, and we hold one event.
    expect(ours.bytesWritten).toBeGreaterThan(20_000)
    expect(ours.bytesWritten + ours.writableLength).toBeLessThan(20_000_000)
    expect(ours.writableLength).toBeLessThan(200_000)
    other.cut()
    socket.destroy()
  })
})
