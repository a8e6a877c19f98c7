/**
 * Who may ask: a key belongs to views. Always: keys are kept as hashes, looked up by hash (so that timing tells nothing of
 * a key), and a request without one is refused before its body is read. Roles beyond "this view" are left to whoever
 * composes the server, by handing in another `Keys`.
 */
import { createHash } from 'node:crypto'
import { InvalidInput, Terminal } from '@bellwether/protocol'

export interface Grant {
  /** The view whose pipe this key feeds; undefined for a key that feeds none. */
  readonly view: string | undefined
  may(view: string): boolean
}

export interface Keys {
  grant(key: string): Grant | undefined
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
    grants.set(hashed, { view, may: (asked) => asked === view })
  }
  return { grant: (key) => grants.get(hash(key)) }
}

type Headers = Readonly<Record<string, string | readonly string[] | undefined>>

export function authorize(keys: Keys, headers: Headers): Grant {
  const bearer = /^Bearer +(\S+)$/i.exec(String(headers['authorization'] ?? ''))?.[1]
  const told = headers['x-api-key'] ?? bearer
  const key = typeof told === 'string' ? told : undefined
  const grant = key === undefined || key.length > lengths.max ? undefined : keys.grant(key)
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
