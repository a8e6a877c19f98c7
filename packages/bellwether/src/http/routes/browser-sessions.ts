/**
 * Signs a browser in with a one-time link or with the identity provider, and out again. The link's token is in the fragment of its URL,
 * which only the page reads. No request names where the browser goes after the sign-in.
 */
import { Terminal } from '@bellwether/protocol'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { notFound, type Api } from '../api.js'
import {
  cookieOf,
  isOwnPage,
  linkMs,
  sessionIn,
  sessionMs,
  type BrowserSessions,
  type KeyGeneration,
  type OpenedSession,
} from '../sign-in/browser-sessions.js'
import { isPerson, type Grant } from '../auth.js'
import { grantOf, type KeyStore } from '../key-store.js'
import { personOf, ruleFor, type PersonRule } from '../sign-in/people.js'
import type { ProviderLogins } from '../sign-in/provider-logins.js'

export const loginPath = '/login'
/** The page at this path sends the token back with POST. */
export const loginLink = (token: string) => `${loginPath}#token=${token}`

export interface BrowserSessionParts {
  readonly browserSessions: BrowserSessions
  readonly keys: Pick<KeyStore, 'byId'>
  /** The identity provider with which people sign in, if there is one. */
  readonly signIn?: ProviderSignIn | undefined
}

export interface ProviderSignIn {
  readonly logins: ProviderLogins
  /** For the button of the sign-in page. */
  readonly name: string
  /** The origin of the pages, to which the provider sends the browser back. */
  readonly origin: string
  readonly rules: readonly PersonRule[]
  readonly groupsClaim: string
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Who made a refused request, if that is known: for the audit log. */
    actor: { readonly id: string; readonly name: string } | null
  }
}

export function browserSessionRoutes(api: Api, { browserSessions, keys, signIn }: BrowserSessionParts): void {
  const isCurrent = ({ keyId, generation }: KeyGeneration) => keys.byId(keyId)?.generation === generation

  api('POST /logins', ({ grant }) => {
    const { keyId, generation = '' } = grant
    if (isPerson(grant))
      throw new Terminal('Only a key can create a link that signs a browser in', {
        code: 'forbidden',
        hint: 'sign the other browser in with the identity provider',
      })
    if (!isCurrent({ keyId, generation }))
      throw new Terminal('This key was rotated: its old secret cannot sign a browser in', {
        code: 'forbidden',
        hint: 'use the new secret',
      })
    return { path: loginLink(browserSessions.createLink({ keyId, generation })), expires_in_seconds: linkMs / 1_000 }
  })

  api('DELETE /logins', ({ headers, protocol }, reply) => {
    const session = sessionIn(headers)
    if (session !== undefined) browserSessions.end(session)
    void reply.header('set-cookie', cookieOf('', 0, protocol === 'https'))
    return { status: 'signed_out' }
  })

  /** The session of this browser from now on. The grant is for the audit log. */
  function enter(request: FastifyRequest, reply: FastifyReply, grant: Grant, { session, secret }: OpenedSession) {
    request.grant = grant
    // People of the provider use its origin, also if the proxy in front of it is not trusted to say so.
    const isSecure = request.protocol === 'https' || (isPerson(grant) && signIn?.origin.startsWith('https:') === true)
    void reply.header('set-cookie', cookieOf(session, sessionMs, isSecure))
    return { secret, expires_in_seconds: sessionMs / 1_000 }
  }

  api('POST /login', (request, reply) => {
    const { body, headers } = request
    const opened = isOwnPage(headers) ? browserSessions.open(body.token) : undefined
    const key = opened && browserSessions.ownerOf(opened.session, opened.secret)
    if (opened === undefined || key === undefined || !isCurrent(key))
      throw new Terminal('This link was used, has expired, or its key was revoked', {
        code: 'unauthorized',
        hint: 'for a new link run `bellwether open` in the folder of `up` (or POST /logins); or sign in with a key',
      })
    return enter(request, reply, keys.byId(key.keyId)!, opened)
  })

  api('GET /login/provider', () => ({
    provider: signIn === undefined ? null : { name: signIn.name, origin: signIn.origin },
  }))

  const provider = ({ headers }: FastifyRequest): ProviderSignIn => {
    if (!isOwnPage(headers))
      throw new Terminal('Only the dashboard’s own pages can sign a browser in', { code: 'forbidden' })
    if (signIn === undefined) throw notFound('An identity provider')
    return signIn
  }

  api('POST /login/provider', (request) => provider(request).logins.start())

  api('POST /login/callback', async (request, reply) => {
    const { logins, rules, groupsClaim } = provider(request)
    const claims = await logins.finish(request.body.response, request.body.secret)
    const person = personOf(claims)
    const rule = person && ruleFor(claims, rules, groupsClaim)
    if (person !== undefined) request.actor = person
    if (person === undefined || rule === undefined)
      throw new Terminal(`${person?.name ?? 'This person'} may not use this server`, {
        code: 'forbidden',
        hint: 'ask an administrator to add you or one of your groups to oidc.admins, oidc.operators or oidc.readers',
      })
    const { role, project = null } = rule
    const key = { key_id: person.id, name: person.name, role, view_name: null, targets: null, project_id: project }
    // A session ends by itself; sessionGrant replaces `isLive`.
    const grant = grantOf(key, () => true)
    return enter(request, reply, grant, browserSessions.openFor(grant))
  })
}
