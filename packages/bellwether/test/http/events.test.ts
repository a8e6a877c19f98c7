/** The event stream has no gap and no repetition across lost connections, and slow readers use no memory. */
import { connect, type Socket } from 'node:net'
import pg from 'pg'
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { prune } from '../../src/kernel/verbs/watchdog/watchdog.js'
import { project } from '../support/kernel.js'
import { until } from '../support/until.js'
import { runTurns, testWorker } from '../support/worker.js'
import { addAgent, addTurn, openTestServer, serverPerFile, type Body } from './test-server.js'
import { readEvents, type SseReader } from './reader.js'

const server = serverPerFile()
beforeAll(async () => {
  await addAgent(server, 'ann')
})

const url = (query = '') => `${server.url}/api/v1/projects/${project}/events${query}`
const read = (last?: string, query = '') => readEvents(url(query), { key: server.keys.reader, last })
const agents = Array.from({ length: 8 }, (_, at) => `load-${at}`)

/** Runs turns to their end, `each` per agent, some concurrently. */
async function work(each: number): Promise<void> {
  await server.kernel.putAgents(agents.map((agentId) => ({ projectId: project, agentId, workerTarget: 'load' })))
  await Promise.all(
    agents.map(async (agentId) => {
      for (let at = 0; at < each; at += 1)
        await server.kernel.enqueue({ projectId: project, agentId, instruction: `${at}` })
    }),
  )
  for (let left = each * agents.length; left > 0;) {
    const { turns } = await server.kernel.claim({ workerTarget: 'load', workerId: 'w', max: 4, resumeLeaseSeconds: 30 })
    await Promise.all(
      turns.map((turn) => server.kernel.deliver({ ...turn, status: 'success', content: { text: 'ok' } })),
    )
    left -= turns.length
  }
}

