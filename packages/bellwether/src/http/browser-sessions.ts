/**
 * Signs people in with a browser: a one-time link, valid for ten minutes, opens a session that is bound to an API key and ends with it.
 * Links and sessions are random, stored as hashes in memory only, and bounded. A cookie alone allows reading; a write also needs a header
 * that a form on another site cannot send.
 */
import { createHash } from 'node:crypto'
import type { Clock, Random } from '@bellwether/base'
import { Terminal } from '@bellwether/protocol'
import type { Grant } from './auth.js'

export interface BrowserSessions {
  /** Returns the token of a new link for this key. */
  createLink(keyId: string): string
  /** Returns the cookie value of a new session; undefined if the link is unknown, used or expired. */
  open(token: string): string | undefined
  /** The key of a session. */
  keyOf(session: string): string | undefined
  end(session: string): void
}

export const sessionCookie = 'bw_session'
/** Only the dashboard's own pages send it. */
export const pageHeader = 'x-requested-with'
export const linkMs = 600_000
export const sessionMs = 43_200_000
// Sessions are for people, not programs. The oldest is dropped first.
const entriesMax = 1_000

interface Entry {
  readonly keyId: string
  readonly untilMs: number
}

const hash = (text: string) => createHash('sha256').update(text).digest('base64')

export function openBrowserSessions({
  clock,
  random,
}: {
  readonly clock: Clock
  readonly random: Random
}): BrowserSessions {
  const links = new Map<string, Entry>()
  const sessions = new Map<string, Entry>()

  function add(all: Map<string, Entry>, keyId: string, forMs: number): string {
    const text = Buffer.from(random.bytes(32)).toString('base64url')
    all.set(hash(text), { keyId, untilMs: clock.monotonicMs() + forMs })
    if (all.size > entriesMax) all.delete(all.keys().next().value!)
    return text
  }

  function find(all: Map<string, Entry>, text: string): Entry | undefined {
    const entry = all.get(hash(text))
    if (entry === undefined || entry.untilMs > clock.monotonicMs()) return entry
    all.delete(hash(text))
    return undefined
  }

  return {
    createLink: (keyId) => add(links, keyId, linkMs),
    open(token) {
      const link = find(links, token)
      links.delete(hash(token))
      return link === undefined ? undefined : add(sessions, link.keyId, sessionMs)
    },
    keyOf: (session) => find(sessions, session)?.keyId,
    end: (session) => void sessions.delete(hash(session)),
  }
}

type Headers = Readonly<Record<string, string | readonly string[] | undefined>>

export function sessionIn(headers: Headers): string | undefined {
  const cookies = typeof headers['cookie'] === 'string' ? headers['cookie'] : ''
  return new RegExp(`(?:^|; *)${sessionCookie}=([\\w-]{20,100})(?:;|$)`).exec(cookies)?.[1]
}

export function cookieOf(session: string, maxAgeMs: number): string {
  return `${sessionCookie}=${session}; HttpOnly; SameSite=Strict; Path=/; Max-Age=${Math.floor(maxAgeMs / 1_000)}`
}

/** The grant of a browser's session, or undefined. Throws if another site may have caused the request. */
export function sessionGrant(
  sessions: BrowserSessions,
  grantOfKey: (keyId: string) => Grant | undefined,
  method: string,
  headers: Headers,
): Grant | undefined {
  const session = sessionIn(headers)
  const keyId = session === undefined ? undefined : sessions.keyOf(session)
  const grant = keyId === undefined ? undefined : grantOfKey(keyId)
  if (grant === undefined || method === 'GET' || method === 'HEAD') return grant
  if (headers[pageHeader] !== undefined && isOwnPage(headers)) return grant
  throw new Terminal('A browser session can write only from the dashboard’s own pages', {
    code: 'forbidden',
    hint: `send the header ${pageHeader}, or use a key`,
  })
}

/** Sec-Fetch-Site comes first, because a proxy may change Host; older browsers send Origin with writes. */
function isOwnPage(headers: Headers): boolean {
  const { 'sec-fetch-site': site, origin, host } = headers
  if (site !== undefined) return site === 'same-origin' || site === 'none'
  return origin === undefined || (typeof origin === 'string' && URL.canParse(origin) && new URL(origin).host === host)
}
