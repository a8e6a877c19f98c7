/** HTTP tools against real servers on this machine: what they send, what they refuse, and servers that do wrong. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { guardedLookup, isPublic } from '../../src/ports/tools/http-address.js'
import { httpRequest } from '../../src/ports/tools/http-request.js'
import { checkArguments } from '../../src/worker/tools/arguments.js'
import { readHttpTools } from '../../src/worker/tools/http-tools.js'
import type { CallContext } from '../../src/worker/tools/tool.js'
import { testFolder } from '../support/postgres.js'
import { listen } from '../support/servers/listen.js'

type Answer = (request: IncomingMessage, response: ServerResponse, body: string) => void
let server: Server
let other: Server
let folder: string
let base: string
let answer: Answer = (_request, response) => void response.end()
const requests: {
  method: string | undefined
  url: string | undefined
  headers: IncomingMessage['headers']
  body: string
}[] = []
const strayRequests: string[] = []

const urlOf = async (on: Server) => `http://127.0.0.1:${await listen(on)}`
let elsewhere: string
beforeAll(async () => {
  folder = await testFolder()
  server = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk: Buffer) => (body += chunk.toString()))
    request.on('end', () => {
      requests.push({ method: request.method, url: request.url, headers: request.headers, body })
      answer(request, response, body)
    })
  })
  other = createServer((request, response) => {
    strayRequests.push(request.url ?? '')
    response.end('stolen')
  })
  base = await urlOf(server)
  elsewhere = await urlOf(other)
})
beforeEach(() => {
  requests.length = 0
  strayRequests.length = 0
})
afterAll(async () => {
  server.closeAllConnections()
  server.close()
  other.close()
  await rm(folder, { recursive: true, force: true })
})

const context = (signal = new AbortController().signal): CallContext => ({
  projectId: 'p',
  agentId: 'a',
  agentTurnId: 't',
  toolCallId: 'call-1',
  traceparent: '00-0123456789abcdef0123456789abcdef-0123456789abcdef-01',
  signal,
})
async function declared(tools: object, env: Record<string, string> = {}) {
  const path = join(folder, 'tools.json')
  await writeFile(path, JSON.stringify({ tools }, null, 2))
  return readHttpTools(path, env)
}
async function run(tool: object, args = {}, signal?: AbortSignal, env?: Record<string, string>): Promise<unknown> {
  const { tools, problems } = await declared({ it: { description: 'x', allow_private: true, ...tool } }, env)
  expect(problems).toEqual([])
  return tools[0]!.run(args, context(signal))
}
const failure = (promise: Promise<unknown>) =>
  promise.then(
    (value) => ({ value }),
    (error: unknown) => error,
  )
const json =
  (status: number, value: unknown, headers = {}): Answer =>
  (_request, response) =>
    void response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(value))

describe('an HTTP tool call', () => {
  it('sends one request with its arguments, secrets from the environment, and its id as idempotency key', async () => {
    answer = json(200, { ok: true, __cg_control: { after_execution: 'terminate' } })
    const headers = { Authorization: 'Bearer ${KEY}' }
    const url = `${base}/users/{id}?v=2`
    // The body has its own key, so that a server cannot set `__cg_control` on the result.
    const result = { status: 200, body: { ok: true, __cg_control: { after_execution: 'terminate' } } }
    expect(await run({ url, headers }, { id: 'a/b?c', n: 1 }, undefined, { KEY: 's3cret' })).toEqual(result)
    await run({ url, method: 'GET' }, { id: 7, q: 'x y', list: [1] })
    expect(requests).toMatchObject([
      {
        method: 'POST',
        url: '/users/a%2Fb%3Fc?v=2',
        body: '{"n":1}',
        headers: {
          authorization: 'Bearer s3cret',
          'idempotency-key': 'call-1',
          'content-type': 'application/json',
          traceparent: context().traceparent,
        },
      },
      { method: 'GET', url: '/users/7?v=2&q=x+y&list=%5B1%5D', body: '' },
    ])
  })

  it('never repeats a name of the URL query', async () => {
    answer = json(200, {})
    const tool = { url: `${base}/search?tenant=mine&limit={limit}`, method: 'GET' }
    expect(await failure(run(tool, { limit: 1, tenant: 'theirs' }))).toMatchObject({
      code: 'invalid_arguments',
      message: '"tenant" is a fixed part of the URL query and cannot be an argument',
    })
    expect(requests).toEqual([])
    await run(tool, { limit: 1, q: 'x' })
    expect(requests).toMatchObject([{ url: '/search?tenant=mine&limit=1&q=x' }])
  })

  it('accepts declared arguments only, unless the declaration allows others', async () => {
    const properties = { id: { type: 'string' } }
    const parametersOf = async (parameters: object) => {
      const { tools, problems } = await declared({ it: { description: 'x', url: base, parameters } })
      return tools[0]?.parameters ?? problems[0]
    }
    const strict = (await parametersOf({ type: 'object', properties })) as Record<string, unknown>
    expect(checkArguments({ id: 'a' }, { parameters: strict })).toEqual({ args: { id: 'a' } })
    expect(checkArguments({ id: 'a', admin: true }, { parameters: strict })).toMatchObject({
      refuse: { code: 'invalid_arguments', message: 'the arguments are invalid: "admin" is not a parameter' },
    })
    const open = { type: 'object', properties, additionalProperties: true }
    expect(await parametersOf(open)).toEqual(open)
    expect(await parametersOf({ allOf: [{ properties }] })).toMatch(/"allOf".*does not say whether other arguments/)
  })

  it('returns text as text, and stops reading a response at its limit', async () => {
    answer = (_request, response) => void response.end('plain')
    expect(await run({ url: base })).toEqual({ status: 200, body: 'plain' })
    let closed = false
    answer = (_request, response) => {
      const pour = () => {
        while (response.write('x'.repeat(65_536)));
      }
      response.on('drain', pour)
      response.on('close', () => (closed = true))
      pour()
    }
    const cut = (await run({ url: base, response_bytes_max: 10_000 })) as { body: string }
    expect(cut).toMatchObject({ status: 200, truncated: true })
    expect(cut.body).toHaveLength(10_000)
    await expect.poll(() => closed).toBe(true)
  })

  it('ends with its signal, also in the middle of a slow response', async () => {
    let dripping: () => void = () => undefined
    const begun = new Promise<void>((resolve) => (dripping = resolve))
    answer = (_request, response) => {
      response.write('d')
      dripping()
    }
    const over = new AbortController()
    const waiting = failure(run({ url: base }, {}, over.signal))
    await begun
    over.abort()
    expect(await waiting).toMatchObject({ inDoubt: true })
  })

  it.each([
    [404, { inDoubt: false, retryable: false }],
    [429, { inDoubt: false, retryable: true, afterMs: 2_000 }],
    [500, { inDoubt: true, retryable: true }],
    [503, { inDoubt: true, retryable: true, afterMs: 2_000 }],
    [501, { inDoubt: false, retryable: false }],
  ])('fails on status %d with the right meaning', async (status, meaning) => {
    answer = json(status, { why: 'because' }, status === 500 ? {} : { 'retry-after': '2' })
    expect(await failure(run({ url: base }))).toMatchObject({
      code: `http_${status}`,
      message: `the server responded with ${status}: {"why":"because"}`,
      ...meaning,
    })
  })

  it('an HTTP tool call is not in doubt if no connection was made, and in doubt if the connection broke', async () => {
    const gone = createServer()
    const nowhere = await urlOf(gone)
    gone.close()
    expect(await failure(run({ url: nowhere }))).toMatchObject({
      code: 'http_network',
      inDoubt: false,
      retryable: true,
    })
    answer = (request) => void request.socket.destroy()
    expect(await failure(run({ url: base }))).toMatchObject({ inDoubt: true, retryable: true })
    answer = (_request, response) => {
      response.writeHead(200, { 'content-length': '100' })
      response.write('half')
      response.socket?.end()
    }
    expect(await failure(run({ url: base }))).toMatchObject({ inDoubt: true })
  })

  it('rejects a compressed response, and returns invalid JSON as text', async () => {
    answer = json(200, 'x', { 'content-encoding': 'gzip' })
    expect(await failure(run({ url: base }))).toMatchObject({ code: 'compressed_response' })
    answer = (_request, response) => void response.writeHead(200, { 'content-type': 'application/json' }).end('{oops')
    expect(await run({ url: base })).toEqual({ status: 200, body: '{oops' })
  })
})

describe('an HTTP tool call to another address', () => {
  it.each(['', '..', '.', '../..', 'a/../b', 'a\\..', '.. ', '%2e%2e', '..;', '\\..\\..'])(
    'an HTTP tool call to another address is impossible with the path argument %j',
    async (id) => {
      answer = json(200, {})
      await failure(run({ url: `${base}/safe/{id}/end` }, { id }))
      for (const { url } of requests) expect(url).toMatch(/^\/safe\/[^/]+\/end$/)
    },
  )

  it('an HTTP tool call to another address is impossible, because no argument is part of the host', async () => {
    const { problems } = await declared({
      a: { description: 'x', url: 'http://{host}/x' },
      b: { description: 'x', url: `${base.replace('://', '://{user}@')}/x` },
      c: { description: 'x', url: 'ftp://example.com/' },
      d: { description: 'x', url: 'http://user:pass@example.com/' },
      e: { description: 'x', url: '//example.com/' },
    })
    expect(problems).toHaveLength(5)
    answer = json(200, {})
    await run({ url: `${base}/{rest}` }, { rest: `@${new URL(elsewhere).host}/` })
    await run({ url: `${base}/x?u={rest}` }, { rest: '#@evil/' })
    expect(requests).toHaveLength(2)
    expect(strayRequests).toEqual([])
  })

  it('an HTTP tool call to another address is not made by a redirect: redirects stay within the origin and never repeat a write', async () => {
    answer = (request, response) => {
      const to = request.url === '/a' ? '/b' : request.url === '/out' ? `${elsewhere}/` : undefined
      if (to === undefined) json(200, { at: request.url })(request, response, '')
      else response.writeHead(302, { location: to }).end()
    }
    expect(await run({ url: `${base}/a`, method: 'GET' })).toEqual({ status: 200, body: { at: '/b' } })
    expect(await failure(run({ url: `${base}/out`, method: 'GET' }))).toMatchObject({ code: 'redirect_refused' })
    expect(await failure(run({ url: `${base}/a` }))).toMatchObject({ code: 'redirect_refused' })
    answer = (request, response) => void response.writeHead(302, { location: request.url ?? '' }).end()
    expect(await failure(run({ url: `${base}/loop`, method: 'GET' }))).toMatchObject({ code: 'redirect_refused' })
    expect(strayRequests).toEqual([])
  })

  it.each([
    'http://127.0.0.1:1/',
    'http://[::1]:1/',
    'http://[::ffff:7f00:1]:1/',
    'http://2130706433:1/',
    'http://0x7f.1:1/',
    'http://169.254.169.254/latest',
    'http://168.63.129.16/machine',
    'http://localhost:1/',
  ])('an HTTP tool call to another address is refused for the private address %s unless allowed', async (url) => {
    expect(await failure(run({ url, allow_private: false }))).toMatchObject({ code: 'address_refused', inDoubt: false })
  })

  it.each([
    ['8.8.8.8', true],
    ['2606:4700::1111', true],
    ['10.1.2.3', false],
    ['172.31.0.1', false],
    ['192.168.0.1', false],
    ['100.64.0.1', false],
    ['0.0.0.0', false],
    ['224.0.0.1', false],
    ['255.255.255.255', false],
    ['::', false],
    ['::1', false],
    ['::ffff:10.0.0.1', false],
    ['64:ff9b::a00:1', false],
    ['2002:a00:1::', false],
    ['fd00::1', false],
    ['fe80::1', false],
    ['ff02::1', false],
    ['example.com', false],
  ])('treats %s as public: %s', (address, open) => expect(isPublic(address)).toBe(open))

  it('an HTTP tool call to another address is not made by DNS rebinding: a name is resolved once and all its addresses are checked', async () => {
    let asks = 0
    type Resolve = Parameters<typeof guardedLookup>[0]
    /** A name that means a public address first and this machine a moment later. */
    const rebinding = ((_host: string, _options: object, done: (error: null, found: object[]) => void) => {
      asks += 1
      done(null, [{ address: asks === 1 ? '8.8.8.8' : '127.0.0.1', family: 4 }])
    }) as unknown as Resolve
    const lookup = guardedLookup(rebinding)
    const found = new Promise((resolve) => lookup('evil.test', {}, (...answers) => resolve(answers)))
    expect(await found).toEqual([null, '8.8.8.8', 4])
    const request = {
      url: new URL(base.replace('127.0.0.1', 'evil.test')),
      method: 'GET',
      headers: {},
      allowPrivate: false,
    }
    const signal = new AbortController().signal
    expect(await failure(httpRequest({ ...request, responseMaxBytes: 10, signal, lookup }))).toMatchObject({
      code: 'address_refused',
    })
    const both = ((_host: string, _options: object, done: (error: null, found: object[]) => void) =>
      done(null, [
        { address: '8.8.8.8', family: 4 },
        { address: '10.0.0.1', family: 4 },
      ])) as unknown as Resolve
    const mixed = new Promise((resolve) => guardedLookup(both)('evil.test', {}, (error) => resolve(error)))
    expect(await mixed).toMatchObject({ code: 'address_refused' })
    expect(requests).toEqual([])
  })
})