const stored = async (after: string) =>
  (
    await server.t.all<{ event_id: number }>(
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
  it('the stream sends the events of a turn as they happen, from now or from the beginning, and only those requested', async () => {
    const now = await read()
    const hello = await now.next('hello', ({ event }) => event === 'hello')
    const turnId = await addTurn(server, 'ann')
    await server.post(`/projects/${project}/turns/${turnId}/stop`)
    const isIdle = (payload: unknown) => (payload as { status?: string } | undefined)?.status === 'idle'
    const event = await now.next(
      'its rest',
      ({ data }) => data['agent_turn_id'] === turnId && data['kind'] === 'state' && isIdle(data['payload']),
    )
    expect(event).toMatchObject({ event: 'state', data: { payload: { status: 'idle', agent_id: 'ann' } } })
    expect(event.data['subject']).toBe(`bw.v1.${project}.public.evt.agent.ann.state`)
    const first = await read('0:0')
    await first.next('the same', ({ id }) => id === event.id)
    const tasks = await read('0:0', '?kind=task')
    const end = await tasks.next('the end', ({ data }) => data['agent_turn_id'] === turnId)
    expect(end.event).toBe('task')
    expect(tasks.events.every((one) => one.event === 'task')).toBe(true)
    const elsewhere = await readEvents(`${server.url}/api/v1/projects/other/events`, {
      key: server.keys.reader,
      last: '0:0',
    })
    await now.next('the end here too', ({ id }) => id === end.id)
    expect(elsewhere.events).toEqual([])
    expect(hello.data['cursor']).toBe(hello.id)
    for (const reader of [now, first, tasks, elsewhere]) reader.cut()
  })

  it('[T9.1] the stream and a wait for a turn do not wait for open transactions of other clients', async () => {
    const strangers = ['', 'postgres'].map((database) => {
      const address = new URL(server.t.url)
      if (database !== '') address.pathname = `/${database}`
      return new pg.Client({ connectionString: address.href })
    })
    for (const stranger of strangers) {
      await stranger.connect()
      await stranger.query('begin; select pg_current_xact_id()')
    }
    onTestFinished(() => Promise.all(strangers.map((stranger) => stranger.end())).then(() => undefined))
    const reader = await read()
    await reader.next('hello', ({ event }) => event === 'hello')
    const turnId = await addTurn(server, 'ann')
    const waiting = server.get(`/projects/${project}/turns/${turnId}?wait=60`)
    await server.post(`/projects/${project}/turns/${turnId}/stop`)
    await reader.next('the end', ({ event, data }) => event === 'task' && data['agent_turn_id'] === turnId)
    expect((await waiting).body).toMatchObject({ outcome: 'canceled' })
    // They are still open.
    for (const stranger of strangers) await stranger.query('commit')
    reader.cut()
  })

  it('[T2.5] a stream shows a turn of a function agent as dispatched and running, in order', async () => {
    await addAgent(server, 'seen')
    const reader = await read(undefined, '?agent=seen&kind=state')
    await reader.next('hello', ({ event }) => event === 'hello')
    await addTurn(server, 'seen')
    await runTurns(testWorker(server.t, () => async () => ({ deliver: { text: 'done' } })))
    server.tail.wake()
    const status = ({ data }: { data: Readonly<Record<string, unknown>> }) =>
      (data['payload'] as { status?: string } | undefined)?.status
    await reader.next('idle', (event) => status(event) === 'idle')
    expect(reader.events.flatMap((event) => status(event) ?? [])).toEqual(['dispatched', 'running', 'idle'])
    reader.cut()
  })

  it('[T1.6] a stream that is resumed after every cut under load has no gap and no repetition', async () => {
    const start = await server.tail.now()
    const seen: number[] = []
    let last = start
    let cuts = 0
    let working = true
    // Cut several times, at any speed of the reader.
    const load = async () => {
      do await work(25)
      while (cuts <= 5)
    }
    const done = load().finally(() => (working = false))
    const collect = async () => {
      for (;;) {
        const reader = await read(last)
        expect(reader.status).toBe(200)
        // Cut in the middle of a response, each time at another position.
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

  it('[T1.6] the stream sends no event before an older one that may still be committed (hazard 4)', async () => {
    const reader = await read()
    await reader.next('hello', ({ event }) => event === 'hello')
    let release = () => {}
    const released = new Promise<void>((resolve) => (release = resolve))
    const insert = (text: string) =>
      `insert into state.outbox (project_id, subject, kind, payload, created_at) values ('${project}', '${text}', 'step', '{}', state.now())`
    let inserted = () => {}
    const isIn = new Promise<void>((resolve) => (inserted = resolve))
    const slow = server.t.db.transaction(async (tx) => {
      await tx.query({ text: insert('first') })
      inserted()
      await released
    })
    await isIn
    await server.t.all(insert('second'))
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

  it('the stream sends reset to a reader whose cursor retention has removed, and continues from now', async () => {
    const turnId = await addTurn(server, 'ann')
    await server.post(`/projects/${project}/turns/${turnId}/stop`)
    const before = await read('0:0')
    const { id } = await before.next('any', () => true)
    before.cut()
    await server.t.advance(86_400 * 2)
    while ((await prune(server.t.db, 1)) > 0);
    const late = await read(id)
    const reset = await late.next('reset', ({ event }) => event === 'reset')
    const next = await addTurn(server, 'ann')
    await server.post(`/projects/${project}/turns/${next}/stop`)
    await late.next('what comes', ({ data }) => data['agent_turn_id'] === next)
    expect(late.events[0]).toEqual(reset)
    late.cut()
  })

  it('the stream sends reset to a reader whose cursor is ahead of a restored database', async () => {
    const ahead = await read('9999999999999:5')
    const reset = await ahead.next('reset', ({ event }) => event === 'reset')
    expect(reset.data['cursor']).toBe(reset.id)
    ahead.cut()
  })

  it('the stream rejects an invalid cursor before it starts', async () => {
    for (const cursor of ['x', '1', '1:2:3', '-1:0', `${'9'.repeat(20)}:0`, '1:2%0a3']) {
      const answer = await server.get(`/projects/${project}/events?cursor=${cursor}`)
      expect([cursor, answer.status, answer.headers['content-type']]).toEqual([cursor, 400, 'application/problem+json'])
    }
  })

  it('when the server stops, it ends the streams and answers the long polls', async () => {
    const small = await openTestServer()
    try {
      await addAgent(small, 'ann')
      const turnId = await addTurn(small, 'ann')
      const reader = await readEvents(`${small.url}/api/v1/projects/${project}/events`, { key: small.keys.reader })
      const claim = small.post('/workers/none/claim', { wait_seconds: 50 })
      const wait = small.get(`/projects/${project}/turns/${turnId}?wait=50`)
      await reader.next('hello', ({ event }) => event === 'hello')
      const routes = ['/workers/:target/claim', '/projects/:project/turns/:turn']
      await until('both to wait', async () => routes.every((route) => small.waiting(route) === 1) || undefined)
      small.stop()
      await small.http.drain(10_000)
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
  it('the server buffers almost nothing for a reader that does not read, and serves the others', async () => {
    const { port } = new URL(server.url)
    const accepted = new Promise<Socket>((resolve) => server.http.app.server.once('connection', resolve))
    const socket = connect(Number(port), '127.0.0.1')
    const ours = await accepted
    const text = `insert into state.outbox (project_id, subject, kind, payload, created_at)
      select $1, 'big', 'step', jsonb_build_object('text', repeat('x', 20000) || i::text), state.now() from generate_series(1, 2000) i`
    await server.t.all(text, project)
    socket.pause()
    socket.write(
      `GET /api/v1/projects/${project}/events?cursor=0:0 HTTP/1.1\r\nhost: x\r\nx-api-key: ${server.keys.reader}\r\n\r\n`,
    )
    const other = await read('0:0')
    await other.next('the last of them', ({ data }) => String((data['payload'] as Body)['text']).endsWith('x2000'))
    const turnId = await addTurn(server, 'ann')
    await server.post(`/projects/${project}/turns/${turnId}/stop`)
    await other.next('the task', ({ data }) => data['agent_turn_id'] === turnId)
    // 40 MB are in the database for it; the buffers of the operating system take a few, and the server holds one event.
    expect(ours.bytesWritten).toBeGreaterThan(20_000)
    expect(ours.bytesWritten + ours.writableLength).toBeLessThan(20_000_000)
    expect(ours.writableLength).toBeLessThan(200_000)
    other.cut()
    socket.destroy()
  })
})
