/**
 * API keys of requests. Keys are stored and looked up as hashes, so that timing reveals nothing about a key. A key that
 * names a view or a project can reach only that one. roles.ts says what a role may do.
 */
import { createHash } from 'node:crypto'
import { InvalidInput, Terminal, type KeyRole } from '@bellwether/protocol'

export interface Grant {
  /** Identifies the key in logs and in the audit log. Never the secret itself. */
  readonly keyId: string
  readonly role: KeyRole
  readonly name?: string
  /** Changes when the key is rotated: browser sessions end with it. */
  readonly generation?: string
  /** The view that this key feeds, if any. */
  readonly view: string | undefined
  /** The only project that it can reach; undefined: see `reaches`. */
  readonly project?: string | undefined
  /** The only worker targets that it can claim from; undefined: all. */
  readonly targets?: readonly string[] | undefined
  /** Whether it can reach a view. */
  may(view: string): boolean
  /** Whether it can reach a project. */
  reaches(project: string): boolean
  /** Whether the key is still valid. Reads memory only, so that streams and long polls can ask before each hand-out. */
  isLive(): boolean
}

export interface Keys {
  grant(key: string): Grant | undefined | Promise<Grant | undefined>
}

/** What the server keeps of a key or token in memory. */
export const hashOf = (secret: string) => createHash('sha256').update(secret).digest('base64')
// A shorter key can be guessed; a longer one is a mistake.
const lengths = { min: 8, max: 512 } as const

/** Before the id of a person whom the identity provider confirmed. */
export const personPrefix = 'oidc:'
export const isPerson = ({ keyId }: Grant): boolean => keyId.startsWith(personPrefix)

/** Who made a request, for records that people read. */
export function callerName(grant: Grant): string {
  const name = grant.name ?? grant.keyId
  return (isPerson(grant) ? name : `key ${name}`).slice(0, 200)
}

/** One or more keys per view. */
export function viewKeys(pairs: Iterable<readonly [view: string, key: string]>): Keys {
  const grants = new Map<string, Grant>()
  for (const [view, key] of pairs) {
    if (key.length < lengths.min || key.length > lengths.max || !/^[\x21-\x7e]+$/.test(key)) {
      throw new InvalidInput(
        `The key of view "${view}" must be ${lengths.min} to ${lengths.max} visible ASCII characters`,
        { code: 'invalid_key' },
      )
    }
    const hashed = hashOf(key)
    const holder = grants.get(hashed)
    if (holder !== undefined && holder.view !== view) {
      throw new InvalidInput(`Views "${holder.view}" and "${view}" have the same key`, {
        code: 'invalid_key',
        hint: 'the key selects the view that a sensor feeds: use one key per view',
      })
    }
    grants.set(hashed, {
      keyId: `view:${view}`,
      role: 'sensor',
      view,
      may: (other) => other === view,
      reaches: () => false,
      isLive: () => true,
    })
  }
  return { grant: (key) => grants.get(hashOf(key)) }
}

type Headers = Readonly<Record<string, string | readonly string[] | undefined>>

/** The key of a request, if it has one. */
export function keyIn(headers: Headers): string | undefined {
  const bearer = /^Bearer +(\S+)$/i.exec(String(headers['authorization'] ?? ''))?.[1]
  const key = headers['x-api-key'] ?? bearer
  return typeof key === 'string' && key !== '' ? key : undefined
}

export async function authorize(keys: Keys, headers: Headers): Promise<Grant> {
  const key = keyIn(headers)
  const grant = key === undefined || key.length > lengths.max ? undefined : await keys.grant(key)
  if (grant !== undefined) return grant
  throw new Terminal(key === undefined ? 'This request needs a key' : 'The key is unknown or revoked', {
    code: 'unauthorized',
    hint: 'send a valid key as X-API-Key or Authorization: Bearer; commands take it from --key or BELLWETHER_KEY',
  })
}

/** For a request that waited: its key may have been revoked or rotated during the wait. */
export function mustBeLive(grant: Grant): void {
  if (grant.isLive()) return
  throw new Terminal('The key was revoked or rotated during the request', {
    code: 'unauthorized',
    hint: 'repeat the request with a valid key',
  })
}

export function mustReach(grant: Grant, view: string): void {
  if (grant.may(view)) return
  throw new Terminal('This key cannot reach the view', { code: 'forbidden' })
}

export function fedBy(grant: Grant): string {
  if (grant.view !== undefined) return grant.view
  throw new Terminal('This key feeds no view', { code: 'forbidden', hint: 'use a key with role sensor' })
}
