/** One key or address cannot use up the server: bodies, streams, requests and sign-ins have quotas, and what they held is free afterwards. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { gzipSync } from 'node:zlib'
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { countConnections, serverLimits } from '../../../src/http/app.js'
import { clientAt, makeBuckets } from '../../../src/http/rate-limit.js'
import { makeShares } from '../../../src/http/shares.js'
import { project } from '../../support/kernel.js'
import { until } from '../../support/until.js'
import { readEvents } from '../reader.js'
import { addAgent, openTestServer, serverPerFile, view } from '../test-server.js'

const server = serverPerFile()
beforeAll(async () => {
  await addAgent(server, 'ann')
})

const p = `/projects/${project}`
const mebibyte = 1_048_576

describe('a body', () => {
  it.each([
    ['POST', '/keys', { role: 'reader', name: 'x'.repeat(100_000) }],
    ['POST', `${p}/turns/none/stop`, { reason: 'x'.repeat(100_000) }],
  ])('a body is limited by the route: %s %s', async (method, path, body) => {
    expect((await server.request(method, path, body)).body).toMatchObject({ status: 413, code: 'too_large' })
    const zipped = gzipSync(JSON.stringify(body))
    const unzipped = await server.request(method, path, zipped, { headers: { 'content-encoding': 'gzip' } })
    expect(unzipped.body).toMatchObject({ status: 413, code: 'too_large' })
  })

  it('a body with the status of a sensor is bounded: the view stores no large one', async () => {
    const key = server.keys.sensor
    const { session_id: id } = (await server.post('/pipe/session', { task_id: 'a:1' }, { key })).body
    const agent_status = { units: [], padding: 'x'.repeat(200_000) }
    const path = `/pipe/session/${String(id)}/heartbeat`
    expect((await server.post(path, { can_realtime: true, agent_status }, { key })).status).toBe(413)
    expect((await server.post(path, { can_realtime: true }, { key })).status).toBe(200)
    expect((await server.get(`/views/${view}/sessions`)).text.length).toBeLessThan(10_000)
  })

  it('a body that is not finished counts: one key holds at most its share, other keys go on, and afterwards all is free', async () => {
    const [slow, other] = [await server.key('operator'), await server.key('operator')]
    const path = `/api/v1${p}/agents/ann/turns`
    const unfinished = async (key: string): Promise<Socket> => {
      const socket = connect(Number(new URL(server.url).port), '127.0.0.1')
      await once(socket, 'connect')
      const head = [`POST ${path} HTTP/1.1`, 'host: localhost', `x-api-key: ${key}`, `content-length: ${8 * mebibyte}`]
      socket.write([...head, '', '{'].join('\r\n'))
      return socket
    }
    // Eight fit into the share. The server answers the ninth, whichever that is, and waits for the bodies of the others.
    const sockets = await Promise.all(Array.from({ length: 9 }, () => unfinished(slow)))
    onTestFinished(() => sockets.forEach((socket) => socket.destroy()))
    const answer = await Promise.race(sockets.map(async (socket) => String((await once(socket, 'data'))[0])))
    expect(answer).toMatch(/^HTTP\/1\.1 429 /)
    expect(answer).toMatch(/\r\nretry-after: 1\r\n/i)
    expect((await server.post(`${p}/agents/ann/turns`, { instruction: 'x' }, { key: other })).status).toBe(202)
    for (const socket of sockets) socket.destroy()
    const large = Buffer.alloc(8 * mebibyte - 1, ' ')
    await until('the share is free', async () => {
      const { status } = await server.request('POST', `${p}/agents/ann/turns`, large, { key: slow })
      return status === 400 ? true : undefined
    })
  })
})

describe('a stream', () => {
  it('a stream of one key leaves places for other keys, and frees its own', async () => {
    const key = await server.key('reader')
    const open = (as: string) => readEvents(`${server.url}/api/v1${p}/events`, { key: as })
    const readers = await Promise.all(Array.from({ length: 128 }, () => open(key)))
    onTestFinished(() => readers.forEach((reader) => reader.cut()))
    expect(readers.every(({ status }) => status === 200)).toBe(true)
    const refused = await server.get(`${p}/events`, { key })
    expect([refused.status, Number(refused.headers['retry-after'])]).toEqual([429, 5])
    const other = await open(server.keys.reader)
    expect(other.status).toBe(200)
    for (const reader of [...readers, other]) reader.cut()
    await until('a place is free', async () => {
      const again = await open(key)
      again.cut()
      return again.status === 200 ? true : undefined
    })
  })
})

describe('a request that waits for a turn', () => {
  it('a request of one key that waits for a turn leaves places for those of other keys', async () => {
    const path = `${p}/turns/${String((await server.post(`${p}/agents/ann/turns`, { instruction: 'x' })).body.agent_turn_id)}`
    const key = await server.key('reader')
    const waits = Array.from({ length: 500 }, () => server.get(`${path}?wait=50`, { key }))
    await until('all wait', async () => (server.waiting('/projects/:project/turns/:turn') === 500 ? true : undefined))
    const refused = await server.get(`${path}?wait=1`, { key })
    expect([refused.status, refused.body.code]).toEqual([429, 'busy'])
    expect((await server.get(`${path}?wait=0.01`)).status).toBe(200)
    await server.post(`${path}/stop`, {})
    expect((await Promise.all(waits)).every(({ status }) => status === 200)).toBe(true)
  })
})

describe('a response', () => {
  it('a response that its client does not read counts: one key holds at most its share, other keys go on, and afterwards all is free', async () => {
    const card = { type: 'task.instruction', content: { text: 'x'.repeat(900_000) } }
    const { box_id: box } = (await server.post(`${p}/boxes`, { cards: Array.from({ length: 8 }, () => card) })).body
    const path = `${p}/boxes/${String(box)}/cards`
    const slow = await server.key('reader')
    const begun = async (): Promise<{ socket: Socket; status: number }> => {
      const socket = connect(Number(new URL(server.url).port), '127.0.0.1')
      const head = [`GET /api/v1${path} HTTP/1.1`, 'host: localhost', `x-api-key: ${slow}`, '', '']
      socket.write(head.join('\r\n'))
      const [first] = (await once(socket, 'data')) as [Buffer]
      socket.pause()
      return { socket, status: Number(first.toString().slice(9, 12)) }
    }
    const all = await Promise.all(Array.from({ length: 12 }, begun))
    onTestFinished(() => all.forEach(({ socket }) => socket.destroy()))
    // Nine responses of 7.2 MB fit into 64 MiB.
    expect(all.filter(({ status }) => status === 429)).toHaveLength(3)
    expect((await server.get(path)).status).toBe(200)
    for (const { socket } of all) socket.destroy()
    await until('the share is free', async () => {
      const { status } = await server.get(path, { key: slow })
      return status === 200 ? true : undefined
    })
  })
})

describe('a connection', () => {
  /** What the server sends to a client that sends all its requests at once, until one of them closes the connection. */
  async function pipeline(count: number): Promise<number> {
    const socket = connect(Number(new URL(server.url).port), '127.0.0.1')
    const responses: string[] = []
    socket.on('data', (piece: Buffer) => responses.push(piece.toString()))
    // A server that closes the connection while requests arrive resets it.
    socket.on('error', () => undefined)
    const last = 'GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n'
    socket.write('GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n'.repeat(count - 1) + last)
    await once(socket, 'close')
    return responses.join('').split('HTTP/1.1 ').length - 1
  }

  it('a connection that sends many requests without reading responses is closed, and costs the others no time', async () => {
    expect(await pipeline(serverLimits.pipelined)).toBe(serverLimits.pipelined)
    expect(await pipeline(1_000)).toBeLessThanOrEqual(serverLimits.pipelined)
    expect((await server.get('/me')).status).toBe(200)
  })
})

