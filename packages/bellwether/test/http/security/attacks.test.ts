/** Attacks besides wrong keys: on browser sessions, sign-in links, pages, paths, bodies, headers, slow requests and logs. */
import { connect, type Socket } from 'node:net'
import { deflateSync, gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { httpRequest } from '../../../src/ports/tools/http-request.js'
import { project } from '../../support/kernel.js'
import { openLink, openTestServer } from '../test-server.js'
import { fullServerPerFile } from '../full-server.js'

const full = fullServerPerFile()
const { server } = full

const p = `/projects/${project}`
function raw(request: string | Buffer, url = server.url): Promise<string> {
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
  const link = async () => String((await server.post('/logins', {}, { key: server.keys.operator })).body['path'])
  const enter = async (path: string, headers?: Record<string, string>) => (await openLink(server, path, headers)).cookie

  it('one of several concurrent requests with the same sign-in link gets a session', async () => {
    const path = await link()
    const cookies = await Promise.all(Array.from({ length: 20 }, () => enter(path)))
    expect(cookies.filter((cookie) => cookie !== '')).toHaveLength(1)
    expect(await enter(path)).toBe('')
  })

  it('a browser gets a new session: one that an attacker planted is not accepted', async () => {
    const planted = 'bw_session=attacker-attacker-attacker-attacker-attacke'
    const { cookie, headers } = await openLink(server, await link(), { cookie: planted })
    expect(cookie).toMatch(/^bw_session=[\w-]{43}$/)
    expect(cookie).not.toBe(planted)
    for (const sent of [planted, `${planted}; ${cookie}`])
      expect((await server.get('/me', { key: null, headers: { ...headers, cookie: sent } })).status).toBe(401)
  })

  it('the audit log records a sign-in without the secret of the link', async () => {
    const path = await link()
    await enter(path)
    const { body, text } = await server.get('/audit?limit=2')
    expect((body['audit'] as object[])[0]).toMatchObject({
      method: 'POST',
      path: '/login',
      status: 200,
      role: 'operator',
    })
    expect(text).not.toContain(path.split('=')[1])
  })

  it.each([
    ['without the header of our pages', {}, 403],
    ['from another site', { 'x-requested-with': 'x', 'sec-fetch-site': 'cross-site' }, 403],
    ['from another host of the same site', { 'x-requested-with': 'x', 'sec-fetch-site': 'same-site' }, 403],
    ['an old browser on another site', { 'x-requested-with': 'x', origin: 'https://evil.example' }, 403],
    ['an old browser in a sandbox', { 'x-requested-with': 'x', origin: 'null' }, 403],
    ['an old browser on our page', { 'x-requested-with': 'x', origin: 'SELF' }, 404],
    [
      'on our page',
      { 'x-requested-with': 'x', 'sec-fetch-site': 'same-origin', origin: 'https://behind.a.proxy' },
      404,
    ],
  ])('a browser session writes only from our own pages: %s', async (_what, more, status) => {
    const tab = await openLink(server, await link())
    const entries = Object.entries(more).map(([name, value]) => [name, value === 'SELF' ? server.url : value])
    const headers = { ...tab.headers, ...(Object.fromEntries(entries) as Record<string, string>) }
    expect((await server.post(`${p}/turns/none/stop`, {}, { key: null, headers })).status).toBe(status)
  })

  it('no response allows another site to read it', async () => {
    const origin = { origin: 'https://evil.example', 'access-control-request-method': 'POST' }
    for (const method of ['GET', 'OPTIONS', 'POST']) {
      const { headers } = await server.request(method, '/me', undefined, { headers: origin })
      expect(Object.keys(headers).filter((name) => name.startsWith('access-control'))).toEqual([])
    }
  })
})

describe('pages', () => {
  it.each(['/', '/p/demo/turns/x', '/assets/a.js', '/bell.svg'])(
    'the page %s runs only our own files',
    async (path) => {
      const answer = await line(`GET ${path}`)
      expect(answer).toContain('200 OK')
      expect(answer).toMatch(/content-security-policy: default-src 'none'; script-src 'self';/)
      expect(answer).not.toMatch(/unsafe/)
      expect(answer).toMatch(/x-content-type-options: nosniff/)
    },
  )

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
  ])('no path leads out of the folder of the pages: %s', async (path) => {
    const answer = await line(`GET ${path}`)
    expect(answer).not.toContain('the private file')
    expect(answer).not.toContain('root:')
    expect(path.startsWith('/p/') ? [200, 404] : [400, 403, 404]).toContain(statusOf(answer))
  })

  it('a requested path is reflected only in JSON, which no browser runs', async () => {
    const evil = '<script>alert(1)</script>'
    for (const path of [`/${evil}`, `/api/v1/${evil}`, `/openapi.json/${evil}`, '/%ff<script>', `/assets/${evil}`]) {
      const answer = await line(`GET ${path}`, `x-api-key: ${server.keys.admin}`)
      expect([path, answer.toLowerCase()]).toEqual([path, expect.stringContaining('nosniff')])
      expect(answer.toLowerCase()).not.toContain('content-type: text/html')
    }
  })
})

