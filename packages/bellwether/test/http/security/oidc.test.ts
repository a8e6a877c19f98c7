/** Signing in with an identity provider: against a real one, against one that lies, and against one that does not answer. */
import { createServer } from 'node:http'
import { systemClock, systemRandom } from '@bellwether/base'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ProviderSignIn } from '../../../src/http/routes/browser-sessions.js'
import { openIdentityProvider } from '../../../src/ports/identity/oidc.js'
import { openSignIn } from '../../../src/runtime/parts/sign-in.js'
import { withDefaults } from '../../../src/settings/schema.js'
import { project } from '../../support/kernel.js'
import { openLyingProvider, type Lie, type LyingProvider } from '../../support/servers/lying-provider.js'
import { openTestProvider, signInAt, type TestProvider } from '../../../../../scripts/identity-provider.js'
import { recordedLog } from '../../support/recorded-log.js'
import { openTestServer, type TestServer } from '../test-server.js'
import { listen } from '../../support/servers/listen.js'

const origin = 'http://127.0.0.1:9'
const lists = { admins: 'bosses', operators: 'ops, builders=other', readers: `Ada@Example.com=${project}, staff` }
const { log, lines } = recordedLog()

function signInWith(issuer: string, more: Readonly<Record<string, unknown>> = {}): ProviderSignIn {
  const client = { client_id: 'bellwether', client_secret: 'a-secret-of-the-test' }
  const { public_url = origin, ...oidc } = more
  const settings = withDefaults({
    server: { public_url: public_url ?? undefined },
    oidc: { issuer, name: 'Example', scopes: 'openid profile email groups', ...client, ...lists, ...oidc },
  })
  return openSignIn(settings, { folder: '/', clock: systemClock, random: systemRandom, log })!
}

let provider: TestProvider
let server: TestServer
// Requests without a key, as the page makes them.
const page = (path: string, body: object = {}, headers: Readonly<Record<string, string>> = {}) =>
  server.post(path, body, { key: null, headers })
const start = async () => (await page('/login/provider')).body as unknown as { url: string; secret: string }
const finish = (response: string, secret: string) => page('/login/callback', { response, secret })

/** The sign-in of one person from the button to the session. */
async function signIn(login: string) {
  const { url, secret } = await start()
  const back = await signInAt(url, login)
  const { status, body, headers } = await finish(back.search, secret)
  const [set = ''] = (headers['set-cookie'] ?? []) as string[]
  return { status, body, set, headers: { cookie: set.split(';')[0]!, 'x-bellwether-session': String(body['secret']) } }
}
const lastAudit = async () => ((await server.get('/audit?limit=1')).body['audit'] as object[])[0]

beforeAll(async () => {
  provider = await openTestProvider(`${origin}/login/callback`)
  provider.people.set('1', { name: 'Grace Hopper', groups: ['bosses'] })
  provider.people.set('2', { name: 'Ada <root>', email: 'ADA@example.com', email_verified: true, groups: ['none'] })
  provider.people.set('3', { name: 'Bob', email: 'bob@example.com', email_verified: true, groups: ['guests'] })
  provider.people.set('4', { email: 'ada@example.com', email_verified: false })
  provider.people.set('5', { groups: ['builders'] })
  server = await openTestServer({
    signIn: signInWith(provider.issuer),
    rates: { signIns: { perSecond: 100, burst: 500 } },
  })
})
afterAll(async () => {
  await server.close()
  await provider.close()
})

