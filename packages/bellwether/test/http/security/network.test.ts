/** How clients reach the server: TLS, trusted proxies, host names and caching of pages. */
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { request as plainRequest } from 'node:http'
import { request as tlsRequest, type RequestOptions } from 'node:https'
import type { IncomingHttpHeaders } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { dashboardPages } from '../../../src/http/pages.js'
import { isKnownHost } from '../../../src/http/server.js'
import { networkOf } from '../../../src/runtime/server.js'
import { loadSettings } from '../../../src/settings/load.js'
import { openTestServer, serverPerFile, type TestServer } from '../test-server.js'

const folder = mkdtempSync(join(tmpdir(), 'bw-network-'))
mkdirSync(join(folder, 'pages', 'assets'), { recursive: true })
writeFileSync(join(folder, 'pages', 'index.html'), '<!doctype html>')
writeFileSync(join(folder, 'pages', 'bell.svg'), '<svg/>')
writeFileSync(join(folder, 'pages', 'assets', 'a-1234.js'), '1')
const pages = dashboardPages(join(folder, 'pages'))!
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const settings = (env: Record<string, string>) => loadSettings({ folder, env }).server

interface TestOptions extends Omit<RequestOptions, 'headers'> {
  readonly headers?: Record<string, string>
}

interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
}

function send(url: string, options: RequestOptions, body?: string): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = url.startsWith('https') ? tlsRequest : plainRequest
    const sent = request(url, { agent: false, ...options }, (response) => {
      let text = ''
      response.on('data', (piece: Buffer) => (text += piece.toString()))
      response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }))
    })
    sent.on('error', reject).end(body)
  })
}

const signIn = async (server: TestServer, url: string, options: TestOptions = {}) => {
  const key = { 'x-api-key': server.keys.operator }
  const link = await send(`${url}/api/v1/logins`, {
    ...options,
    method: 'POST',
    headers: { ...options.headers, ...key },
  })
  const { path } = JSON.parse(link.text) as { path: string }
  return send(`${url}/login`, { ...options, method: 'POST' }, JSON.stringify({ token: path.split('#token=')[1] }))
}

describe('TLS', () => {
  let server: TestServer
  let url = ''
  let ca = ''
  beforeAll(async () => {
    const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
    const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1']
    const made = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2']
    execFileSync('openssl', [...made, ...subject, '-keyout', key, '-out', cert], { stdio: 'ignore', timeout: 60_000 })
    ca = readFileSync(cert, 'utf8')
    const env = { BELLWETHER__SERVER__TLS_CERTIFICATE: 'cert.pem', BELLWETHER__SERVER__TLS_KEY: 'key.pem' }
    server = await openTestServer(networkOf(settings(env), folder, '127.0.0.1'))
    url = server.url.replace('http:', 'https:')
  })
  afterAll(() => server?.close())

  it('TLS is spoken with the certificate of the settings, and browsers stay with it', async () => {
    const { status, headers } = await send(`${url}/healthz`, { ca })
    expect([status, headers['strict-transport-security']]).toEqual([200, 'max-age=31536000'])
    expect((await send(`${url}/api/v1/me`, { ca, headers: { 'x-api-key': server.keys.reader } })).status).toBe(200)
    await expect(send(`${url}/healthz`, {})).rejects.toThrow(/self-signed/)
    await expect(send(`${server.url}/healthz`, {})).rejects.toThrow(/socket hang up|ECONNRESET|Parse Error/)
  })

  it('makes the session cookie secure', async () => {
    const { status, headers } = await signIn(server, url, { ca })
    expect([status, headers['set-cookie']?.[0]]).toEqual([200, expect.stringMatching(/; Secure$/)])
  })

  it('needs both files, and names one that it cannot read', () => {
    const only = settings({ BELLWETHER__SERVER__TLS_KEY: 'key.pem' })
    expect(() => networkOf(only, folder, '127.0.0.1')).toThrow('must be set together')
    const missing = settings({
      BELLWETHER__SERVER__TLS_KEY: 'key.pem',
      BELLWETHER__SERVER__TLS_CERTIFICATE: 'none.pem',
    })
    expect(() => networkOf(missing, folder, '127.0.0.1')).toThrow(/Cannot read .*none\.pem/)
  })

  it.each([
    ['key.pem', 'key.pem', 'it is not valid PEM'],
    ['cert.pem', 'cert.pem', 'it is not valid PEM'],
    ['cert.pem', 'other.pem', 'its key is not the one in'],
    ['expired.pem', 'key.pem', 'it expired on'],
    ['cert.pem', 'open.pem', 'every account of this machine may read or change this key'],
    ['/dev/zero', 'key.pem', 'it is not a regular file'],
  ])('does not start with %s and %s, and says why', (certificate, key, why) => {
    const at = (name: string) => join(folder, name)
    const openssl = (...args: string[]) => execFileSync('openssl', args, { stdio: 'ignore', timeout: 60_000 })
    openssl('genpkey', '-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-out', at('other.pem'))
    openssl('req', '-new', '-key', at('key.pem'), '-subj', '/CN=localhost', '-out', at('request.pem'))
    openssl(
      'x509',
      '-req',
      '-in',
      at('request.pem'),
      '-signkey',
      at('key.pem'),
      '-days',
      '-1',
      '-out',
      at('expired.pem'),
    )
    writeFileSync(at('open.pem'), readFileSync(at('key.pem')))
    chmodSync(at('open.pem'), 0o644)
    const env = { BELLWETHER__SERVER__TLS_CERTIFICATE: certificate, BELLWETHER__SERVER__TLS_KEY: key }
    expect(() => networkOf(settings(env), folder, '127.0.0.1')).toThrow(why)
  })
})

