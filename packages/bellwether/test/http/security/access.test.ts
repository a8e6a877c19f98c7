/** Keys, browser sessions, the audit log and rate limits. routes.test.ts tests the permissions of every route. */
import { systemRandom } from '@bellwether/base'
import { beforeAll, describe, expect, it } from 'vitest'
import { pruneResponses } from '../../../src/kernel/access/idempotency.js'
import { pruneAudit } from '../../../src/kernel/access/audit-log.js'
import { createKey, revokeKey, rotateKey } from '../../../src/kernel/access/api-keys.js'
import { project, target } from '../../support/kernel.js'
import { until } from '../../support/until.js'
import { addAgent, addTurn, openLink, openTestServer, serverPerFile, type BrowserTab, view } from '../test-server.js'
import { readEvents } from '../reader.js'

const server = serverPerFile()
beforeAll(async () => {
  await addAgent(server, 'ann')
})

const p = `/projects/${project}`

describe('keys', () => {
  it('a key works as X-API-Key and as a Bearer token, and in no other place', async () => {
    const key = server.keys.reader
    const with_ = async (headers: Record<string, string>) =>
      (await server.get(`${p}/agents`, { key: null, headers })).status
    expect(await with_({ authorization: `Bearer ${key}` })).toBe(200)
    expect(await with_({ authorization: `bearer ${key}` })).toBe(200)
    expect(await with_({ authorization: `Basic ${key}` })).toBe(401)
    expect(await with_({ 'x-api-key': 'x'.repeat(5_000) })).toBe(401)
    expect((await server.get(`${p}/agents?key=${key}`, { key: null })).status).toBe(401)
  })

  it('a new key works at once, also if the server has read the keys just before', async () => {
    await server.key('reader') // the server reads the keys
    const ports = { ids: server.t.ids, random: systemRandom }
    const { key } = await createKey(server.t.db, ports, { role: 'reader', by: 'test' })
    expect((await server.get(`${p}/agents`, { key })).status).toBe(200)
  })

  it('a key that is limited to a project or a view reaches nothing else', async () => {
    const ofP = await server.key('operator', { project })
    const ofQ = await server.key('operator', { project: 'q' })
    const ofView = await server.key('reader', { view })
    const ofOther = await server.key('sensor', { view: 'other' })
    const turn = await addTurn(server, 'ann')
    const status = async (key: string, path: string) => (await server.get(path, { key })).status
    expect(await status(ofP, `${p}/turns/${turn}`)).toBe(200)
    expect(await status(ofQ, `${p}/turns/${turn}`)).toBe(403)
    expect(await status(ofQ, `/projects/q/turns/${turn}`)).toBe(404)
    expect((await server.get('/projects', { key: ofP })).body).toMatchObject({ projects: [{ project_id: project }] })
    expect((await server.get('/projects', { key: ofQ })).body).toEqual({ projects: [] })
    expect(await status(ofP, '/watchdog/interventions')).toBe(200)
    expect(await status(ofP, '/watchdog/interventions?project=q')).toBe(403)
    expect(await status(ofP, `/views/${view}/stats`)).toBe(403)
    expect(await status(ofView, `/views/${view}/sessions`)).toBe(200)
    expect(await status(ofView, `${p}/agents`)).toBe(403)
    expect(await status(ofOther, `/views/${view}/sessions`)).toBe(403)
    const admin = await server.key('admin', { project })
    for (const path of ['/keys', '/audit']) expect(await status(admin, path)).toBe(403)
    expect((await server.post('/keys', { role: 'admin' }, { key: admin })).status).toBe(403)
    const worker = await server.key('worker', { project: 'q' })
    expect((await server.post(`/workers/${target}/claim`, {}, { key: worker })).body).toEqual({ turns: [] })
    expect((await server.post(`/turns/${turn}/beat`, { turn_epoch: 1 }, { key: worker })).status).toBe(403)
  })

  it('a key is created, shown once, rotated with a grace period and revoked over HTTP, and only its hash is stored', async () => {
    const made = await server.post('/keys', { role: 'reader', name: 'for the monitor' })
    expect(made.status).toBe(201)
    const [id, key] = [String(made.body['key_id']), String(made.body['key'])]
    expect((await server.get('/me', { key })).body).toMatchObject({
      key_id: id,
      role: 'reader',
      name: 'for the monitor',
    })
    expect((await server.get('/keys')).text).not.toContain(key)
    const dump = await server.t.one<{ text: string }>('select json_agg(k)::text as text from resource.api_keys k')
    expect(dump.text).not.toContain(key.slice(5, 25))
    const rotated = await server.post(`/keys/${id}/rotate`, { grace_seconds: 60 })
    const second = String(rotated.body['key'])
    expect([(await server.get('/me', { key })).status, (await server.get('/me', { key: second })).status]).toEqual([
      200, 200,
    ])
    await server.t.advance(61)
    await server.store.refresh()
    expect([(await server.get('/me', { key })).status, (await server.get('/me', { key: second })).status]).toEqual([
      401, 200,
    ])
    expect((await server.request('DELETE', `/keys/${id}`)).body).toMatchObject({ status: 'revoked' })
    expect((await server.get('/me', { key: second })).status).toBe(401)
    expect((await server.post(`/keys/${id}/rotate`)).status).toBe(404)
    expect((await server.post('/keys', { role: 'sensor' })).body).toMatchObject({ status: 400, code: 'view_needed' })
  })

  it('a key that another process rotates or revokes changes here within one refresh', async () => {
    const { store: _store, t } = server
    const key = await server.key('reader')
    const { key_id: id } = (await server.get('/me', { key })).body as unknown as { key_id: string }
    const { key: next } = await rotateKey(t.db, systemRandom, id)
    await until('the rotation', async () =>
      (await server.get('/me', { key: next })).status === 200 ? true : undefined,
    )
    expect((await server.get('/me', { key })).status).toBe(401)
    await revokeKey(t.db, id)
    await until('the revocation', async () =>
      (await server.get('/me', { key: next })).status === 401 ? true : undefined,
    )
  })
})