describe('rates', () => {
  const tight = { perSecond: 0.001, burst: 5 }

  it('limit an address without a key on every path, and leave those with a key alone', async () => {
    const small = await openTestServer({ rates: { anonymous: tight, signIns: tight } })
    try {
      const paths = ['/healthz', '/openapi.json', '/api/v1/openapi.json', '/api/v1/me', '/api/v1/none']
      for (const path of paths) expect((await small.get(path, { key: null })).status).toBeLessThan(429)
      for (const path of paths) {
        const refused = await small.get(path, { key: null })
        expect([path, refused.status, Number(refused.headers['retry-after']) > 0]).toEqual([path, 429, true])
      }
      // The router refuses these before any hook runs.
      for (const path of ['/%zz', `/api/v1/projects/${'x'.repeat(600)}/turns`, '/p/%c0%ae'])
        expect([path, (await small.get(path, { key: null })).status]).toEqual([path, 429])
      expect((await small.get('/me', { key: small.keys.worker })).status).toBe(200)
    } finally {
      await small.close()
    }
  })

  it('limit sign-ins per address, and the audit log has the first refusals only', async () => {
    const small = await openTestServer({ rates: { signIns: { perSecond: 0.001, burst: 30 } } })
    try {
      const statuses: number[] = []
      for (let at = 0; at < 40; at += 1)
        statuses.push((await small.post('/login', { token: `wrong-${at}` }, { key: null })).status)
      expect([
        statuses.slice(0, 30).every((one) => one === 401),
        statuses.slice(30).every((one) => one === 429),
      ]).toEqual([true, true])
      await small.get('/me', { key: 'bw_wrong-wrong-wrong' })
      const { body, text } = await small.get('/audit?actor=unknown&limit=100')
      const rows = body['audit'] as Record<string, unknown>[]
      expect(rows.length).toBeGreaterThanOrEqual(15)
      expect(rows.length).toBeLessThanOrEqual(25)
      expect(rows.at(-1)).toMatchObject({
        method: 'POST',
        path: '/login',
        status: 401,
        code: 'unauthorized',
        role: null,
      })
      expect(text).not.toMatch(/wrong/)
    } finally {
      await small.close()
    }
  })

  it('give a fleet of workers with one key ten times the rate of other keys', async () => {
    const small = await openTestServer({ rate: tight })
    try {
      const count = async (key: string) => {
        let allowed = 0
        while ((await small.get('/me', { key })).status === 200) allowed += 1
        return allowed
      }
      expect(await count(small.keys.reader)).toBe(5)
      expect(await count(small.keys.worker)).toBe(50)
    } finally {
      await small.close()
    }
  })
})

