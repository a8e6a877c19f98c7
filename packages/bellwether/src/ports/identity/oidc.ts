/**
 * Signs people in with an OpenID Connect provider: authorization code flow with PKCE, state and nonce. openid-client checks the response
 * and the ID token (issuer, audience, times, nonce, signature, algorithm). Each request has a timeout and a size limit. Who may do what is
 * decided by the caller.
 */
import { type Clock, type Log } from '@bellwether/base'
import { Retryable, Terminal } from '@bellwether/protocol'
import type * as openid from 'openid-client'

export interface ProviderOptions {
  readonly issuer: URL
  readonly clientId: string
  /** Absent: a public client, which PKCE protects. */
  readonly clientSecret?: string | undefined
  /** Where the provider sends the browser back to. */
  readonly redirectUrl: URL
  readonly scopes: string
  /** Claims that are read from the userinfo endpoint if the ID token lacks them. */
  readonly wanted: readonly string[]
  /** Of each request. */
  readonly timeoutSeconds?: number
  readonly clock: Clock
  readonly log: Log
}

/** One sign-in that waits for the browser to come back. The server alone knows the nonce and the verifier. */
export interface ProviderLogin {
  /** Where the browser goes. */
  readonly url: string
  readonly state: string
  readonly nonce: string
  readonly verifier: string
}

export type Claims = Readonly<Record<string, unknown>> & { readonly sub: string }

export interface IdentityProvider {
  start(): Promise<ProviderLogin>
  /** The claims of the person. `response` is the query with which the provider sent the browser back. */
  finish(login: ProviderLogin, response: string): Promise<Claims>
}

// People wait for token, keys and userinfo; together these stay below the dashboard's timeout of 20 s.
const defaultTimeoutSeconds = 5
// Metadata, keys and tokens have a few kB.
const responseMaxBytes = 1_048_576
// Clocks of servers differ by seconds.
const clockToleranceSeconds = 30
// Providers change their endpoints rarely. openid-client reads new keys by itself.
const metadataMs = 3_600_000

type Library = typeof openid

export function openIdentityProvider(options: ProviderOptions): IdentityProvider {
  const { issuer, clock, log } = options
  let known: { readonly found: Promise<openid.Configuration>; readonly untilMs: number } | undefined

  /** Loaded at the first sign-in, so that a server without one needs no memory for it. */
  const load = (): Promise<Library> => import('openid-client')

  function discover(library: Library): Promise<openid.Configuration> {
    const { clientId, clientSecret, timeoutSeconds = defaultTimeoutSeconds } = options
    return library.discovery(
      issuer,
      clientId,
      { [library.clockTolerance]: clockToleranceSeconds },
      authenticate(library, clientSecret),
      {
        timeout: timeoutSeconds,
        [library.customFetch]: limitedFetch,
        execute: [
          // The signature is checked although the token comes from the provider over TLS.
          library.enableNonRepudiationChecks,
          ...(issuer.protocol === 'http:' ? [library.allowInsecureRequests] : []),
        ],
      },
    )
  }

  /** The provider's metadata, read again after an hour or a failure. */
  function configuration(library: Library): Promise<openid.Configuration> {
    if (known === undefined || clock.monotonicMs() >= known.untilMs)
      known = { found: discover(library), untilMs: clock.monotonicMs() + metadataMs }
    return known.found
  }

  /** Turns every failure into an error for the person; the log has the details. */
  async function guarded<T>(what: string, work: (library: Library) => Promise<T>): Promise<T> {
    try {
      return await work(await load())
    } catch (error) {
      // The metadata may be missing, wrong or outdated: the next sign-in reads them again.
      known = undefined
      log.warn({ err: error, issuer: issuer.href }, what)
      if (isUnavailable(error))
        throw new Retryable(`The identity provider ${issuer.host} does not answer`, {
          code: 'provider_unavailable',
          afterMs: 5_000,
          cause: error,
          hint: 'try again, or sign in with a key or a one-time link; the server’s log has the details',
        })
      throw new Terminal(`The identity provider ${issuer.host} did not confirm this sign-in`, {
        code: 'unauthorized',
        cause: error,
        hint: 'start the sign-in again; the server’s log has the details',
      })
    }
  }

  return {
    start: () =>
      guarded('a sign-in did not start', async (library) => {
        const config = await configuration(library)
        const [state, nonce, verifier] = [
          library.randomState(),
          library.randomNonce(),
          library.randomPKCECodeVerifier(),
        ]
        const url = library.buildAuthorizationUrl(config, {
          redirect_uri: options.redirectUrl.href,
          scope: options.scopes,
          state,
          nonce,
          code_challenge: await library.calculatePKCECodeChallenge(verifier),
          code_challenge_method: 'S256',
        })
        // The page goes there: it must not run as a script of ours.
        if (url.protocol !== issuer.protocol && url.protocol !== 'https:')
          throw new TypeError(`The provider's authorization endpoint is not an https URL: ${url.href}`)
        return { url: url.href, state, nonce, verifier }
      }),

    finish: (login, response) =>
      guarded('a sign-in was not confirmed', async (library) => {
        const config = await configuration(library)
        const returned = new URL(options.redirectUrl)
        returned.search = response
        const tokens = await library.authorizationCodeGrant(config, returned, {
          expectedState: login.state,
          expectedNonce: login.nonce,
          pkceCodeVerifier: login.verifier,
          idTokenExpected: true,
        })
        const claims: Claims = tokens.claims()!
        const missing = options.wanted.filter((name) => claims[name] === undefined)
        if (missing.length === 0 || config.serverMetadata().userinfo_endpoint === undefined) return claims
        const more = await library.fetchUserInfo(config, tokens.access_token, claims.sub)
        return { ...claims, ...Object.fromEntries(missing.map((name) => [name, more[name]])) }
      }),
  }
}

/** With the password in a header, as every provider must support, unless it announces other methods only. */
function authenticate(library: Library, secret: string | undefined): openid.ClientAuth {
  if (secret === undefined) return library.None()
  return (server, ...rest) => {
    const methods = server.token_endpoint_auth_methods_supported ?? ['client_secret_basic']
    const method = methods.includes('client_secret_basic') ? library.ClientSecretBasic : library.ClientSecretPost
    return method(secret)(server, ...rest)
  }
}

/** Codes of openid-client, and names of errors of fetch. */
function isUnavailable(error: unknown): boolean {
  if (error instanceof ProviderDown) return true
  if (error instanceof TypeError) return error.message === 'fetch failed'
  const { code, name, cause } = error as { code?: unknown; name?: unknown; cause?: unknown }
  return code === 'OAUTH_TIMEOUT' || name === 'TimeoutError' || cause instanceof ProviderDown
}

/** The provider answered, but not as one that works. */
class ProviderDown extends Error {}

const limitedFetch: openid.CustomFetch = async (url, init) => {
  const response = await fetch(url, init as RequestInit)
  if (response.status >= 500 || response.status === 429) {
    await response.body?.cancel()
    throw new ProviderDown(`${new URL(url).host} responded with ${response.status}`)
  }
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of response.body ?? []) {
    chunks.push(chunk as Uint8Array)
    bytes += (chunk as Uint8Array).length
    if (bytes > responseMaxBytes)
      throw new ProviderDown(`${new URL(url).host} sent more than ${responseMaxBytes} bytes`)
  }
  const { status, statusText, headers } = response
  // 204 and 304 have no body, and `Response` rejects one.
  return new Response(bytes === 0 ? null : Buffer.concat(chunks), { status, statusText, headers })
}