describe('a browser', () => {
  const link = async (key = server.keys.operator) => String((await server.post('/logins', {}, { key })).body['path'])
  const enter = (path: string) => openLink(server, path)
  const as = ({ headers }: BrowserTab, more: Record<string, string> = {}) => ({
    key: null,
    headers: { ...headers, ...more },
  })

  it('a browser signs in with a link that works once, and gets a cookie that scripts cannot read', async () => {
    const path = await link()
    const first = await enter(path)
    expect([path.startsWith('/login#token='), first.status]).toEqual([true, 200])
    expect(first.set).toMatch(/^bw_session=[\w-]{43}; HttpOnly; SameSite=Strict; Path=\/; Max-Age=\d+$/)
    expect((await server.get('/me', as(first))).body).toMatchObject({ role: 'operator' })
    expect((await enter(path)).set).toBe('')
    expect(await enter('/login#token=wrong')).toMatchObject({ status: 401, set: '' })
    expect((await server.get('/me', as(first, { cookie: 'bw_session=wrong-wrong-wrong-wrong' }))).status).toBe(401)
    await server.request('DELETE', '/logins', undefined, as(first, { 'x-requested-with': 'bellwether' }))
    expect((await server.get('/me', as(first))).status).toBe(401)
  })

  it('a browser session writes only from our own pages: a form on another site is rejected', async () => {
    const tab = await enter(await link())
    const stop = (more: Record<string, string>) => server.post(`${p}/turns/none/stop`, {}, as(tab, more))
    expect((await stop({})).status).toBe(403)
    expect((await stop({ 'x-requested-with': 'bellwether', 'sec-fetch-site': 'cross-site' })).status).toBe(403)
    expect((await stop({ 'x-requested-with': 'bellwether', 'sec-fetch-site': 'same-origin' })).status).toBe(404)
  })

  it('a browser is signed out when its link or session has expired, or its key was revoked', async () => {
    const late = await link()
    await server.t.advance(601)
    expect((await enter(late)).set).toBe('')
    const idle = await enter(await link())
    await server.t.advance(3_599)
    expect((await server.get('/me', as(idle))).status).toBe(200)
    await server.t.advance(3_599)
    expect((await server.get('/me', as(idle))).status).toBe(200)
    await server.t.advance(3_601)
    expect((await server.get('/me', as(idle))).status).toBe(401)
    const busy = await enter(await link())
    for (let hour = 0; hour < 12; hour += 1) {
      expect((await server.get('/me', as(busy))).status).toBe(200)
      await server.t.advance(3_600 - 1)
    }
    await server.t.advance(12)
    expect((await server.get('/me', as(busy))).status).toBe(401)
    const key = await server.key('reader')
    const { key_id: id } = (await server.get('/me', { key })).body as unknown as { key_id: string }
    const session = await enter(await link(key))
    expect((await server.get('/me', as(session))).body).toMatchObject({ role: 'reader' })
    expect((await server.post('/keys', { role: 'admin' }, as(session, { 'x-requested-with': 'x' }))).status).toBe(403)
    await server.request('DELETE', `/keys/${id}`)
    expect((await server.get('/me', as(session))).status).toBe(401)
  })

  it('a browser needs its cookie and the secret of its page, also to read and to follow events', async () => {
    const { cookie, headers } = await enter(await link())
    const stolen: Record<string, string>[] = [
      { cookie },
      { cookie, 'x-bellwether-session': 'A'.repeat(43) },
      { 'x-bellwether-session': headers['x-bellwether-session']! },
      { cookie, 'x-requested-with': 'x', 'sec-fetch-site': 'same-origin', origin: server.url },
    ]
    for (const replayed of stolen)
      for (const path of ['/me', `${p}/events`, `${p}/turns`])
        expect((await server.get(path, { key: null, headers: replayed })).status).toBe(401)
    expect((await server.get('/me', { key: null, headers })).status).toBe(200)
  })

  it('sessions and links end when their key is rotated, also during the grace period of the old secret', async () => {
    const key = await server.key('reader')
    const id = String((await server.get('/me', { key })).body['key_id'])
    const session = await enter(await link(key))
    const unused = await link(key)
    const stream = await readEvents(`${server.url}/api/v1${p}/events`, { headers: session.headers })
    await stream.next('hello', ({ event }) => event === 'hello')
    await server.post(`/keys/${id}/rotate`, { grace_seconds: 600 })
    expect((await server.get('/me', { key })).status).toBe(200)
    expect((await server.get('/me', as(session))).status).toBe(401)
    expect((await enter(unused)).status).toBe(401)
    expect((await server.post('/logins', {}, { key })).status).toBe(403)
    // An idle agent: its lease is an event, before which the server checks the key.
    await addAgent(server, 'idle')
    await server.post(`${p}/agents/idle/turns`, { instruction: 'x' })
    await stream.ended
    expect(stream.events.map(({ event }) => event)).toEqual(['hello'])
  })

  it('a key that creates many links ends only its own sessions', async () => {
    const mine = await enter(await link())
    const other = await server.key('reader')
    for (let at = 0; at < 60; at += 1) await enter(await link(other))
    expect((await server.get('/me', as(mine))).status).toBe(200)
  })
})

