/**
 * One-time links and the sessions that they open, for people with a browser. Always: a link is good once and for a short time; a session
 * is a key's shadow, looked up with the key each time, so that it ends when the key does; both are random, kept as hashes, in
 * memory only (after a restart one signs in again), and bounded. A cookie counts for reading; whoever writes with it must also
 * send a header that no form on another site can send.
 */
import { createHash } from 'node:crypto'
import type { Clock, Random } from '@bellwether/base'
import { Terminal } from '@bellwether/protocol'
import type { Grant } from './auth.js'

export interface Logins {
  /** The token of a new link for this key. */
  invite(keyId: string): string
  /** A new session's cookie value, or undefined: the link is used up, too old or none. */
  enter(token: string): string | undefined
  /** The key behind a session. */
  keyOf(session: string): string | undefined
  leave(session: string): void
}

export const sessionCookie = 'bw_session'
/** Sent by our own pages only. */
export const pageHeader = 'x-requested-with'
export const linkMs = 600_000
export const sessionMs = 43_200_000
// People, not programs; the oldest makes room.
const keptMax = 1_000

interface Kept {
  readonly keyId: string
  readonly untilMs: number
}

const hash = (text: string) => createHash('sha256').update(text).digest('base64')

export function openLogins({ clock, random }: { readonly clock: Clock; readonly random: Random }): Logins {
  const links = new Map<string, Kept>()
  const sessions = new Map<string, Kept>()

  function keep(all: Map<string, Kept>, keyId: string, forMs: number): string {
    const text = Buffer.from(random.bytes(32)).toString('base64url')
    all.set(hash(text), { keyId, untilMs: clock.monotonicMs() + forMs })
    if (all.size > keptMax) all.delete(all.keys().next().value!)
    return text
  }

  function find(all: Map<string, Kept>, text: string): Kept | undefined {
    const kept = all.get(hash(text))
    if (kept === undefined || kept.untilMs > clock.monotonicMs()) return kept
    all.delete(hash(text))
    return undefined
  }

  return {
    invite: (keyId) => keep(links, keyId, linkMs),
    enter(token) {
      const link = find(links, token)
      links.delete(hash(token))
      return link === undefined ? undefined : keep(sessions, link.keyId, sessionMs)
    },
    keyOf: (session) => find(sessions, session)?.keyId,
    leave: (session) => void sessions.delete(hash(session)),
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

/** The grant of a browser's session; undefined: there is none. Throws when another site may be speaking through it. */
export function sessionGrant(
  logins: Logins,
  grantOfKey: (keyId: string) => Grant | undefined,
  method: string,
  headers: Headers,
): Grant | undefined {
  const session = sessionIn(headers)
  const keyId = session === undefined ? undefined : logins.keyOf(session)
  const grant = keyId === undefined ? undefined : grantOfKey(keyId)
  if (grant === undefined || method === 'GET' || method === 'HEAD') return grant
  if (headers[pageHeader] !== undefined && isOwnPage(headers)) return grant
  throw new Terminal('a browser’s session writes only from our own pages', {
    code: 'forbidden',
    hint: `send the header ${pageHeader}, or a key`,
  })
}

/** A browser says where a request comes from; an old one says so at least for writes. A proxy may change Host, so the newer word counts first. */
function isOwnPage(headers: Headers): boolean {
  const { 'sec-fetch-site': site, origin, host } = headers
  if (site !== undefined) return site === 'same-origin' || site === 'none'
  return origin === undefined || (typeof origin === 'string' && URL.canParse(origin) && new URL(origin).host === host)
}