describe('bodies', () => {
  const path = `${p}/agents/bob/turns`
  const send = async (bytes: Buffer, headers: Record<string, string> = {}, to = path, key = server.keys.admin) => {
    const { status, body } = await server.request('POST', to, bytes, { headers, key })
    return [status, body.code]
  }

  it('a gzip bomb is cut off before it fills the memory', async () => {
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
    // Four bombs of 64 MB: each may use as much memory as a valid body, and some for the work.
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(100 * 1_048_576)
    expect(await send(gzipSync(gzipSync('{}')), { 'content-encoding': 'gzip, gzip' })).toEqual([
      415,
      'unsupported_encoding',
    ])
  })

  it('a deeply nested body is rejected on every route, and the server continues', async () => {
    const deep = (levels: number) => Buffer.from(`{"a":${'['.repeat(levels)}${']'.repeat(levels)}}`)
    const within = (levels: number, field: string) => Buffer.from(`{"${field}":${deep(levels).toString()}}`)
    for (const to of [path, '/board/tasks', `${p}/boxes`])
      expect([to, await send(deep(200_000), {}, to)]).toEqual([to, [400, 'content_too_deep']])
    // A route with a small limit reads no deeper body than this.
    expect(await send(deep(30_000), {}, '/keys')).toEqual([400, 'content_too_deep'])
    // The pipe and the views read the fields that they use and skip the rest.
    for (const [to, field, levels] of [
      ['/pipe/session', 'client_info', 30_000],
      ['/views/v/evidence', 'paths', 200_000],
      ['/pipe/ingest/none/events', 'events', 200_000],
    ] as const) {
      const [status] = await send(within(levels, field), {}, to, server.keys.sensor)
      expect([to, status]).toEqual([to, status === 419 ? 419 : 400])
    }
    expect((await server.get('/me')).status).toBe(200)
  })

  it('a body with prototype keys changes no prototype', async () => {
    const evil = '{"title":"x","__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}'
    await send(Buffer.from(evil), {}, '/board/tasks')
    await send(Buffer.from(`{"task_id":"x","client_info":${evil}}`), {}, '/pipe/session', server.keys.sensor)
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
  })
})

describe('headers and time', () => {
  it('headers that are too long or too many are rejected, and the server continues', async () => {
    expect(statusOf(await line('GET /healthz', `x: ${'y'.repeat(20_000)}`))).toBe(431)
    const many = Array.from({ length: 3_000 }, (_, at) => `x${at}: y`)
    expect([200, 431]).toContain(statusOf(await line('GET /healthz', ...many)))
    expect((await server.get('/healthz')).status).toBe(200)
  })

  it('contradicting content lengths end the connection, so that no second request is smuggled in', async () => {
    const smuggled = `GET /api/v1/keys HTTP/1.1\r\nhost: x\r\nx-api-key: ${server.keys.admin}\r\n\r\n`
    const both = [
      `POST /api/v1${p}/boxes HTTP/1.1`,
      'host: x',
      `x-api-key: ${server.keys.reader}`,
      'transfer-encoding: chunked',
      'content-length: 5',
      '',
      `0\r\n\r\n${smuggled}`,
    ].join('\r\n')
    const answer = await raw(both)
    expect(statusOf(answer)).toBe(400)
    expect(answer).not.toContain('key_id')
  })

  it('a client that sends its request too slowly or not at all is cut off', async () => {
    const small = await openTestServer({ limits: { requestMs: 300, silenceMs: 600 } })
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
  ])('an HTTP tool reaches neither this machine nor the metadata service of a cloud: %s', async (url) => {
    const request = { url: new URL(url), method: 'GET', headers: {}, allowPrivate: false, responseMaxBytes: 10 }
    await expect(httpRequest({ ...request, signal: AbortSignal.timeout(5_000) })).rejects.toMatchObject({
      code: 'address_refused',
    })
  })
})

describe('logs', () => {
  it('a key in a URL grants nothing and is in no log', async () => {
    const key = server.keys.admin
    const spellings = [`?key=${key}`, `?api_key=${key}`, `?access_token=${key}`, `?x-api-key=${key}`, `#${key}`]
    for (const spelling of spellings) expect(statusOf(await line(`GET /api/v1/me${spelling}`))).toBe(401)
    await server.post(`${p}/turns/none/stop?key=${key}`, {}, { key: server.keys.operator })
    expect(JSON.stringify(server.lines)).not.toContain(key)
    expect((await server.get('/audit')).text).not.toContain(key)
  })

  it('names with line breaks and terminal codes stay within their field', async () => {
    const evil = 'x\r\n{"level":50,"msg":"forged"}\u001b[2J\u202e'
    await server.post('/keys', { role: 'reader', name: evil })
    await server.post(
      '/pipe/session',
      { task_id: evil, client_info: { agent_id: evil, source_id: evil } },
      { key: server.keys.sensor },
    )
    await server.post('/board/tasks', { title: evil })
    await line('GET /api/v1/me', `user-agent: ${encodeURIComponent(evil)}`)
    for (const { message } of server.lines) expect(message).not.toContain('forged')
    for (const path of ['/keys', '/views/v/sessions', '/board/tasks']) {
      const { text } = await server.get(path)
      // In JSON a line break is two characters.
      expect([path, text.includes('\n'), text.includes('\u001b')]).toEqual([path, false, false])
    }
  })
})