describe('what quotas remember', () => {
  it('what quotas remember is forgotten after an attack: full buckets and free shares cost no memory', () => {
    const buckets = makeBuckets({ perSecond: 10, burst: 20 })
    for (let at = 0; at < 10_000; at += 1) buckets.take(`address ${at}`, 0)
    expect(buckets.size).toBe(10_000)
    for (let at = 0; at < 10_001; at += 1) buckets.take('one', 10_000)
    expect(buckets.size).toBe(1)
    const shares = makeShares('things', 10, 1_000)
    const release = shares.take('a', 6, 8)
    expect(() => shares.take('a', 3, 8)).toThrow('for one client')
    expect(() => shares.take('b', 5, 8)).toThrow('at once')
    release()
    release()
    expect(shares.used).toBe(0)
  })

  it.each([
    ['10.0.0.1', '10.0.0.1'],
    ['::ffff:10.0.0.1', '10.0.0.1'],
    ['2001:db8:0:7::1', '2001:db8:0:7::/64'],
    ['2001:DB8:0:07:aaaa:bbbb:cccc:dddd', '2001:db8:0:7::/64'],
    ['2001:db8::7:0:0:1', '2001:db8:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['', ''],
  ])('what quotas remember is the same for all addresses of an IPv6 network: %s counts as %s', (address, client) => {
    expect(clientAt(address)).toBe(client)
  })

  it('limits the connections of an IPv6 network, not of each of its addresses', () => {
    const connections = countConnections({ ...serverLimits, connectionsPerAddress: 2 })
    const entered = [1, 2, 3].map((host) => connections.enter(`2001:db8::${host}`))
    expect(entered.map(({ isOver }) => isOver)).toEqual([false, false, true])
    for (const { leave } of entered) leave()
    expect(connections.enter('2001:db8::9').isOver).toBe(false)
  })

  it('leaves connections for this machine when other machines use all of theirs', () => {
    const connections = countConnections({
      ...serverLimits,
      connections: 10,
      connectionsPerAddress: 6,
      connectionsLocal: 4,
    })
    const first = Array.from({ length: 6 }, () => connections.enter('10.0.0.1'))
    expect(first.every(({ isOver }) => !isOver)).toBe(true)
    for (const address of ['10.0.0.1', '10.0.0.2']) {
      const refused = connections.enter(address)
      expect(refused.isOver).toBe(true)
      refused.leave()
    }
    const local = ['127.0.0.1', '::1', '::ffff:127.0.0.1', '127.0.0.1'].map((address) => connections.enter(address))
    expect(local.map(({ isOver }) => isOver)).toEqual([false, false, false, false])
    for (const one of [...first, ...local]) one.leave()
    expect(connections.enter('10.0.0.2').isOver).toBe(false)
  })
})
