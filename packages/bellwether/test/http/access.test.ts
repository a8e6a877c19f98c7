/** Keys, browsers, the audit log and limits. Who may do what on every route is tried in security-routes.test.ts. */
import { systemRandom } from '@bellwether/base'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { pruneResponses } from '../../src/kernel/access/idempotency.js'
import { pruneAudit } from '../../src/kernel/access/audit-log.js'
import { revokeKey, rotateKey } from '../../src/kernel/access/api-keys.js'
import { project, target } from '../support/kernel.js'
import { until } from '../support/until.js'
import { addAgent, addTurn, openDoor, view, type Door } from './test-server.js'

let door: Door
beforeAll(async () => {
  door = await openDoor()
  await addAgent(door, 'ann')
})
afterAll(() => door.close())

const p = `/projects/${project}`

describe('keys', () => {
  it('work as X-API-Key and as Bearer, and not otherwise', async () => {
    const key = door.keys.reader
    const with_ = async (headers: Record<string, string>) =>
      (await door.get(`${p}/agents`, { key: null, headers })).status
    expect(await with_({ authorization: `Bearer ${key}` })).toBe(200)
    expect(await with_({ authorization: `bearer ${key}` })).toBe(200)
    expect(await with_({ authorization: `Basic ${key}` })).toBe(401)
    expect(await with_({ 'x-api-key': 'x'.repeat(5_000) })).toBe(401)
    expect((await door.get(`${p}/agents?key=${key}`, { key: null })).status).toBe(401)
  })

  it('that name a project or a view reach nothing else', async () => {
    const ofP = await door.key('operator', { project })
    const ofQ = await door.key('operator', { project: 'q' })
    const ofView = await door.key('reader', { view })
    const ofOther = await door.key('sensor', { view: 'other' })
    const turn = await addTurn(door, 'ann')
    const status = async (key: string, path: string) => (await door.get(path, { key })).status
    expect(await status(ofP, `${p}/turns/${turn}`)).toBe(200)
    expect(await status(ofQ, `${p}/turns/${turn}`)).toBe(403)
    expect(await status(ofQ, `/projects/q/turns/${turn}`)).toBe(404)
    expect((await door.get('/projects', { key: ofP })).body).toMatchObject({ projects: [{ project_id: project }] })
    expect((await door.get('/projects', { key: ofQ })).body).toEqual({ projects: [] })
    expect(await status(ofP, '/watchdog/interventions')).toBe(200)
    expect(await status(ofP, '/watchdog/interventions?project=q')).toBe(403)
    expect(await status(ofP, `/views/${view}/stats`)).toBe(403)
    expect(await status(ofView, `/views/${view}/sessions`)).toBe(200)
    expect(await status(ofView, `${p}/agents`)).toBe(403)
    expect(await status(ofOther, `/views/${view}/sessions`)).toBe(403)
    const admin = await door.key('admin', { project })
    for (const path of ['/keys', '/audit']) expect(await status(admin, path)).toBe(403)
    expect((await door.post('/keys', { role: 'admin' }, { key: admin })).status).toBe(403)
    const worker = await door.key('worker', { project: 'q' })
    expect((await door.post(`/workers/${target}/claim`, {}, { key: worker })).status).toBe(403)
    expect((await door.post(`/turns/${turn}/beat`, { turn_epoch: 1 }, { key: worker })).status).toBe(403)
  })

  it('are made, shown once, rotated with grace and revoked over HTTP; nothing but a hash is stored', async () => {
    const made = await door.post('/keys', { role: 'reader', name: 'for the wall' })
    expect(made.status).toBe(201)
    const [id, key] = [String(made.body['key_id']), String(made.body['key'])]
    expect((await door.get('/me', { key })).body).toMatchObject({ key_id: id, role: 'reader', name: 'for the wall' })
    expect((await door.get('/keys')).text).not.toContain(key)
    const dump = await door.t.one<{ text: string }>('select json_agg(k)::text as text from resource.api_keys k')
    expect(dump.text).not.toContain(key.slice(5, 25))
    const rotated = await door.post(`/keys/${id}/rotate`, { grace_seconds: 60 })
    const second = String(rotated.body['key'])
    expect([(await door.get('/me', { key })).status, (await door.get('/me', { key: second })).status]).toEqual([
      200, 200,
    ])
    await door.t.advance(61)
    await door.store.refresh()
    expect([(await door.get('/me', { key })).status, (await door.get('/me', { key: second })).status]).toEqual([
      401, 200,
    ])
    expect((await door.ask('DELETE', `/keys/${id}`)).body).toMatchObject({ status: 'revoked' })
    expect((await door.get('/me', { key: second })).status).toBe(401)
    expect((await door.post(`/keys/${id}/rotate`)).status).toBe(404)
    expect((await door.post('/keys', { role: 'sensor' })).body).toMatchObject({ status: 400, code: 'view_needed' })
  })

  it('that another process makes, rotates or revokes count here soon', async () => {
    const { store: _store, t } = door
    const key = await door.key('reader')
    const { key_id: id } = (await door.get('/me', { key })).body as unknown as { key_id: string }
    const { key: next } = await rotateKey(t.db, systemRandom, id)
    await until('the rotation', async () => ((await door.get('/me', { key: next })).status === 200 ? true : undefined))
    expect((await door.get('/me', { key })).status).toBe(401)
    await revokeKey(t.db, id)
    await until('the revocation', async () =>
      (await door.get('/me', { key: next })).status === 401 ? true : undefined,
    )
  })
})

