/**
 * What a team has around a server: an identity provider, and a proxy under whose address people use the pages. The address is known before
 * the server starts.
 */
import { createServer, request as send } from 'node:http'
import type { AddressInfo } from 'node:net'
import { openTestProvider, type TestProvider } from '../../../../scripts/identity-provider.js'

export interface Team {
  readonly provider: TestProvider
  /** The address of the proxy. */
  readonly origin: string
  /** The settings of the server. */
  readonly env: Readonly<Record<string, string>>
  /** Passes requests on to the server. */
  connect(url: string): void
  close(): Promise<void>
}

export async function openTeam(): Promise<Team> {
  let target = ''
  const proxy = createServer((request, response) => {
    const { method, headers } = request
    const forwarded = send(`${target}${request.url ?? '/'}`, { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(response)
    })
    // A page that is closed ends its streams.
    response.once('close', () => forwarded.destroy())
    forwarded.on('error', () => response.destroy())
    request.pipe(forwarded)
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  const origin = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`
  const provider = await openTestProvider(`${origin}/login/callback`)
  return {
    provider,
    origin,
    env: {
      BELLWETHER__OIDC__ISSUER: provider.issuer,
      BELLWETHER__OIDC__NAME: 'Example',
      BELLWETHER__OIDC__CLIENT_ID: provider.client.id,
      BELLWETHER__OIDC__CLIENT_SECRET: provider.client.secret,
      BELLWETHER__SERVER__PUBLIC_URL: origin,
      BELLWETHER__OIDC__SCOPES: 'openid profile email groups',
      BELLWETHER__OIDC__OPERATORS: 'builders',
    },
    connect: (url) => (target = url),
    async close() {
      proxy.closeAllConnections()
      await new Promise((resolve) => proxy.close(resolve))
      await provider.close()
    },
  }
}
