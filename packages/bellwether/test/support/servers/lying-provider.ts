/**
 * An OpenID Connect provider whose answers a test chooses: it accepts every code and signs any claims, with any algorithm or key. For
 * what a real provider never sends.
 */
import { createHmac, generateKeyPairSync, sign } from 'node:crypto'
import { createServer, type ServerResponse } from 'node:http'
import { listen } from './listen.js'

export interface Lie {
  /** Changes the claims of the next ID token; undefined removes one. */
  readonly claims?: Readonly<Record<string, unknown>>
  readonly alg?: 'RS256' | 'HS256' | 'none'
  /** Signs with a key that the provider does not announce. */
  readonly otherKey?: true
  /** Replaces the ID token. */
  readonly idToken?: null
  readonly userinfo?: object
  /** Changes the metadata. */
  readonly metadata?: Readonly<Record<string, unknown>>
  /** Replaces the answer of the token endpoint. */
  readonly answer?: (response: ServerResponse) => void
}

export interface LyingProvider {
  readonly issuer: string
  lie: Lie
  /** The nonce that an honest token has. */
  nonce: string
  close(): Promise<void>
}

const json = (response: ServerResponse, body: object) =>
  void response.setHeader('content-type', 'application/json').end(JSON.stringify(body))
const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')

export async function openLyingProvider(clientId: string, clientSecret: string): Promise<LyingProvider> {
  const [own, other] = [0, 1].map(() => generateKeyPairSync('rsa', { modulusLength: 2_048 }))
  const server = createServer((request, response) => {
    const { lie, nonce } = provider
    const { pathname } = new URL(request.url ?? '/', issuer)
    if (pathname === '/.well-known/openid-configuration')
      return json(response, {
        issuer,
        authorization_endpoint: `${issuer}/auth`,
        token_endpoint: `${issuer}/token`,
        userinfo_endpoint: `${issuer}/userinfo`,
        jwks_uri: `${issuer}/jwks`,
        response_types_supported: ['code'],
        subject_types_supported: ['public'],
        id_token_signing_alg_values_supported: ['RS256'],
        ...lie.metadata,
      })
    if (pathname === '/jwks')
      return json(response, {
        keys: [{ ...own!.publicKey.export({ format: 'jwk' }), kid: 'k', alg: 'RS256', use: 'sig' }],
      })
    if (pathname === '/userinfo') return json(response, lie.userinfo ?? { sub: 'mallory' })
    if (lie.answer !== undefined) return lie.answer(response)
    const seconds = Math.floor(Date.now() / 1_000)
    const claims = {
      iss: issuer,
      aud: clientId,
      sub: 'mallory',
      groups: ['bosses'],
      nonce,
      iat: seconds,
      exp: seconds + 300,
      ...lie.claims,
    }
    json(response, {
      access_token: 'a',
      token_type: 'Bearer',
      expires_in: 300,
      ...(lie.idToken === null ? {} : { id_token: signed(claims) }),
    })
  })
  function signed(claims: object): string {
    const { alg = 'RS256', otherKey } = provider.lie
    const text = `${encoded({ alg, kid: 'k' })}.${encoded(claims)}`
    if (alg === 'none') return `${text}.`
    if (alg === 'HS256') return `${text}.${createHmac('sha256', clientSecret).update(text).digest('base64url')}`
    return `${text}.${sign('sha256', Buffer.from(text), (otherKey ? other! : own!).privateKey).toString('base64url')}`
  }
  const port = await listen(server)
  const issuer = `http://127.0.0.1:${port}`
  const provider: LyingProvider = {
    issuer,
    lie: {},
    nonce: '',
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return provider
}