describe('with a real provider', () => {
  it('signs a person in with the role of their group, and the audit log names them', async () => {
    const { status, set, headers } = await signIn('1')
    expect(status).toBe(200)
    expect(set).toMatch(/^bw_session=[\w-]{43}; HttpOnly; SameSite=Strict; Path=\/; Max-Age=43200$/)
    const who = { actor: 'oidc:1', name: 'Grace Hopper <1>', role: 'admin' }
    expect(await lastAudit()).toMatchObject({ ...who, method: 'POST', path: '/login/callback', status: 200 })
    const me = await server.get('/me', { key: null, headers })
    expect(me.body).toMatchObject({
      key_id: 'oidc:1',
      name: 'Grace Hopper <1>',
      role: 'admin',
      view: null,
      project: null,
    })
    const wrote = await server.post(
      '/keys',
      { role: 'reader' },
      { key: null, headers: { ...headers, 'x-requested-with': 'x' } },
    )
    expect(wrote.status).toBe(201)
    expect(await lastAudit()).toMatchObject({ ...who, path: '/api/v1/keys' })
    const [created] = (await server.get('/keys')).body['keys'] as { created_by: string }[]
    expect(created!.created_by).toBe('oidc:1')
  })

  it('signs a person in by a verified e-mail address, limited to the project of the entry', async () => {
    const { headers } = await signIn('2')
    const { body } = await server.get('/me', { key: null, headers })
    expect(body).toMatchObject({ key_id: 'oidc:2', name: 'Ada root <ada@example.com>', role: 'reader', project })
    expect((await server.get(`/projects/${project}/turns`, { key: null, headers })).status).toBe(200)
    expect((await server.get('/projects/other/turns', { key: null, headers })).status).toBe(403)
    expect((await signIn('5')).status).toBe(200)
  })

  it.each([
    ['whom no list names', '3', 'Bob <bob@example.com>'],
    ['whose e-mail address is not verified', '4', '4'],
    ['whom the provider says nothing about', '9', '9'],
  ])('refuses a person %s, and the audit log names them', async (_who, login, name) => {
    const { status, body, set } = await signIn(login)
    expect([status, set]).toEqual([403, ''])
    expect(body['detail']).toBe(`${name} may not use this server`)
    expect(await lastAudit()).toMatchObject({
      actor: `oidc:${login}`,
      name,
      role: null,
      status: 403,
      code: 'forbidden',
    })
  })

  it('refuses a person whose group was removed at the next sign-in', async () => {
    provider.people.set('6', { groups: ['ops'] })
    expect((await signIn('6')).status).toBe(200)
    provider.people.set('6', { groups: [] })
    expect((await signIn('6')).status).toBe(403)
  })

  it('signing out ends the session of a person, and each session needs its page secret', async () => {
    const { headers } = await signIn('1')
    const other = await signIn('1')
    const get = async (sent: Record<string, string>) => (await server.get('/me', { key: null, headers: sent })).status
    expect(await get({ cookie: headers.cookie })).toBe(401)
    expect(await get({ ...headers, 'x-bellwether-session': other.headers['x-bellwether-session'] })).toBe(401)
    expect(await get(headers)).toBe(200)
    const out = { key: null, headers: { ...headers, 'x-requested-with': 'x' } }
    expect((await server.request('DELETE', '/logins', undefined, out)).status).toBe(200)
    expect([await get(headers), await get(other.headers)]).toEqual([401, 200])
  })

  it('a person cannot create links, which would outlive the session', async () => {
    const { headers } = await signIn('1')
    const sent = { ...headers, 'x-requested-with': 'x' }
    const { status, body } = await server.post('/logins', {}, { key: null, headers: sent })
    expect([status, body['detail']]).toEqual([403, 'Only a key can create a link that signs a browser in'])
  })

  it('a response works once, and its code not in another sign-in', async () => {
    const { url, secret } = await start()
    const back = await signInAt(url, '1')
    expect((await finish(back.search, secret)).status).toBe(200)
    expect((await finish(back.search, secret)).status).toBe(401)
    const again = await start()
    const state = new URL(again.url).searchParams.get('state')!
    for (const code of [back.searchParams.get('code')!, 'made-up']) {
      const replay = new URLSearchParams({ code, state, iss: provider.issuer })
      expect((await finish(replay.toString(), again.secret)).status).toBe(401)
    }
    expect(await lastAudit()).toMatchObject({ actor: 'unknown', path: '/login/callback', status: 401 })
  })

  it('a code that was intercepted is worth nothing in a sign-in of the attacker: PKCE binds it to its own', async () => {
    const [own, mallory] = [await start(), await start()]
    const code = (await signInAt(own.url, '1')).searchParams.get('code')!
    const state = new URL(mallory.url).searchParams.get('state')!
    const response = new URLSearchParams({ code, state, iss: provider.issuer }).toString()
    expect((await finish(response, mallory.secret)).status).toBe(401)
  })

  it('a sign-in ends only in the tab that started it: a link with the response of an attacker signs no one in', async () => {
    const [mallory, victim] = [await start(), await start()]
    const back = await signInAt(mallory.url, '1')
    for (const secret of [victim.secret, '', 'x'.repeat(43)])
      expect((await finish(back.search, secret)).status).toBe(401)
    // Wrong secrets did not end it.
    expect((await finish(back.search, mallory.secret)).status).toBe(200)
  })

  it.each([
    ['no state', (back: URLSearchParams) => back.delete('state')],
    ['an unknown state', (back: URLSearchParams) => back.set('state', 'x')],
    ['two states', (back: URLSearchParams) => back.append('state', 'x')],
    ['no code', (back: URLSearchParams) => back.delete('code')],
    ['two codes', (back: URLSearchParams) => back.append('code', 'x')],
    ['the name of another provider', (back: URLSearchParams) => back.set('iss', 'http://127.0.0.1:1')],
    ['no name of the provider', (back: URLSearchParams) => back.delete('iss')],
    ['an error of the provider', (back: URLSearchParams) => back.set('error', 'access_denied')],
  ])('refuses a response with %s', async (_what, change) => {
    const { url, secret } = await start()
    const back = (await signInAt(url, '1')).searchParams
    change(back)
    const { status, body } = await finish(back.toString(), secret)
    expect([status, body.code]).toEqual([401, 'unauthorized'])
  })

  it('repeats the error of a response only if it is a code', async () => {
    for (const [error, shown] of [
      ['access_denied', 'access_denied'],
      ['call +1 555 0100', 'unknown error'],
    ] as const) {
      const { url, secret } = await start()
      const state = new URL(url).searchParams.get('state')!
      const { body } = await finish(new URLSearchParams({ state, error, error_description: 'EVIL' }).toString(), secret)
      expect(body['detail']).toBe(`The identity provider refused this sign-in (${shown})`)
    }
  })

  it('another site can neither start nor finish a sign-in', async () => {
    const { url, secret } = await start()
    const back = await signInAt(url, '1')
    for (const headers of [{ 'sec-fetch-site': 'cross-site' }, { origin: 'https://evil.example' }]) {
      expect((await page('/login/provider', {}, headers)).status).toBe(403)
      expect((await page('/login/callback', { response: back.search, secret }, headers)).status).toBe(403)
    }
  })

  it('the sign-in goes to the provider of the settings and back to the address of the settings, whatever a request says', async () => {
    const headers = { host: 'evil.localhost', 'x-forwarded-host': 'evil.example' }
    const body = { redirect: 'https://evil.example', redirect_uri: 'https://evil.example' }
    const { body: started } = await page('/login/provider?redirect_uri=https://evil.example&next=//evil', body, headers)
    const url = new URL(String(started['url']))
    expect(url.origin).toBe(provider.issuer)
    expect(url.searchParams.get('redirect_uri')).toBe(`${origin}/login/callback`)
    expect(url.searchParams.get('code_challenge_method')).toBe('S256')
    expect(url.href).not.toContain('evil')
  })
})

