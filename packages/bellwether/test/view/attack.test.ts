/** Tests that slow, dead and hostile clients cannot stop heartbeats or other views. */
import { connect, type Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { file, keyOf, old, openViewServer, type ViewServer, type Sensor } from './pipe-client.js'

let server: ViewServer
let sensor: Sensor
beforeEach(async () => {
  server = await openViewServer({ v: {}, other: {} }, { requestMs: 400, connectionsPerAddress: 40 })
  sensor = await server.connect('host')
  await sensor.snapshot(file('/a'))
})
afterEach(() => server.close())

const raw = (body: Buffer | string, headers: Record<string, string> = {}) =>
  server.call('POST', `/pipe/ingest/${sensor.id}/events`, Buffer.from(body), { headers })
const batch = (rows: readonly unknown[], more: object = {}) => ({
  events: [{ event_type: 'update', event_schema: 'fs', rows, index: 1, message_source: 'realtime' }],
  source_type: 'message',
  ...more,
})
/** Heartbeats and readers get responses. */
const alive = async () =>
  (await sensor.heartbeat()).status === 200 && (await server.get('/views/v/tree?path=/a')).status === 200

describe('keys', () => {
  it('[V6.10] requires a valid API key, which opens its own view only', async () => {
    const ask = (path: string, key: string | null, headers = {}) =>
      server.call('GET', path, undefined, { key, headers })
    expect((await ask('/views/v/tree', null)).body).toMatchObject({ status: 401, code: 'unauthorized' })
    expect((await ask('/views/v/tree', 'wrong-wrong')).status).toBe(401)
    expect((await ask('/views/v/tree', keyOf('other'))).body).toMatchObject({ status: 403, code: 'forbidden' })
    expect((await ask('/views/unknown/tree', keyOf('v'))).status).toBe(403)
    expect((await ask('/views/v/tree', null, { authorization: `Bearer ${keyOf('v')}` })).status).toBe(200)
    for (const path of ['/pipe/session/', '/health/components', '/views/v/stats', '/views/v/events'])
      expect((await ask(path, null)).status).toBe(401)
    const huge = 'x'.repeat(5_000)
    expect((await ask('/views/v/tree', huge)).status).toBe(401)
    expect((await server.call('POST', '/pipe/session/', { task_id: 'x' }, { key: 'wrong-wrong' })).status).toBe(401)
    expect(await alive()).toBe(true)
  })
})

describe('bodies', () => {
  it('[V6.8] rejects malformed bodies and accepts empty batches', async () => {
    for (const body of [
      '{',
      '[]',
      '"x"',
      'null',
      '5',
      '\u0000',
      '{"events":5}',
      '{"events":[],"source_type":"gossip"}',
    ])
      expect([body, (await raw(body)).status]).toEqual([body, 400])
    expect((await raw('')).status).toBe(400)
    expect((await sensor.ingest({ events: [], source_type: 'message' })).body).toMatchObject({ status: 'ok', count: 0 })
    expect((await sensor.ingest(batch([]))).body).toMatchObject({ status: 'ok', count: 0 })
    const odd = await sensor.ingest({
      ...batch([]),
      events: [null, 5, {}, { event_type: 'x' }],
      source_type: 'message',
    })
    expect(odd.body).toMatchObject({ status: 'ok', count: 0, rejected: 4 })
    expect((await server.call('POST', '/pipe/session/', { task_id: '' })).status).toBe(400)
    expect((await sensor.heartbeat({ wait_seconds: 'long' })).status).toBe(400)
    expect((await sensor.heartbeat({ agent_status: { units: [{ kind: 'ghost' }] } })).status).toBe(400)
    expect(await alive()).toBe(true)
  })

  it('[V6.8] applies the valid rows of a body that also has invalid rows', async () => {
    const rows = [
      file('/ok1'),
      null,
      { path: 7 },
      file('/ok2', Number.MAX_VALUE),
      { ...file('/x'), size: 1e300 },
      file('/ok3'),
    ]
    const answer = await sensor.ingest(batch(rows))
    expect(answer.body).toMatchObject({ status: 'ok', count: 2, rejected: 4, message: expect.any(String) })
    expect((await server.get('/views/v/tree')).body.children?.map(({ name }) => name)).toEqual(['a', 'ok1', 'ok3'])
  })

  it('[V6.8] accepts gzip bodies and rejects those that inflate beyond the limit or are not gzip', async () => {
    const zip = { 'content-encoding': 'gzip' }
    expect((await raw(gzipSync(JSON.stringify(batch([file('/zipped')]))), zip)).body).toMatchObject({ count: 1 })
    const bomb = gzipSync(Buffer.alloc(200 * 1_024 * 1_024, ' '))
    expect(bomb.length).toBeLessThan(1_000_000)
    expect((await raw(bomb, zip)).body).toMatchObject({ status: 413, code: 'too_large' })
    expect((await raw('not zipped', zip)).status).toBe(400)
    expect((await raw('{}', { 'content-encoding': 'br' })).status).toBe(415)
    expect(await alive()).toBe(true)
  })

  it('[V6.8] rejects bodies that are too long or have too many rows', async () => {
    expect((await raw(Buffer.alloc(9 * 1_024 * 1_024, ' '))).status).toBe(413)
    const many = await sensor.ingest(batch(Array.from({ length: 20_001 }, () => 0)))
    expect(many.body).toMatchObject({ status: 413, code: 'too_many_rows' })
    expect(await alive()).toBe(true)
  })

  it('[V6.8] a body cannot change prototypes', async () => {
    const text = `{"__proto__":{"polluted":1},"task_id":"x","client_info":{"__proto__":{"polluted":1}}}`
    await server.call('POST', '/pipe/session/', Buffer.from(text))
    await sensor.heartbeat(
      JSON.parse('{"agent_status":{"__proto__":{"polluted":1},"constructor":{"prototype":1}}}') as object as Record<
        string,
        unknown
      >,
    )
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
    expect(await alive()).toBe(true)
  })
})

describe('paths', () => {
  it('[V6.1] rejects invalid paths row by row and accepts deep ones', async () => {
    const deep = '/d'.repeat(200)
    const bad = [
      '',
      'a',
      'a/b',
      '/..',
      '/../etc',
      '/a/../b',
      '/a/./b',
      '//',
      '/a//b',
      '/a\u0000b',
      `/${'n'.repeat(4_096)}`,
      `/${'x'.repeat(256)}`,
      '/d'.repeat(2_049),
    ]
    const answer = await sensor.ingest(
      batch([...bad.map((path) => file(path)), file(deep), file(`/${'ü'.repeat(127)}`)]),
    )
    expect(answer.body).toMatchObject({ rejected: bad.length, count: 2 })
    expect((await server.get(`/views/v/tree?path=${deep}`)).body).toMatchObject({ path: deep })
    const root = await server.get('/views/v/tree')
    expect(root.status).toBe(200)
    // A trailing slash is allowed, so `//` names the root; as a file it was rejected above.
    for (const path of bad.slice(1).filter((one) => one !== '//')) {
      const response = await server.get(`/views/v/tree?path=${encodeURIComponent(path)}`)
      expect([path.slice(0, 20), response.status]).toEqual([path.slice(0, 20), 400])
    }
    const deletions = await sensor.send('realtime', [{ path: '/../x' }, { path: '/' }, {}], { type: 'delete' })
    expect(deletions.body).toMatchObject({ rejected: 3 })
    expect(await alive()).toBe(true)
  })

  it('[V6.1] rejects invalid paths in queries', async () => {
    const odd = [
      '/api/v1/views/../../etc/passwd',
      '/api/v1/views/v/%2e%2e/tree',
      '/api/v1/views/%00/tree',
      '/api/v1//views//v',
      '/api/v1/%ff',
      `/api/v1/views/${'v'.repeat(3_000)}/tree`,
    ]
    for (const path of odd)
      expect([path.slice(0, 40), [400, 403, 404, 414].includes((await server.call('GET', path)).status)]).toEqual([
        path.slice(0, 40),
        true,
      ])
    expect(await alive()).toBe(true)
  })
})

describe('clients', () => {
  it('[V6.8] cuts off clients that send headers or bodies too slowly, without delaying others', async () => {
    const slow = [
      trickle('POST /api/v1/pipe/session/ HTTP/1.1\r\nHost: x\r\n'),
      trickle(
        `POST /api/v1/pipe/session/ HTTP/1.1\r\nHost: x\r\nX-API-Key: ${keyOf('v')}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{`,
      ),
      trickle(''),
    ]
    expect(await alive()).toBe(true)
    await Promise.all(slow.slice(0, 2).map(({ closed }) => closed))
    slow[2]!.socket.destroy()
    expect(await alive()).toBe(true)
  })

  it('[V6.8] limits the connections per address', async () => {
    const sockets = Array.from({ length: 60 }, () => trickle(''))
    await Promise.any(sockets.map(({ closed }) => closed))
    expect(await alive()).toBe(true)
    for (const { socket } of sockets) socket.destroy()
  })

  it('[V1.5] a flood of one client does not delay heartbeats of others', async () => {
    const other = await server.connect('calm', { view: 'other' })
    const rows = Array.from({ length: 1_000 }, (_, i) => file(`/flood/${i % 10}/${i}`, old + i))
    let flooding = true
    const floods = Array.from({ length: 8 }, async () => {
      for (let i = 0; i < 12; i += 1) expect((await sensor.ingest(batch(rows))).status).toBe(200)
    })
    let beats = 0
    const beating = (async () => {
      while (flooding) {
        expect((await other.heartbeat()).status).toBe(200)
        beats += 1
      }
    })()
    await Promise.all(floods)
    flooding = false
    await beating
    // Heartbeats were answered between the 96 requests of the flood, not after them.
    expect(beats).toBeGreaterThan(5)
  })

  it('[V6.8] rejects requests above the queue limit with a retry delay', async () => {
    const rows = Array.from({ length: 2_000 }, (_, i) => file(`/f/${i}`))
    const body = Buffer.from(JSON.stringify(batch(rows)))
    const answers = await Promise.all(Array.from({ length: 39 }, () => raw(body)))
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
    const { pipe } = server.fusion.view('v').sources.get('default')!
    let go = () => {}
    const busy = pipe.runExclusive(
      () =>
        new Promise<void>((resolve) => {
          go = resolve
        }),
    )
    const waiting = Array.from({ length: 63 }, () => pipe.runExclusive(() => undefined))
    const refused = await raw(body)
    expect([refused.status, refused.body['code'], refused.headers['retry-after']]).toEqual([429, 'busy', '1'])
    go()
    await Promise.all([busy, ...waiting])
    expect(await alive()).toBe(true)
  })

  it('[V6.8] a client that disconnects during a long response leaves nothing behind', async () => {
    await sensor.snapshot(...Array.from({ length: 15_000 }, (_, i) => file(`/big/${i}-with-a-long-name`)))
    for (let i = 0; i < 5; i += 1) {
      const { socket } = trickle(`GET /api/v1/views/v/tree HTTP/1.1\r\nHost: x\r\nX-API-Key: ${keyOf('v')}\r\n\r\n`)
      await new Promise((resolve) => socket.once('data', resolve))
      socket.destroy()
    }
    expect(await alive()).toBe(true)
  })
})

function trickle(text: string): { readonly socket: Socket; readonly closed: Promise<void> } {
  const socket = connect(Number(new URL(server.url).port), '127.0.0.1')
  socket.on('error', () => socket.destroy())
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  socket.write(text)
  if (!text.startsWith('GET')) socket.resume()
  return { socket, closed }
}
