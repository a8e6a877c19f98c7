/**
 * What each role may do: one table of routes, read from top to bottom, the first line that fits decides. Always: a route that no
 * line speaks of is for nobody but an admin. Which view or project a key reaches is not said here, but by the key itself.
 */
import { Terminal } from '@bellwether/protocol'
import type { KeyRole } from '../kernel/access/api-keys.js'
import type { Grant } from './auth.js'

interface Rule {
  /** The beginning of a route, as it was declared: whole segments. */
  readonly under: string
  /** GET and HEAD. */
  readonly read: readonly KeyRole[]
  readonly write: readonly KeyRole[]
  /** Writes that go into the audit log; the others come by the thousand and leave their trail in the database or the view. */
  readonly audited?: boolean
}

const everybody: readonly KeyRole[] = ['operator', 'worker', 'sensor', 'reader']
const looking: readonly KeyRole[] = ['operator', 'reader']
const p = '/projects/:project'

/** Admins may do everything, and are not named. */
export const rules: readonly Rule[] = [
  { under: '/me', read: everybody, write: [] },
  { under: '/logins', read: [], write: ['operator', 'reader'], audited: true },
  { under: '/keys', read: [], write: [], audited: true },
  { under: '/audit', read: [], write: [] },
  { under: '/workers', read: [], write: ['worker'] },
  { under: '/turns', read: [], write: ['worker'] },
  { under: `${p}/tool-calls`, read: looking, write: ['operator', 'worker'], audited: true },
  // A tool host reads the arguments of its call.
  { under: `${p}/cards`, read: [...looking, 'worker'], write: [] },
  { under: `${p}/boxes`, read: [...looking, 'worker'], write: ['operator'], audited: true },
  { under: `${p}/events`, read: [...looking, 'worker'], write: [] },
  { under: p, read: looking, write: ['operator'], audited: true },
  { under: '/projects', read: looking, write: [] },
  { under: '/watchdog', read: looking, write: [] },
  { under: '/board', read: looking, write: ['operator'], audited: true },
  { under: '/pipe', read: ['sensor'], write: ['sensor'] },
  { under: '/views/:view/sessions', read: [...looking, 'sensor'], write: ['operator', 'sensor'], audited: true },
  { under: '/views/:view/suspect-list', read: [...looking, 'sensor'], write: ['operator', 'sensor'], audited: true },
  { under: '/views', read: [...looking, 'sensor'], write: ['operator', 'sensor'] },
  { under: '/health', read: everybody, write: [] },
]

const isRead = (method: string) => method === 'GET' || method === 'HEAD'

/** `route`: as declared, without the API's base. */
export function ruleFor(route: string): Rule | undefined {
  return rules.find(({ under }) => route === under || route.startsWith(`${under}/`))
}

export function allows(role: KeyRole, method: string, route: string): boolean {
  if (role === 'admin') return true
  const rule = ruleFor(route)
  // A barrier changes nothing: asking for it by POST is reading.
  const read = isRead(method) || route === '/views/:view/sync'
  return rule !== undefined && (read ? rule.read : rule.write).includes(role)
}

export function isAudited(method: string, route: string): boolean {
  return !isRead(method) && ruleFor(route)?.audited === true
}

interface Asked {
  readonly method: string
  readonly route: string
  readonly params: Readonly<Record<string, string>>
}

/** Throws unless this key may ask this. */
export function permit(grant: Grant, { method, route, params }: Asked): void {
  if (!allows(grant.role, method, route)) {
    throw new Terminal(`a key of role ${grant.role} may not ${method} ${route}`, {
      code: 'forbidden',
      hint: 'use a key of another role; docs/security.md says what each may do',
    })
  }
  const { project } = params
  if (project !== undefined) mustReachProject(grant, project)
}

export function mustReachProject(grant: Grant, project: string): void {
  if (grant.reaches(project)) return
  throw new Terminal('this key does not reach that project', { code: 'forbidden' })
}

export function isUnlimited(grant: Grant): boolean {
  return grant.reaches(anyProject)
}

/** For what belongs to no project and no view: a key with a limit does not reach it. */
export function mustBeUnlimited(grant: Grant): void {
  if (isUnlimited(grant)) return
  throw new Terminal('this key is limited to one project or view', {
    code: 'forbidden',
    hint: 'use a key without --project and --view',
  })
}

// No project can have this name: whoever reaches it reaches everything.
const anyProject = '*'