describe('with a provider that lies', () => {
  let liar: LyingProvider
  beforeAll(async () => {
    liar = await openLyingProvider('bellwether', 'a-secret-of-the-test')
  })
  afterAll(() => liar.close())

  async function attempt(lie: Lie): Promise<{ status: number; code: string | undefined }> {
    const { logins } = signInWith(liar.issuer)
    const { url, secret } = await logins.start()
    const { searchParams } = new URL(url)
    Object.assign(liar, { lie, nonce: searchParams.get('nonce') })
    const response = new URLSearchParams({ code: 'c', state: searchParams.get('state')! }).toString()
    return logins.finish(response, secret).then(
      ({ sub }) => ({ status: 200, code: sub }),
      (error: { code?: string }) => ({ status: 401, code: error.code }),
    )
  }
  const seconds = () => Math.floor(Date.now() / 1_000)

  it('accepts an honest ID token, and one whose clock differs by seconds', async () => {
    expect(await attempt({})).toEqual({ status: 200, code: 'mallory' })
    expect(await attempt({ claims: { iat: seconds() + 10, exp: seconds() - 10 } })).toEqual({
      status: 200,
      code: 'mallory',
    })
  })

  it.each<[string, () => Lie]>([
    ['for another sign-in (nonce)', () => ({ claims: { nonce: 'x' } })],
    ['without a nonce', () => ({ claims: { nonce: undefined } })],
    ['for another client (audience)', () => ({ claims: { aud: 'other' } })],
    ['for several clients, authorized for another', () => ({ claims: { aud: ['bellwether', 'other'], azp: 'other' } })],
    ['of another issuer', () => ({ claims: { iss: 'https://evil.example' } })],
    ['that has expired', () => ({ claims: { iat: seconds() - 600, exp: seconds() - 300 } })],
    ['that never expires', () => ({ claims: { exp: undefined } })],
    ['that is not valid yet', () => ({ claims: { nbf: seconds() + 300 } })],
    ['without a subject', () => ({ claims: { sub: undefined } })],
    ['without a signature', () => ({ alg: 'none' })],
    ['signed with the secret of the client', () => ({ alg: 'HS256' })],
    ['signed with another key', () => ({ otherKey: true })],
    ['that is missing', () => ({ idToken: null })],
  ])('refuses an ID token %s, and logs why', async (_what, lie) => {
    lines.length = 0
    expect(await attempt(lie())).toEqual({ status: 401, code: 'unauthorized' })
    expect(lines.map(({ message }) => message)).toEqual(['a sign-in was not confirmed'])
  })

  it('refuses claims of another person from the userinfo endpoint', async () => {
    const lie = { claims: { groups: undefined }, userinfo: { sub: 'grace', groups: ['bosses'] } }
    expect(await attempt(lie)).toEqual({ status: 401, code: 'unauthorized' })
    expect((await attempt({ ...lie, userinfo: { sub: 'mallory', groups: ['bosses'] } })).status).toBe(200)
  })

  it.each([
    ['sends the browser to a script', { authorization_endpoint: 'javascript:alert(1)' }, 'start'],
    ['sends the code to a file', { token_endpoint: 'file:///etc/passwd' }, 'finish'],
    ['names another issuer', { issuer: 'https://evil.example' }, 'start'],
  ])('refuses metadata that %s, and the next sign-in reads them again', async (_what, metadata, step) => {
    const { logins } = signInWith(liar.issuer)
    const signInOnce = async () => {
      const { url, secret } = await logins.start().catch((error: Error) => ({ error, url: '', secret: '' }))
      if (url === '') return 'start'
      const { searchParams } = new URL(url)
      liar.nonce = searchParams.get('nonce')!
      const response = new URLSearchParams({ code: 'c', state: searchParams.get('state')! }).toString()
      return logins.finish(response, secret).then(
        () => 'done',
        () => 'finish',
      )
    }
    liar.lie = { metadata }
    expect(await signInOnce()).toBe(step)
    liar.lie = {}
    expect(await signInOnce()).toBe('done')
  })

  it.each<[string, Lie['answer']]>([
    ['fails', (response) => void response.writeHead(500).end()],
    [
      'sends without end',
      (response) => void response.setHeader('content-type', 'application/json').end(Buffer.alloc(2_000_000, ' ')),
    ],
    ['closes the connection', (response) => void response.destroy()],
  ])('says that the provider is unavailable if it %s', async (_what, answer) => {
    expect(await attempt({ answer: answer! })).toMatchObject({ code: 'provider_unavailable' })
  })
})