describe('the audit log', () => {
  it('the audit log records who did what and who was refused, and never a request body', async () => {
    const key = await server.key('operator')
    const { key_id: id } = (await server.get('/me', { key })).body as unknown as { key_id: string }
    await server.post(`${p}/agents/ann/turns`, { instruction: 'secret-words' }, { key })
    await server.post('/keys', { role: 'admin' }, { key })
    await server.post(`${p}/turns/none/stop`, {}, { key })
    const { body, text } = await server.get(`/audit?actor=${id}&limit=2`)
    const older = await server.get(`/audit?actor=${id}&cursor=${body.cursor}`)
    expect([...(body['audit'] as object[]), ...(older.body['audit'] as object[])]).toMatchObject([
      {
        actor: id,
        role: 'operator',
        method: 'POST',
        path: `/api/v1${p}/turns/none/stop`,
        status: 404,
        code: 'unknown_turn',
      },
      { method: 'POST', path: '/api/v1/keys', status: 403, code: 'forbidden' },
      { method: 'POST', path: `/api/v1${p}/agents/ann/turns`, status: 202, code: null, address: '127.0.0.1' },
    ])
    expect(text + older.text).not.toContain('secret-words')
  })
})

describe('an unavailable database', () => {
  it('while the database is unavailable the server answers 503 with retry-after, still checks keys, and stays alive', async () => {
    const small = await openTestServer()
    try {
      await small.t.db.close()
      const answer = await small.get(`${p}/agents`)
      expect(answer.body).toMatchObject({ status: 503, code: 'database_unavailable' })
      expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0)
      expect((await small.get(`${p}/agents`, { key: 'bw_wrong-wrong-wrong' })).status).toBe(401)
      expect((await small.get('/readyz', { key: null })).body).toMatchObject({ status: 'not_ready', database: false })
      expect((await small.get('/healthz', { key: null })).status).toBe(200)
    } finally {
      await small.close()
    }
  })
})

