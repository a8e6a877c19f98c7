/** What an attacker tries besides wrong keys: browsers, links, pages, paths, bodies, headers, slowness, and what is told in logs. */
import { connect, type Socket } from 'node:net'
import { deflateSync, gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { httpRequest } from '../../src/ports/tools/http-request.js'
import { project } from '../support/kernel.js'
import { openDoor, type Door } from './test-server.js'
import { openWholeHouse, type WholeHouse } from './whole-server.js'

let house: WholeHouse
let door: Door
beforeAll(async () => {
  house = await openWholeHouse()
  door = house.door
})
afterAll(() => house.close())

const p = `/projects/${project}`
function raw(request: string | Buffer, url = door.url): Promise<string> {
  return new Promise((resolve) => {
    const socket: Socket = connect(Number(new URL(url).port), '127.0.0.1', () => socket.write(request))
    let answer = ''
    socket.on('data', (data) => (answer += data.toString()))
    socket.on('close', () => resolve(answer))
    socket.on('error', () => resolve(answer))
  })
}
const line = (start: string, ...headers: readonly string[]) =>
  raw([`${start} HTTP/1.1`, 'host: x', ...headers, 'connection: close', '', ''].join('\r\n'))
const statusOf = (answer: string) => Number(answer.split(' ')[1])

describe('a browser', () => {
  const link = async () => String((await door.post('/logins', {}, { key: door.keys.operator })).body['path'])
  const enter = async (path: string, headers: Record<string, string> = {}) => {
    const answer = await door.get(path, { key: null, headers })
    const [set = ''] = (answer.headers['set-cookie'] ?? []) as string[]
    return set.split(';')[0]!
  }

  it('signs in with a link once, however many come with it at the same time', async () => {
    const path = await link()
    const cookies = await Promise.all(Array.from({ length: 20 }, () => enter(path)))
    expect(cookies.filter((cookie) => cookie !== '')).toHaveLength(1)
    expect(await enter(path)).toBe('')
  })

  it('gets a session of its own: one that somebody laid into it is not taken up', async () => {
    const laid = 'bw_session=attacker-attacker-attacker-attacker-attacke'
    const cookie = await enter(await link(), { cookie: laid })
    expect(cookie).toMatch(/^bw_session=[\w-]{43}$/)
    expect(cookie).not.toBe(laid)
    expect((await door.get('/me', { key: null, headers: { cookie: laid } })).status).toBe(401)
    expect((await door.get('/me', { key: null, headers: { cookie: `${laid}; ${cookie}` } })).status).toBe(401)
  })

  it('is seen in the audit log when it signs in, without the link’s secret', async () => {
    const path = await link()
    await enter(path)
    const { body, text } = await door.get('/audit?limit=2')
    expect((body['audit'] as object[])[0]).toMatchObject({
      method: 'GET',
      path: '/login',
      status: 303,
      role: 'operator',
    })
    expect(text).not.toContain(path.split('=')[1])
  })

  it.each([
    ['no header of our pages', {}, 403],
    ['from another site', { 'x-requested-with': 'x', 'sec-fetch-site': 'cross-site' }, 403],
    ['from a neighbour of this site', { 'x-requested-with': 'x', 'sec-fetch-site': 'same-site' }, 403],
    ['an old browser on another site', { 'x-requested-with': 'x', origin: 'https://evil.example' }, 403],
    ['an old browser in a sandbox', { 'x-requested-with': 'x', origin: 'null' }, 403],
    ['an old browser on our page', { 'x-requested-with': 'x', origin: 'SELF' }, 404],
    [
      'on our page',
      { 'x-requested-with': 'x', 'sec-fetch-site': 'same-origin', origin: 'https://behind.a.proxy' },
      404,
    ],
  ])('writes from our pages alone: %s', async (_what, more, status) => {
    const cookie = await enter(await link())
    const told = Object.entries(more).map(([name, value]) => [name, value === 'SELF' ? door.url : value])
    const headers = { cookie, ...(Object.fromEntries(told) as Record<string, string>) }
    expect((await door.post(`${p}/turns/none/stop`, {}, { key: null, headers })).status).toBe(status)
  })

  it('is told by no answer that another site may read it', async () => {
    const origin = { origin: 'https://evil.example', 'access-control-request-method': 'POST' }
    for (const method of ['GET', 'OPTIONS', 'POST']) {
      const { headers } = await door.ask(method, '/me', undefined, { headers: origin })
      expect(Object.keys(headers).filter((name) => name.startsWith('access-control'))).toEqual([])
    }
  })
})

describe('pages', () => {
  it.each(['/', '/p/demo/turns/x', '/assets/a.js', '/bell.svg'])('%s runs nothing but our own files', async (path) => {
    const answer = await line(`GET ${path}`)
    expect(answer).toContain('200 OK')
    expect(answer).toMatch(/content-security-policy: default-src 'none'; script-src 'self';/)
    expect(answer).not.toMatch(/unsafe/)
    expect(answer).toMatch(/x-content-type-options: nosniff/)
  })

  it.each([
    '/assets/../../private.txt',
    '/assets/..%2f..%2fprivate.txt',
    '/assets/%2e%2e/%2e%2e/private.txt',
    '/assets/..%5c..%5cprivate.txt',
    '/assets/....//....//private.txt',
    '/assets/%00/../../private.txt',
    '/assets/a.js%00.txt',
    '/assets//etc/passwd',
    '/assets/%252e%252e/%252e%252e/private.txt',
    '/../private.txt',
    '/p/..%2f..%2fprivate.txt',
  ])('no path leads out of the folder: %s', async (path) => {
    const answer = await line(`GET ${path}`)
    expect(answer).not.toContain('the private file')
    expect(answer).not.toContain('root:')
    expect(path.startsWith('/p/') ? [200, 404] : [400, 403, 404]).toContain(statusOf(answer))
  })

  it('reflect nothing of what was asked, but as JSON that no browser runs', async () => {
    const evil = '<script>alert(1)</script>'
    for (const path of [`/${evil}`, `/api/v1/${evil}`, `/login?token=${evil}`, '/%ff<script>', `/assets/${evil}`]) {
      const answer = await line(`GET ${path}`, `x-api-key: ${door.keys.admin}`)
      expect([path, answer.toLowerCase()]).toEqual([path, expect.stringContaining('nosniff')])
      expect(answer.toLowerCase()).not.toContain('content-type: text/html')
    }
  })
})

describe('bodies', () => {
  const path = `${p}/agents/bob/turns`
  const send = async (bytes: Buffer, headers: Record<string, string> = {}, to = path, key = door.keys.admin) => {
    const { status, body } = await door.ask('POST', to, bytes, { headers, key })
    return [status, body.code]
  }

  it('that unpack to a hundred times their size are cut off before they fill the memory', async () => {
    const zeros = Buffer.alloc(64 * 1_048_576)
    const before = process.memoryUsage().arrayBuffers
    const bombs = [
      [gzipSync(zeros), 'gzip'],
      [deflateSync(zeros), 'deflate'],
    ] as const
    const answers = await Promise.all(
      Array.from({ length: 4 }, (_, at) => send(bombs[at % 2]![0], { 'content-encoding': bombs[at % 2]![1] })),
    )
    expect(answers).toEqual(answers.map(() => [413, 'too_large']))
    // Four bombs of 64 MB: each may hold what an honest body may, and a little for the work.
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(100 * 1_048_576)
    expect(await send(gzipSync(gzipSync('{}')), { 'content-encoding': 'gzip, gzip' })).toEqual([
      415,
      'unsupported_encoding',
    ])
  })

  it('nested without end are refused wherever they are sent, and the server goes on', async () => {
    const deep = (levels: number) => Buffer.from(`{"a":${'['.repeat(levels)}${']'.repeat(levels)}}`)
    const within = (levels: number, field: string) => Buffer.from(`{"${field}":${deep(levels).toString()}}`)
    for (const to of [path, '/board/tasks', `${p}/boxes`, '/keys'])
      expect([to, await send(deep(200_000), {}, to)]).toEqual([to, [400, 'content_too_deep']])
    // The pipe and the views look at what they use and skip the rest.
    for (const [to, field] of [
      ['/pipe/session', 'client_info'],
      ['/views/v/evidence', 'paths'],
      ['/pipe/ingest/none/events', 'events'],
    ] as const) {
      const [status] = await send(within(200_000, field), {}, to, door.keys.sensor)
      expect([to, status]).toEqual([to, status === 419 ? 419 : 400])
    }
    expect((await door.get('/me')).status).toBe(200)
  })

  it('that name what every object has change nothing of it', async () => {
    const evil = '{"title":"x","__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}'
    await send(Buffer.from(evil), {}, '/board/tasks')
    await send(Buffer.from(`{"task_id":"x","client_info":${evil}}`), {}, '/pipe/session', door.keys.sensor)
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
  })
})

describe('headers and time', () => {
  it('too long or too many are refused, and the server goes on', async () => {
    expect(statusOf(await line('GET /healthz', `x: ${'y'.repeat(20_000)}`))).toBe(431)
    const many = Array.from({ length: 3_000 }, (_, at) => `x${at}: y`)
    expect([200, 431]).toContain(statusOf(await line('GET /healthz', ...many)))
    expect((await door.get('/healthz')).status).toBe(200)
  })

  it('two bodies in one are none: lengths that disagree end the connection', async () => {
    const smuggled = `GET /api/v1/keys HTTP/1.1\r\nhost: x\r\nx-api-key: ${door.keys.admin}\r\n\r\n`
    const both = [
      `POST /api/v1${p}/boxes HTTP/1.1`,
      'host: x',
      `x-api-key: ${door.keys.reader}`,
      'transfer-encoding: chunked',
      'content-length: 5',
      '',
      `0\r\n\r\n${smuggled}`,
    ].join('\r\n')
    const answer = await raw(both)
    expect(statusOf(answer)).toBe(400)
    expect(answer).not.toContain('key_id')
  })

  it('a client that trickles its request is cut off, and one that sends nothing, too', async () => {
    const small = await openDoor({ limits: { requestMs: 300, silenceMs: 600 } })
    try {
      const slow = raw('GET /healthz HTTP/1.1\r\nhost:', small.url)
      const body = raw(
        `POST /api/v1${p}/boxes HTTP/1.1\r\nhost: x\r\nx-api-key: ${small.keys.admin}\r\ncontent-length: 50\r\n\r\n{`,
        small.url,
      )
      const silent = raw('', small.url)
      expect(await slow).toMatch(/^(HTTP\/1\.1 408|$)/)
      expect(await body).toMatch(/^(HTTP\/1\.1 408|$)/)
      expect(await silent).toMatch(/^(HTTP\/1\.1 408|$)/)
      expect((await small.get('/healthz')).status).toBe(200)
    } finally {
      await small.close()
    }
  })
})

describe('tools', () => {
  it.each([
    'http://0177.0.0.1/',
    'http://017700000001/',
    'http://127.1/',
    'http://0/',
    'http://[::ffff:169.254.169.254]/latest/meta-data/',
    'http://[::ffff:a9fe:a9fe]/',
    'http://[fd00:ec2::254]/latest/meta-data/',
    'http://[64:ff9b::7f00:1]/',
    'http://100.100.100.200/latest/meta-data/',
    'http://①②⑦.⓪.⓪.①/',
  ])('reach neither this machine nor the metadata of a cloud, however it is spelled: %s', async (url) => {
    const request = { url: new URL(url), method: 'GET', headers: {}, allowPrivate: false, responseMaxBytes: 10 }
    await expect(httpRequest({ ...request, signal: AbortSignal.timeout(5_000) })).rejects.toMatchObject({
      code: 'address_refused',
    })
  })
})

describe('what is told', () => {
  it('a key in a URL opens nothing, and stands in no log', async () => {
    const key = door.keys.admin
    const spellings = [`?key=${key}`, `?api_key=${key}`, `?access_token=${key}`, `?x-api-key=${key}`, `#${key}`]
    for (const spelling of spellings) expect(statusOf(await line(`GET /api/v1/me${spelling}`))).toBe(401)
    await door.post(`${p}/turns/none/stop?key=${key}`, {}, { key: door.keys.operator })
    expect(JSON.stringify(door.lines)).not.toContain(key)
    expect((await door.get('/audit')).text).not.toContain(key)
  })

  it('names with line breaks and terminal codes stay inside their field', async () => {
    const evil = 'x\r\n{"level":50,"msg":"forged"}\u001b[2J\u202e'
    await door.post('/keys', { role: 'reader', name: evil })
    await door.post(
      '/pipe/session',
      { task_id: evil, client_info: { agent_id: evil, source_id: evil } },
      { key: door.keys.sensor },
    )
    await door.post('/board/tasks', { title: evil })
    await line('GET /api/v1/me', `user-agent: ${encodeURIComponent(evil)}`)
    for (const { message } of door.lines) expect(message).not.toContain('forged')
    for (const path of ['/keys', '/views/v/sessions', '/board/tasks']) {
      const { text } = await door.get(path)
      // As JSON: the line break is two letters.
      expect([path, text.includes('\n'), text.includes('\u001b')]).toEqual([path, false, false])
    }
  })
})
