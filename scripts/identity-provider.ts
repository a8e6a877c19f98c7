/**
 * A real OpenID Connect provider (oidc-provider) on a port of its own, with one client and people whom a test can change. Its sign-in
 * page takes a name and no password. For the tests of the server and of the dashboard.
 */
import { defined } from '@bellwether/base'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Provider } from 'oidc-provider'

export interface TestProvider {
  readonly issuer: string
  readonly client: { readonly id: string; readonly secret: string }
  /** Claims by name; a test may change them. */
  readonly people: Map<string, Readonly<Record<string, unknown>>>
  close(): Promise<void>
}

const page =
  '<!doctype html><title>Provider</title><form method=post><label>Name <input name=login></label><button>Continue</button></form>'

export async function openTestProvider(redirectUrl: string): Promise<TestProvider> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const client = { id: 'bellwether', secret: 'a-secret-of-the-test' }
  const people: TestProvider['people'] = new Map()
  const provider = new Provider(issuer, {
    clients: [{ client_id: client.id, client_secret: client.secret, redirect_uris: [redirectUrl] }],
    cookies: { keys: ['a-key-of-the-test'] },
    claims: { openid: ['sub'], profile: ['name'], email: ['email', 'email_verified'], groups: ['groups'] },
    scopes: ['openid', 'profile', 'email', 'groups'],
    // Each missing one is reported on the console.
    ttl: { AccessToken: 600, Grant: 600, IdToken: 600, Interaction: 600, Session: 600 },
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_context: unknown, { uid }: { readonly uid: string }) => `/interaction/${uid}` },
    findAccount: (_context: unknown, id: string) => ({ accountId: id, claims: () => ({ sub: id, ...people.get(id) }) }),
    // The client is of the same organisation: no one is asked for consent.
    loadExistingGrant: async (context: {
      readonly oidc: {
        readonly client: { readonly clientId: string }
        readonly session: { readonly accountId: string }
      }
    }) => {
      const { client: asking, session } = context.oidc
      const grant = new provider.Grant({ clientId: asking.clientId, accountId: session.accountId })
      grant.addOIDCScope('openid profile email groups')
      await grant.save()
      return grant
    },
  })
  const answer = provider.callback()
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    if (request.url === '/favicon.ico') return void response.writeHead(204).end()
    if (request.url?.startsWith('/interaction/') !== true) return answer(request, response)
    if (request.method === 'GET') return void response.setHeader('content-type', 'text/html').end(page)
    let body = ''
    request.on('data', (chunk: Buffer) => (body += chunk.toString()))
    request.on('end', () => {
      const accountId = new URLSearchParams(body).get('login') ?? ''
      void provider.interactionFinished(request, response, { login: { accountId } })
    })
  })
  return {
    issuer,
    client,
    people,
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** Signs `login` in at the provider as a browser does; returns the URL to which the provider sends the browser back. */
export async function signInAt(url: string, login: string): Promise<URL> {
  const cookies = new Map<string, string>()
  let [next, body] = [new URL(url), undefined as string | undefined]
  for (let steps = 0; steps < 10; steps += 1) {
    const response = await fetch(next, {
      redirect: 'manual',
      method: body === undefined ? 'GET' : 'POST',
      headers: {
        cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; '),
        ...(body === undefined ? {} : { 'content-type': 'application/x-www-form-urlencoded' }),
      },
      ...defined({ body }),
    })
    for (const set of response.headers.getSetCookie()) {
      const [name = '', value = ''] = set.split(';')[0]!.split('=')
      cookies.set(name, value)
    }
    await response.arrayBuffer()
    const to = response.headers.get('location')
    body = to === null ? `login=${encodeURIComponent(login)}` : undefined
    if (to === null) continue
    const from = next.origin
    next = new URL(to, next)
    if (next.origin !== from) return next
  }
  throw new Error('The provider did not send the browser back')
}