describe('retention', () => {
  it('retention removes only audit lines and stored responses that are older than its limit', async () => {
    const { t } = server
    const counts = () =>
      t.one<{ a: number; b: number }>(
        'select (select count(*)::int from resource.audit_log) as a, (select count(*)::int from resource.http_responses) as b',
      )
    const turn = (key: string) =>
      server.post(`${p}/agents/ann/turns`, { instruction: 'x' }, { headers: { 'idempotency-key': key } })
    await turn('old')
    await t.advance(86_400 * 2)
    await turn('new')
    expect(await pruneResponses(t.db, 1)).toBe(1)
    expect(await pruneAudit(t.db, 1)).toBeGreaterThan(0)
    expect(await counts()).toEqual({ a: 1, b: 1 })
    expect((await turn('new')).headers['idempotent-replay']).toBe('true')
  })
})

describe('limits', () => {
  it('the rate limit stops a flood of one key and does not affect another key', async () => {
    const small = await openTestServer({ rate: { perSecond: 0.01, burst: 10 } })
    try {
      const key = await small.key('reader')
      const answers = await Promise.all(Array.from({ length: 30 }, () => small.get('/me', { key })))
      const refused = answers.filter((one) => one.status === 429)
      expect(refused.length).toBeGreaterThan(10)
      expect(refused[0]!.body).toMatchObject({ code: 'rate_limited' })
      expect(Number(refused[0]!.headers['retry-after'])).toBeGreaterThan(0)
      expect((await small.get('/me', { key: small.keys.reader })).status).toBe(200)
    } finally {
      await small.close()
    }
  })

  it('the server slows down key guessing without a database query per guess', async () => {
    const small = await openTestServer()
    try {
      const guesses = await Promise.all(
        Array.from({ length: 300 }, (_, at) => small.get('/me', { key: `bw_guess-${at}-xxxxxxxxxx` })),
      )
      expect(new Set(guesses.map((one) => one.status))).toEqual(new Set([401, 429]))
      expect((await small.get('/me')).status).toBe(200)
    } finally {
      await small.close()
    }
  })

  it('responses allow no CORS, MIME sniffing, framing or caching', async () => {
    const answer = await server.get('/me', { headers: { origin: 'https://evil.example' } })
    expect(answer.headers).toMatchObject({
      'x-content-type-options': 'nosniff',
      'cache-control': 'no-store',
      'content-security-policy': expect.stringContaining("default-src 'none'"),
    })
    expect(Object.keys(answer.headers).some((name) => name.startsWith('access-control'))).toBe(false)
    const preflight = await server.request('OPTIONS', '/me', undefined, { headers: { origin: 'https://evil.example' } })
    expect([preflight.status, preflight.headers['access-control-allow-origin']]).toEqual([404, undefined])
  })
})