describe('a proxy', () => {
  const forwarded = { 'x-forwarded-for': '203.0.113.9', 'x-forwarded-proto': 'https' }
  const behind = serverPerFile(
    networkOf(settings({ BELLWETHER__SERVER__TRUSTED_PROXIES: '127.0.0.0/8' }), folder, '127.0.0.1'),
  )

  it.each([
    ['127.0.0.0/8', '203.0.113.9', true],
    ['10.0.0.0/8', '127.0.0.1', false],
  ])('counts only if the settings trust it: %j', async (proxies, address, isSecure) => {
    const trusted = networkOf(settings({ BELLWETHER__SERVER__TRUSTED_PROXIES: proxies }), folder, '127.0.0.1')
    const server = await openTestServer(trusted)
    try {
      const { headers } = await signIn(server, server.url, { headers: forwarded })
      expect(headers['set-cookie']?.[0]?.endsWith('; Secure')).toBe(isSecure)
      expect(headers['strict-transport-security'] !== undefined).toBe(isSecure)
      const audit = (await server.get('/audit?limit=1')).body['audit'] as { address: string }[]
      expect(audit[0]?.address).toBe(address)
    } finally {
      await server.close()
    }
  })

  it.each([
    ['203.0.113.9', '203.0.113.9'],
    ['junk, 203.0.113.9', '203.0.113.9'],
    ['203.0.113.9:4711', '203.0.113.9'],
    ['[2001:db8::1]:4711', '2001:db8::1'],
    ['203.0.113.9, junk', '127.0.0.1'],
    ['x'.repeat(3_000), '127.0.0.1'],
    ['', '127.0.0.1'],
  ])('makes nothing but an address the address of a client: %j', async (header, address) => {
    await behind.request('POST', '/logins', {}, { headers: { 'x-forwarded-for': header } })
    const audit = (await behind.get('/audit?limit=1')).body['audit'] as { address: string }[]
    expect(audit[0]?.address).toBe(address)
  })

  it('a trusted proxy must be an address or a network', () => {
    for (const wrong of ['proxy.example', '10.0.0.0/33', '10.0.0.0/8/9'])
      expect(() => networkOf(settings({ BELLWETHER__SERVER__TRUSTED_PROXIES: wrong }), folder, '::1')).toThrow(wrong)
  })
})

describe('a host name', () => {
  const server = serverPerFile({
    ...networkOf(settings({ BELLWETHER__SERVER__HOSTS: 'Bells.example' }), folder, '127.0.0.1'),
    pages,
  })

  it.each([
    ['localhost:7717', true],
    ['app.localhost', true],
    ['127.0.0.1:7717', true],
    ['[::1]:7717', true],
    ['192.168.1.2', true],
    ['BELLS.example:80', true],
    ['bells.example.', true],
    ['evil.example', false],
    ['127.0.0.1.evil.example', false],
    ['localhost.evil.example:7717', false],
    ['', false],
  ])('a host name of a request without a key must be known: %j', (host, isKnown) => {
    expect(isKnownHost(host, ['bells.example'])).toBe(isKnown)
  })

  it('a host name of another site gets no page, no sign-in and no metrics, but a key works under every name', async () => {
    const evil = { host: 'evil.example' }
    for (const path of ['/', '/metrics', '/openapi.json', '/api/v1/me', '/healthz'])
      expect([path, (await send(`${server.url}${path}`, { headers: evil })).status]).toEqual([path, 421])
    expect((await send(`${server.url}/login`, { method: 'POST', headers: evil }, '{"token":"x"}')).status).toBe(421)
    const headers = { ...evil, 'x-api-key': server.keys.reader }
    expect((await send(`${server.url}/api/v1/me`, { headers })).status).toBe(200)
    expect((await send(`${server.url}/`, { headers: { host: 'bells.example' } })).status).toBe(200)
  })

  it('a host name is checked on a loopback address by default, and on another only if names are set', () => {
    expect(networkOf(settings({}), folder, '127.0.0.1').hosts).toEqual([])
    expect(networkOf(settings({}), folder, '0.0.0.0').hosts).toBeUndefined()
  })

  it('pages are checked again before each use, and files with a hash in their name are not', async () => {
    for (const path of ['/', '/login', '/p/demo/fleet', '/bell.svg'])
      expect([path, (await send(`${server.url}${path}`, {})).headers['cache-control']]).toEqual([path, 'no-cache'])
    const asset = await send(`${server.url}/assets/a-1234.js`, {})
    expect(asset.headers['cache-control']).toBe('public, max-age=31536000, immutable')
  })
})
