/**
 * Who may ask. Always: keys are kept as hashes and looked up by hash, so that timing tells nothing of a key; a request without
 * one is refused before its body is read; a key that names a view or a project reaches only what it names. What a role may do is
 * in roles.ts, where keys come from is left to whoever composes the server.
 */
import { createHash } from 'node:crypto'
import { InvalidInput, Terminal } from '@bellwether/protocol'
import type { KeyRole } from '../kernel/access/api-keys.js'

export interface Grant {
  /** Who it is, in logs and in the audit log. Never the key itself. */
  readonly keyId: string
  readonly role: KeyRole
  readonly name?: string
  /** The view whose pipe this key feeds; undefined for a key that feeds none. */
  readonly view: string | undefined
  /** The only project that it reaches; undefined: see `reaches`. */
  readonly project?: string | undefined
  /** Whether it reaches a view. */
  may(view: string): boolean
  /** Whether it reaches a project. */
  reaches(project: string): boolean
}

export interface Keys {
  grant(key: string): Grant | undefined | Promise<Grant | undefined>
}

const hash = (key: string) => createHash('sha256').update(key).digest('base64')
// Shorter ones can be guessed; longer ones are a mistake.
const lengths = { min: 8, max: 512 } as const

/** One or more keys a view. */
export function viewKeys(pairs: Iterable<readonly [view: string, key: string]>): Keys {
  const grants = new Map<string, Grant>()
  for (const [view, key] of pairs) {
    if (key.length < lengths.min || key.length > lengths.max || !/^[\x21-\x7e]+$/.test(key)) {
      throw new InvalidInput(
        `the key of view ${view} must be ${lengths.min} to ${lengths.max} visible ASCII characters`,
        {
          code: 'invalid_key',
        },
      )
    }
    const hashed = hash(key)
    const taken = grants.get(hashed)
    if (taken !== undefined && taken.view !== view) {
      throw new InvalidInput(`views ${taken.view} and ${view} have the same key`, {
        code: 'invalid_key',
        hint: 'the key says which view a sensor feeds: give each view its own',
      })
    }
    grants.set(hashed, {
      keyId: `view:${view}`,
      role: 'sensor',
      view,
      may: (asked) => asked === view,
      reaches: () => false,
    })
  }
  return { grant: (key) => grants.get(hash(key)) }
}

type Headers = Readonly<Record<string, string | readonly string[] | undefined>>

/** The key that a request brings; undefined: none, or nothing that could be one. */
export function keyIn(headers: Headers): string | undefined {
  const bearer = /^Bearer +(\S+)$/i.exec(String(headers['authorization'] ?? ''))?.[1]
  const told = headers['x-api-key'] ?? bearer
  return typeof told === 'string' && told !== '' ? told : undefined
}

export async function authorize(keys: Keys, headers: Headers): Promise<Grant> {
  const key = keyIn(headers)
  const grant = key === undefined || key.length > lengths.max ? undefined : await keys.grant(key)
  if (grant !== undefined) return grant
  throw new Terminal(key === undefined ? 'this needs a key' : 'this key is not known here', {
    code: 'unauthorized',
    hint: 'send it as X-API-Key, or as Authorization: Bearer …',
  })
}

export function mustReach(grant: Grant, view: string): void {
  if (grant.may(view)) return
  throw new Terminal('this key belongs to another view', { code: 'forbidden' })
}

export function fedBy(grant: Grant): string {
  if (grant.view !== undefined) return grant.view
  throw new Terminal('this key feeds no view', { code: 'forbidden', hint: 'use the key of a sensor' })
}
