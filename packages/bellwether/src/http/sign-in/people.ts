/**
 * Which people may sign in with the identity provider, and as what. Pure: settings and claims in, role and project out. A person whom
 * no entry names may do nothing.
 */
import { InvalidInput, isToken, type KeyRole } from '@bellwether/protocol'
import type { Claims } from '../../ports/identity/oidc.js'
import { personPrefix } from '../auth.js'

/** One entry of `oidc.admins`, `oidc.operators` or `oidc.readers`. */
export interface PersonRule {
  readonly role: KeyRole
  /** A group, or an e-mail address in lower case. */
  readonly who: string
  /** The only project that these people can reach. */
  readonly project?: string | undefined
}

export interface Person {
  /** Identifies the person in the audit log. */
  readonly id: string
  readonly name: string
}

/** Entries are separated by commas: a group, or an e-mail address, each with `=PROJECT` if it is limited to one. */
export function readRules(lists: Readonly<Partial<Record<KeyRole, string>>>): readonly PersonRule[] {
  return Object.entries(lists).flatMap(([role, list]) =>
    list
      .split(',')
      .map((entry) => entry.trim())
      .filter((entry) => entry !== '')
      .map((entry) => readRule(role as KeyRole, entry)),
  )
}

function readRule(role: KeyRole, entry: string): PersonRule {
  const [who = '', project, ...more] = entry.split('=').map((part) => part.trim())
  if (who === '' || more.length > 0 || (project !== undefined && !isToken(project)))
    throw new InvalidInput(`"oidc.${role}s" must have entries such as GROUP or GROUP=PROJECT (got "${entry}")`, {
      code: 'invalid_settings',
      hint: 'correct the entry; groups with a comma or an equals sign in their name cannot be used',
    })
  return { role, who: isAddress(who) ? who.toLowerCase() : who, project }
}

const isAddress = (who: string) => who.includes('@')

/** The first rule that names the person. Rules are in the order of the roles: admins, operators, readers. */
export function ruleFor(claims: Claims, rules: readonly PersonRule[], groupsClaim: string): PersonRule | undefined {
  const groups = groupsIn(claims[groupsClaim])
  const address = verifiedAddress(claims)
  return rules.find(({ who }) => (isAddress(who) ? who === address : groups.has(who)))
}

function groupsIn(claim: unknown): ReadonlySet<unknown> {
  return new Set<unknown>(Array.isArray(claim) ? claim : typeof claim === 'string' ? [claim] : [])
}

/** Anyone can enter the address of another person: it counts only if the provider has checked it. */
function verifiedAddress({ email, email_verified: isVerified }: Claims): string | undefined {
  // Only ASCII: other characters can become ASCII in lower case.
  if (isVerified !== true || typeof email !== 'string' || !/^[\x21-\x7e]{3,254}$/.test(email)) return undefined
  return email.toLowerCase()
}

const nameMax = 60

/** People choose their name themselves, so the text ends with what the provider guarantees. */
export function personOf(claims: Claims): Person | undefined {
  const { sub } = claims
  if (!/^[\x21-\x7e]{1,255}$/.test(sub)) return undefined
  const chosen = [claims['name'], claims['preferred_username']].find((name) => typeof name === 'string')
  const name = (chosen ?? '')
    .replaceAll(/[^\p{L}\p{M}\p{N} .'’-]/gu, '')
    .trim()
    .slice(0, nameMax)
    .toWellFormed()
  const sure = verifiedAddress(claims) ?? sub
  return { id: `${personPrefix}${sub}`, name: (name === '' ? sure : `${name} <${sure}>`).slice(0, 320) }
}
