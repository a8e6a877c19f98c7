/**
 * What each role may do: one table of routes, read from top to bottom; the first matching line decides. A route without a
 * line is for admins only. The key itself says which view or project it can reach.
 */
import { Terminal, type KeyRole } from '@bellwether/protocol'
import { mustReach, type Grant } from './auth.js'

interface Rule {
  /** The first segments of the route's path in the contract. */
  readonly under: string
  /** GET and HEAD. */
  readonly read: readonly KeyRole[]
  readonly write: readonly KeyRole[]
  /** Writes go into the audit log. Other writes are too frequent, and leave their trace in the database or the view. */
  readonly audited?: boolean
}

const everyRole: readonly KeyRole[] = ['operator', 'worker', 'sensor', 'reader']
const readers: readonly KeyRole[] = ['operator', 'reader']
const p = '/projects/:project'

/** Admins may do everything and are not listed. */
export const rules: readonly Rule[] = [
  { under: '/me', read: everyRole, write: [] },
  { under: '/logins', read: [], write: ['operator', 'reader'], audited: true },
  { under: '/keys', read: [], write: [], audited: true },
  { under: '/audit', read: [], write: [] },
  { under: '/workers', read: [], write: ['worker'] },
  { under: '/turns', read: [], write: ['worker'] },
  { under: `${p}/tool-calls`, read: readers, write: ['operator', 'worker'], audited: true },
  // A tool host reads the arguments of its call.
  { under: `${p}/cards`, read: [...readers, 'worker'], write: [] },
  { under: `${p}/boxes`, read: [...readers, 'worker'], write: ['operator'], audited: true },
  { under: `${p}/events`, read: [...readers, 'worker'], write: [] },
  { under: p, read: readers, write: ['operator'], audited: true },
  { under: '/projects', read: readers, write: [] },
  { under: '/watchdog', read: readers, write: [] },
  { under: '/board', read: readers, write: ['operator'], audited: true },
  { under: '/pipe', read: ['sensor'], write: ['sensor'] },
  { under: '/views/:view/sessions', read: [...readers, 'sensor'], write: ['operator', 'sensor'], audited: true },
  { under: '/views/:view/suspect-list', read: [...readers, 'sensor'], write: ['operator', 'sensor'], audited: true },
  { under: '/views', read: [...readers, 'sensor'], write: ['operator', 'sensor'] },
  { under: '/health', read: everyRole, write: [] },
]

const isRead = (method: string) => method === 'GET' || method === 'HEAD'

/** `route`: the path in the contract. */
export function ruleFor(route: string): Rule | undefined {
  return rules.find(({ under }) => route === under || route.startsWith(`${under}/`))
}

export function allows(role: KeyRole, method: string, route: string): boolean {
  if (role === 'admin') return true
  const rule = ruleFor(route)
  // A barrier changes nothing: its POST counts as reading.
  const read = isRead(method) || route === '/views/:view/sync'
  return rule !== undefined && (read ? rule.read : rule.write).includes(role)
}

export function isAudited(method: string, route: string): boolean {
  return !isRead(method) && ruleFor(route)?.audited === true
}

interface RequestTarget {
  readonly method: string
  readonly route: string
  readonly params: Readonly<Record<string, string>>
}

/** Throws unless the key may make this request. */
export function permit(grant: Grant, { method, route, params }: RequestTarget): void {
  if (!allows(grant.role, method, route)) {
    throw new Terminal(`A key with role ${grant.role} may not ${method} ${route}`, {
      code: 'forbidden',
      hint: 'use a key with another role; docs/security.md lists what each role may do',
    })
  }
  if (params['project'] !== undefined) mustReachProject(grant, params['project'])
  if (params['view'] !== undefined) mustReach(grant, params['view'])
}

export function mustReachProject(grant: Grant, project: string): void {
  if (grant.reaches(project)) return
  throw new Terminal('This key cannot reach the project', { code: 'forbidden' })
}

export function isUnlimited(grant: Grant): boolean {
  return grant.reaches(anyProject)
}

/** For routes that belong to no project or view: a limited key cannot reach them. */
export function mustBeUnlimited(grant: Grant): void {
  if (isUnlimited(grant)) return
  throw new Terminal('This key is limited to one project or view', {
    code: 'forbidden',
    hint: 'use a key without --project and --view',
  })
}

// Not a valid project name: a key that reaches it reaches every project.
const anyProject = '*'
