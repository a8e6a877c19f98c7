/**
 * Signs people in with a browser: a one-time link, valid for ten minutes, or the identity provider opens a session. A session needs two
 * secrets: a cookie, which the browser also sends to other ports of this host, and a page secret, which only pages of this origin have. A
 * link and its session are bound to the secret of an API key: they end when it is rotated or revoked. The session of a provider has the
 * permissions that the person had at the sign-in. All are stored as hashes in memory only, and bounded per key and person.
 */
import { defined, type Clock, type Random } from '@bellwether/base'
import { Retryable, Terminal } from '@bellwether/protocol'
import { hashOf, type Grant } from '../auth.js'

/** The secret of a key for which a link or a session was made. */
export interface KeyGeneration {
  readonly keyId: string
  /** Changes with each rotation. */
  readonly generation: string
}

/** Whose session it is. */
interface SessionOwner extends KeyGeneration {
  /** What a person may do whom the identity provider confirmed; `keyId` is then the person's id. */
  readonly person?: Grant
}

export interface OpenedSession {
  /** The value of the cookie. */
  readonly session: string
  /** For the page, which sends it with each request. */
  readonly secret: string
}

export interface BrowserSessions {
  /** Returns the token of a new link for this key. */
  createLink(key: KeyGeneration): string
  /** Opens a session; undefined if the link is unknown, used or expired. */
  open(token: string): OpenedSession | undefined
  /** Opens a session for a person whom the identity provider confirmed. */
  openFor(person: Grant): OpenedSession
  /** The owner of a session; undefined if the session has ended or the page secret is wrong. Counts as a use of the session. */
  ownerOf(session: string, secret: string): SessionOwner | undefined
  end(session: string): void
}

export const sessionCookie = 'bw_session'
/** Carries the page secret. */
export const sessionHeader = 'x-bellwether-session'
/** Only the dashboard's own pages send it. */
const pageHeader = 'x-requested-with'
export const linkMs = 600_000
/** A working day. */
export const sessionMs = 43_200_000
// An open page uses its session at least every 15 s.
const idleMs = 3_600_000
// Sessions are for people, not programs. The oldest is dropped first, and a key can drop only its own.
const entriesMax = { links: 20, sessions: 50 } as const
// Far more than the people who work with one server; about 10 MB.
const peopleMax = 20_000

interface Entry extends SessionOwner {
  readonly endsMs: number
  readonly secretHash?: string
  usedMs: number
}

export function openBrowserSessions({
  clock,
  random,
}: {
  readonly clock: Clock
  readonly random: Random
}): BrowserSessions {
  const links = new Map<string, Entry>()
  const sessions = new Map<string, Entry>()
  const newText = () => Buffer.from(random.bytes(32)).toString('base64url')
  const isOver = ({ endsMs, usedMs }: Entry, nowMs: number) => nowMs >= endsMs || nowMs >= usedMs + idleMs

  function add(all: Map<string, Entry>, owner: SessionOwner, forMs: number, max: number, secretHash?: string): string {
    const text = newText()
    const nowMs = clock.monotonicMs()
    const { keyId, generation, person } = owner
    for (const [name, entry] of all) if (isOver(entry, nowMs)) all.delete(name)
    const own = [...all].filter(([, entry]) => entry.keyId === keyId)
    for (const [name] of own.slice(0, Math.max(0, own.length - max + 1))) all.delete(name)
    all.set(hashOf(text), {
      keyId,
      generation,
      endsMs: nowMs + forMs,
      usedMs: nowMs,
      ...defined({ secretHash, person }),
    })
    return text
  }

  function find(all: Map<string, Entry>, text: string): Entry | undefined {
    const name = hashOf(text)
    const entry = all.get(name)
    if (entry === undefined || !isOver(entry, clock.monotonicMs())) return entry
    all.delete(name)
    return undefined
  }

  function openSession(owner: SessionOwner): OpenedSession {
    const secret = newText()
    return { session: add(sessions, owner, sessionMs, entriesMax.sessions, hashOf(secret)), secret }
  }

  return {
    createLink: (key) => add(links, key, linkMs, entriesMax.links),
    open(token) {
      const link = find(links, token)
      links.delete(hashOf(token))
      return link === undefined ? undefined : openSession(link)
    },
    openFor(person) {
      if (sessions.size >= peopleMax)
        throw new Retryable('Too many people are signed in', { code: 'busy', afterMs: 60_000 })
      return openSession({ keyId: person.keyId, generation: '', person })
    },
    ownerOf(session, secret) {
      const entry = find(sessions, session)
      // Hashes are compared, so that timing reveals nothing about a secret.
      if (entry === undefined || entry.secretHash !== hashOf(secret)) return undefined
      entry.usedMs = clock.monotonicMs()
      return entry
    },
    end: (session) => void sessions.delete(hashOf(session)),
  }
}

type Headers = Readonly<Record<string, string | readonly string[] | undefined>>

export function sessionIn(headers: Headers): string | undefined {
  const cookies = typeof headers['cookie'] === 'string' ? headers['cookie'] : ''
  return new RegExp(`(?:^|; *)${sessionCookie}=([\\w-]{20,100})(?:;|$)`).exec(cookies)?.[1]
}

export function cookieOf(session: string, maxAgeMs: number, isSecure: boolean): string {
  const secure = isSecure ? '; Secure' : ''
  return `${sessionCookie}=${session}; HttpOnly; SameSite=Strict; Path=/; Max-Age=${Math.floor(maxAgeMs / 1_000)}${secure}`
}

/** The grant of a browser's session, or undefined. Throws if another site may have caused the request. */
export function sessionGrant(
  sessions: BrowserSessions,
  grantOfKey: (keyId: string) => Grant | undefined,
  method: string,
  headers: Headers,
): Grant | undefined {
  const session = sessionIn(headers)
  const secret = headers[sessionHeader]
  if (session === undefined || typeof secret !== 'string') return undefined
  const current = () => {
    const owner = sessions.ownerOf(session, secret)
    if (owner === undefined || owner.person !== undefined) return owner?.person
    const found = grantOfKey(owner.keyId)
    return found?.generation === owner.generation ? found : undefined
  }
  const grant = current()
  if (grant === undefined) return undefined
  const isRead = method === 'GET' || method === 'HEAD'
  if (isRead || (headers[pageHeader] !== undefined && isOwnPage(headers)))
    return { ...grant, isLive: () => current() !== undefined }
  throw new Terminal('A browser session can write only from the dashboard’s own pages', {
    code: 'forbidden',
    hint: `send the header ${pageHeader}, or use a key`,
  })
}

/** Sec-Fetch-Site comes first, because a proxy may change Host; older browsers send Origin with writes. */
export function isOwnPage(headers: Headers): boolean {
  const { 'sec-fetch-site': site, origin, host } = headers
  if (site !== undefined) return site === 'same-origin' || site === 'none'
  return origin === undefined || (typeof origin === 'string' && URL.canParse(origin) && new URL(origin).host === host)
}