describe('the provider', () => {
  it('the provider is offered by name, and only if it is configured', async () => {
    expect((await server.get('/login/provider', { key: null })).body).toEqual({ provider: { name: 'Example', origin } })
    await withServer({}, async (other) => {
      expect((await other.get('/login/provider', { key: null })).body).toEqual({ provider: null })
      expect((await other.post('/login/provider', {}, { key: null })).status).toBe(404)
      expect((await other.post('/login/callback', { response: '', secret: '' }, { key: null })).status).toBe(404)
    })
  })

  it('a provider that does not answer does not prevent the start of the server, and the error names other ways to sign in', async () => {
    await withServer(
      { signIn: signInWith('http://127.0.0.1:1'), rates: { signIns: { perSecond: 0.001, burst: 2 } } },
      async (other) => {
        const { status, body, headers } = await other.post('/login/provider', {}, { key: null })
        expect([status, body.code, headers['retry-after']]).toEqual([503, 'provider_unavailable', '5'])
        expect(body['detail']).toBe('The identity provider 127.0.0.1:1 does not answer')
        expect(body['hint']).toContain('sign in with a key or a one-time link')
        expect((await other.post('/login/provider', {}, { key: null })).status).toBe(503)
        // Sign-ins have a rate per address: the third is not sent to the provider.
        expect((await other.post('/login/provider', {}, { key: null })).status).toBe(429)
      },
    )
  })

  it('a provider that stays silent is given up after the timeout, and asked again by the next sign-in', async () => {
    let [answered, answers] = [0, false]
    const silent = createServer((_request, response) => {
      if (!answers) return
      answered += 1
      response.end('{}')
    })
    const port = await listen(silent)
    const identity = openIdentityProvider({
      issuer: new URL(`http://127.0.0.1:${port}`),
      clientId: 'c',
      redirectUrl: new URL(origin),
      scopes: 'openid',
      wanted: [],
      // Read for each request: an answer is not given up on a busy machine.
      get timeoutSeconds() {
        return answers ? 240 : 0.1
      },
      clock: systemClock,
      log,
    })
    await expect(identity.start()).rejects.toMatchObject({ code: 'provider_unavailable' })
    answers = true
    // An answer that is not the metadata of a provider.
    await expect(identity.start()).rejects.toMatchObject({ code: 'unauthorized' })
    // On a busy machine, the first request may arrive after it was given up.
    expect(answered).toBeGreaterThan(0)
    silent.closeAllConnections()
    await new Promise((resolve) => silent.close(resolve))
  })

  it.each([
    [{ client_id: undefined }, '"oidc.client_id" is not'],
    [{ public_url: null }, '"server.public_url" is not'],
    [{ public_url: 'http://bells.example' }, 'must be an https URL'],
    [{ public_url: 'https://bells.example/path' }, 'must have no path'],
    [{ issuer: 'http://login.example' }, 'must be an https URL'],
    [{ issuer: 'file:///etc/passwd' }, 'must be an https URL'],
    [{ issuer: 'https://me:secret@login.example' }, 'must be an https URL'],
    [{ admins: '', operators: '', readers: ' , ' }, 'no one may sign in'],
    [{ admins: 'a=b=c' }, '"oidc.admins" must have entries'],
    [{ client_secret_file: '/missing' }, 'exclude each other'],
    [{ client_secret: undefined, client_secret_file: '/missing' }, 'Cannot read /missing'],
  ])('the provider is refused at the start with invalid settings: %j', (more, message) => {
    expect(() => signInWith('https://login.example', more)).toThrow(message)
  })
})

async function withServer(options: Parameters<typeof openTestServer>[0], work: (other: TestServer) => Promise<void>) {
  const other = await openTestServer(options)
  try {
    await work(other)
  } finally {
    await other.close()
  }
}
