/** Signing in with a browser: a one-time link, and the end of a session. */
import type { Api } from '../api.js'
import type { KeyStore } from '../key-store.js'
import { cookieOf, linkMs, sessionIn, sessionMs, type Logins } from '../browser-sessions.js'

export const loginPath = '/login'

export interface LoginParts {
  readonly logins: Logins
  readonly keys: Pick<KeyStore, 'byId'>
}

/** Under the API: who has a key can make a link that opens a session of the same key. */
export function loginRoutes(app: Api, logins: Logins): void {
  app.post('/logins', { schema: { summary: 'A one-time link that signs a browser in' } }, async ({ grant }, reply) =>
    reply
      .code(201)
      .send({ path: `${loginPath}?token=${logins.invite(grant.keyId)}`, expires_in_seconds: linkMs / 1_000 }),
  )

  app.delete('/logins', { schema: { summary: 'Sign this browser out' } }, async ({ headers }, reply) => {
    const session = sessionIn(headers)
    if (session !== undefined) logins.leave(session)
    return reply.header('set-cookie', cookieOf('', 0)).send({ status: 'signed_out' })
  })
}

/** Outside the API, where people go. A link that is no longer good leads to the page all the same: it says what is missing. */
export function loginPage(app: Api, { logins, keys }: LoginParts): void {
  app.get(loginPath, { schema: { hide: true } }, async (request, reply) => {
    const { token } = request.query as Record<string, string>
    const session = token === undefined ? undefined : logins.enter(token)
    if (session !== undefined) {
      void reply.header('set-cookie', cookieOf(session, sessionMs))
      const grant = keys.byId(logins.keyOf(session) ?? '')
      // For the audit log: somebody signed in with this key.
      if (grant !== undefined) request.grant = grant
    }
    return reply.code(303).header('location', '/').send()
  })
}
