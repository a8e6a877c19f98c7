/** Sign-in with a browser: a one-time link, and the end of a session. */
import type { Api } from '../api.js'
import { cookieOf, linkMs, sessionIn, sessionMs, type BrowserSessions } from '../browser-sessions.js'
import type { KeyStore } from '../key-store.js'

export const loginPath = '/login'

export interface BrowserSessionParts {
  readonly browserSessions: BrowserSessions
  readonly keys: Pick<KeyStore, 'byId'>
}

export function browserSessionRoutes(api: Api, { browserSessions, keys }: BrowserSessionParts): void {
  api('POST /logins', ({ grant }) => ({
    path: `${loginPath}?token=${browserSessions.createLink(grant.keyId)}`,
    expires_in_seconds: linkMs / 1_000,
  }))

  api('DELETE /logins', ({ headers }, reply) => {
    const session = sessionIn(headers)
    if (session !== undefined) browserSessions.end(session)
    void reply.header('set-cookie', cookieOf('', 0))
    return { status: 'signed_out' }
  })

  // A used or expired link also leads to the dashboard, which then asks for a key.
  api('GET /login', (request, reply) => {
    const { token } = request.query
    const session = token === undefined ? undefined : browserSessions.open(token)
    if (session !== undefined) {
      void reply.header('set-cookie', cookieOf(session, sessionMs))
      const grant = keys.byId(browserSessions.keyOf(session) ?? '')
      // For the audit log.
      if (grant !== undefined) request.grant = grant
    }
    return reply.header('location', '/').send()
  })
}