it('reports problems of tools.json with file, line and nearest key, and keeps the valid tools', async () => {
  const { tools, problems } = await declared({
    good: { description: 'x', url: 'https://example.com/' },
    'Bad Name': { description: 'x', url: 'https://example.com/' },
    submit_result: { description: 'x', url: 'https://example.com/' },
    typo: { description: 'x', url: 'https://example.com/', metod: 'GET' },
    schema: {
      description: 'x',
      url: 'https://example.com/',
      parameters: { type: 'object', properties: { a: { type: 'strin' } } },
    },
    secret: { description: 'x', url: 'https://example.com/', headers: { a: '${NOT_SET_ANYWHERE}' } },
    leak: { description: 'x', url: 'https://example.com/', headers: { a: '${BELLWETHER__DATABASE__URL}' } },
    split: { description: 'x', url: 'https://example.com/', headers: { a: 'x\r\nevil: 1' } },
  })
  expect(tools.map((tool) => tool.name)).toEqual(['good'])
  expect(problems).toEqual([
    expect.stringMatching(/^tools\.json:7: tool "Bad Name" is invalid: "Bad Name" is not a valid tool name/),
    expect.stringMatching(
      /^tools\.json:11: tool "submit_result" is invalid: the tool name "submit_result" is reserved/,
    ),
    'tools.json:18: unknown key "tools.typo.metod". Did you mean "method"?',
    expect.stringMatching(/^tools\.json:20: tool "schema" is invalid: the schema of the parameters is invalid/),
    expect.stringMatching(
      /^tools\.json:32: tool "secret" is invalid: The environment variable NOT_SET_ANYWHERE is not set/,
    ),
    expect.stringMatching(
      /^tools\.json:39: tool "leak" is invalid: BELLWETHER__DATABASE__URL is a setting of the worker/,
    ),
    expect.stringMatching(/^tools\.json:46: tool "split" is invalid: a header value contains invalid characters/),
  ])
  expect(tools[0]).toMatchObject({ idempotent: false, name: 'good' })
})
