/**
 * What each role may do: one table of routes, read from top to bottom; the first matching line decides. A route without a
 * line is for admins only. The key itself says which view or project it can reach.
 */
import { Terminal, type KeyRole } from '@bellwether/protocol'
import { mustReach, type Grant } from './auth.js'

export interface Rule {
  /** The first segments of the route's path in the contract. */
  readonly under: string
  /** GET and HEAD. */
  readonly read: readonly KeyRole[]
  readonly write: readonly KeyRole[]
  /** Writes go into the audit log. Other writes are too frequent, and leave their trace in the database or the view. */
  readonly audited?: boolean
  /** Of writes that are not audited: the refused ones go into the audit log, a bounded number per key. */
  readonly refusalsAudited?: boolean
}

const everyRole: readonly KeyRole[] = ['operator', 'worker', 'sensor', 'reader', 'answerer']
const readers: readonly KeyRole[] = ['operator', 'reader']
const p = '/projects/:project'

/** Admins may do everything and are not listed. */
export const rules: readonly Rule[] = [
  { under: '/me', read: everyRole, write: [] },
  { under: '/logins', read: [], write: ['operator', 'reader'], audited: true },
  { under: '/keys', read: [], write: [], audited: true },
  { under: '/audit', read: [], write: [] },
  { under: '/workers', read: [], write: ['worker'], refusalsAudited: true },
  { under: '/turns', read: [], write: ['worker'], refusalsAudited: true },
  { under: `${p}/tool-calls/:call/start`, read: [], write: ['operator', 'worker'], audited: true },
  // A worker answers tools, a person questions: routes/tool-calls.ts.
  { under: `${p}/tool-calls`, read: readers, write: ['operator', 'worker', 'answerer'], audited: true },
  { under: `${p}/questions`, read: [...readers, 'answerer'], write: [] },
  // No worker decides about a call: routes/approvals.ts.
  { under: `${p}/approvals`, read: [...readers, 'answerer'], write: ['operator', 'answerer'], audited: true },
  { under: `${p}/grants`, read: [...readers, 'answerer'], write: ['operator', 'answerer'], audited: true },
  { under: `${p}/targets`, read: [], write: [], audited: true },
  // A tool host reads the arguments of its call.
  { under: `${p}/cards`, read: [...readers, 'worker'], write: [] },
  { under: `${p}/boxes`, read: [...readers, 'worker'], write: ['operator'], audited: true },
  { under: `${p}/events`, read: [...readers, 'worker'], write: [] },
  { under: p, read: readers, write: ['operator'], audited: true },
  { under: '/projects', read: readers, write: [] },
  { under: '/watchdog', read: readers, write: [] },
  { under: '/quotas', read: readers, write: ['operator'], audited: true },
  { under: '/board', read: readers, write: ['operator'], audited: true },
  { under: '/pipe', read: ['sensor'], write: ['sensor'] },
  { under: '/views/:view/sessions', read: [...readers, 'sensor'], write: ['operator', 'sensor'], audited: true },
  { under: '/views/:view/suspect-list', read: [...readers, 'sensor'], write: ['operator', 'sensor'], audited: true },
  { under: '/views', read: [...readers, 'sensor'], write: ['operator', 'sensor'] },
  { under: '/health', read: everyRole, write: [] },
]

/** The worst that someone with a key of this role can do, for docs/security.md. */
export const worstCases: Readonly<Record<KeyRole, string>> = {
  admin:
    'Everything in the API: create and revoke keys, read all projects, stop all work, feed the only view. Not: choose a command that runs on the server, unless `server.admin_commands` is true, or read a file of the server.',
  operator:
    'Make every agent of its projects do anything that agent and its tools can do (without a sandbox, a coding agent can do what its account can), with every worker target that the project may use; stop turns, answer questions, allow calls that wait for approval, finish or change tasks, end sessions of sensors, read all cards. Not: choose a command, a path or an environment variable, or create keys.',
  worker:
    'Claim every turn of its targets and projects, read its cards, and end it with any result; call every tool; report every tool call; spend the budgets of the turns; start turns of all agents of a project as children of a turn that it claimed there, also on other targets; read the cards and events of its projects. Limited to targets without a project, it has only the turns that it claims and their children. Not: work on a turn that another worker has claimed, answer questions to people, decide about approvals, start other turns, change agents or tasks, read the board.',
  sensor:
    'Lie about the files of its view: tasks whose evidence comes from it can then be accepted or rejected wrongly. Not: read cards, turns or tasks, or reach another view.',
  reader:
    'Read all cards, turns, tasks, questions and file names of its projects and views, which may contain secrets that agents printed. Not: change anything.',
  answerer:
    'Answer every question to people in its projects as it likes, allow or deny every call that waits for approval, and so decide what agents do next. Not: read anything but questions, approvals and grants, answer tool calls, start or stop turns.',
}

const isRead = (method: string) => method === 'GET' || method === 'HEAD'

/** `route`: the path in the contract. */
function ruleFor(route: string): Rule | undefined {
  return rules.find(({ under }) => route === under || route.startsWith(`${under}/`))
}

export function allows(role: KeyRole, method: string, route: string): boolean {
  if (role === 'admin') return true
  const rule = ruleFor(route)
  // A barrier changes nothing: its POST counts as reading.
  const read = isRead(method) || route === '/views/:view/sync'
  return rule !== undefined && (read ? rule.read : rule.write).includes(role)
}

/** Requests of a program that does not hold what it names: 403 and 404. */
export function isAuditedForgery(method: string, route: string, status: number): boolean {
  return (status === 403 || status === 404) && !isRead(method) && ruleFor(route)?.refusalsAudited === true
}

export function isAudited(method: string, route: string): boolean {
  return !isRead(method) && ruleFor(route)?.audited === true
}

/** What many processes of one fleet do with one key: a worker with its turns and tools, a sensor with its view. */
export function isFleetRequest({ role }: Pick<Grant, 'role'>, route: string): boolean {
  if (role === 'worker') return true
  return role === 'sensor' && route.startsWith('/pipe')
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
  if (params['project'] !== undefined) {
    mustReachProject(grant, params['project'])
    // Without a project it may only claim, and work on what it claimed.
    if (grant.targets !== undefined && grant.project === undefined) throw limitedToTargets()
  }
  if (params['view'] !== undefined) mustReach(grant, params['view'])
}

const limitedToTargets = () =>
  new Terminal('This key is limited to worker targets', {
    code: 'forbidden',
    hint: 'it may claim from its targets; to read in a project, create it with --project too',
  })

export function mustReachTarget({ targets }: Grant, target: string): void {
  if (targets === undefined || targets.includes(target)) return
  throw limitedToTargets()
}

export function mustReachProject(grant: Grant, project: string): void {
  if (grant.reaches(project)) return
  throw new Terminal('This key cannot reach the project', { code: 'forbidden' })
}

/** A key of a view reaches no project. */
export function mustReachAnyProject(grant: Grant): void {
  if (grant.project !== undefined || grant.reaches(anyProject)) return
  throw new Terminal('This key is limited to a view', { code: 'forbidden', hint: 'use a key without --view' })
}

export function isUnlimited(grant: Grant): boolean {
  return grant.targets === undefined && grant.reaches(anyProject)
}

/** For routes that belong to no project or view: a limited key cannot reach them. */
export function mustBeUnlimited(grant: Grant): void {
  if (isUnlimited(grant)) return
  throw new Terminal('This key is limited to one project or view, or to worker targets', {
    code: 'forbidden',
    hint: 'use a key without --project, --view and --target',
  })
}

// Not a valid project name: a key that reaches it reaches every project.
const anyProject = '*'