describe('a browser', () => {
  const link = async (key = door.keys.operator) => String((await door.post('/logins', {}, { key })).body['path'])
  const enter = async (path: string) => {
    const { status, headers } = await door.get(path, { key: null })
    const [set = ''] = (headers['set-cookie'] ?? []) as string[]
    return { status, location: headers.location, set, cookie: set.split(';')[0]! }
  }
  const as = (cookie: string, more: Record<string, string> = {}) => ({ key: null, headers: { cookie, ...more } })

  it('signs in with a link that is good once, by a cookie that scripts cannot read', async () => {
    const path = await link()
    const first = await enter(path)
    expect([first.status, first.location]).toEqual([303, '/'])
    expect(first.set).toMatch(/^bw_session=[\w-]{43}; HttpOnly; SameSite=Strict; Path=\/; Max-Age=\d+$/)
    expect((await door.get('/me', as(first.cookie))).body).toMatchObject({ role: 'operator' })
    expect((await enter(path)).set).toBe('')
    expect((await enter('/login?token=wrong')).set).toBe('')
    expect((await door.get('/me', as('bw_session=wrong-wrong-wrong-wrong'))).status).toBe(401)
    await door.ask('DELETE', '/logins', undefined, as(first.cookie, { 'x-requested-with': 'bellwether' }))
    expect((await door.get('/me', as(first.cookie))).status).toBe(401)
  })

  it('writes from our own pages only: a form on another site cannot', async () => {
    const { cookie } = await enter(await link())
    const stop = (more: Record<string, string>) => door.post(`${p}/turns/none/stop`, {}, as(cookie, more))
    expect((await stop({})).status).toBe(403)
    expect((await stop({ 'x-requested-with': 'bellwether', 'sec-fetch-site': 'cross-site' })).status).toBe(403)
    expect((await stop({ 'x-requested-with': 'bellwether', 'sec-fetch-site': 'same-origin' })).status).toBe(404)
  })

  it('is signed out when the link is too old, the session is over or the key is revoked', async () => {
    const late = await link()
    await door.t.advance(601)
    expect((await enter(late)).set).toBe('')
    const { cookie } = await enter(await link())
    await door.t.advance(12 * 3_600 + 1)
    expect((await door.get('/me', as(cookie))).status).toBe(401)
    const key = await door.key('reader')
    const { key_id: id } = (await door.get('/me', { key })).body as unknown as { key_id: string }
    const session = await enter(await link(key))
    expect((await door.get('/me', as(session.cookie))).body).toMatchObject({ role: 'reader' })
    expect((await door.post('/keys', { role: 'admin' }, as(session.cookie, { 'x-requested-with': 'x' }))).status).toBe(
      403,
    )
    await door.ask('DELETE', `/keys/${id}`)
    expect((await door.get('/me', as(session.cookie))).status).toBe(401)
  })
})

describe('the audit log', () => {
  it('says who did what, and who was refused; never what the body said', async () => {
    const key = await door.key('operator')
    const { key_id: id } = (await door.get('/me', { key })).body as unknown as { key_id: string }
    await door.post(`${p}/agents/ann/turns`, { instruction: 'secret-words' }, { key })
    await door.post('/keys', { role: 'admin' }, { key })
    await door.post(`${p}/turns/none/stop`, {}, { key })
    const { body, text } = await door.get(`/audit?actor=${id}&limit=2`)
    const older = await door.get(`/audit?actor=${id}&cursor=${body.cursor}`)
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

describe('a database that is away', () => {
  it('is answered 503 with a time to come back; keys are still known, and the process still lives', async () => {
    const small = await openDoor()
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
  it('removes what is older than it says of the audit log and of kept answers, and nothing else', async () => {
    const { t } = door
    const kept = () =>
      t.one<{ a: number; b: number }>(
        'select (select count(*)::int from resource.audit_log) as a, (select count(*)::int from resource.http_answers) as b',
      )
    const turn = (key: string) =>
      door.post(`${p}/agents/ann/turns`, { instruction: 'x' }, { headers: { 'idempotency-key': key } })
    await turn('old')
    await t.advance(86_400 * 2)
    await turn('new')
    expect(await pruneResponses(t.db, 1)).toBe(1)
    expect(await pruneAudit(t.db, 1)).toBeGreaterThan(0)
    expect(await kept()).toEqual({ a: 1, b: 1 })
    expect((await turn('new')).headers['idempotent-replay']).toBe('true')
  })
})

describe('limits', () => {
  it('one key’s flood is stopped, and another key goes on', async () => {
    const small = await openDoor({ rate: { perSecond: 5, burst: 10 } })
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

  it('guessing keys is slowed down, and costs the database nothing', async () => {
    const small = await openDoor()
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

  it('CORS is closed, and nothing may be sniffed, framed or kept', async () => {
    const answer = await door.get('/me', { headers: { origin: 'https://evil.example' } })
    expect(answer.headers).toMatchObject({
      'x-content-type-options': 'nosniff',
      'cache-control': 'no-store',
      'content-security-policy': expect.stringContaining("default-src 'none'"),
    })
    expect(Object.keys(answer.headers).some((name) => name.startsWith('access-control'))).toBe(false)
    const preflight = await door.ask('OPTIONS', '/me', undefined, { headers: { origin: 'https://evil.example' } })
    expect([preflight.status, preflight.headers['access-control-allow-origin']]).toEqual([404, undefined])
  })
})
