/** Maps URLs to pages. The project is part of the URL, so that a link works for everyone. */
import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  redirect,
} from '@tanstack/react-router'
import { listProjects, periods, type Period, type TaskFilter, type TurnFilter } from './api/queries.js'
import type { Me } from './api/types.js'
import { outcomes, taskStatuses, turnStatuses } from '@bellwether/protocol/vocabulary'
import { FleetPage } from './pages/fleet/fleet.js'
import { NotFound, PageFailed } from './pages/not-found.js'
import { Shell } from './frame/shell.js'
import { storage } from './ports/storage.js'

const text = (value: unknown) => (typeof value === 'string' && value !== '' ? value.slice(0, 4_096) : undefined)
const instant = (value: unknown) => (Number.isNaN(Date.parse(text(value) ?? '')) ? undefined : text(value))
const some = (found: Readonly<Record<string, string | undefined>>) =>
  Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined)) as Record<string, string>

const listFilter = (search: Readonly<Record<string, unknown>>) => ({
  last: (Object.keys(periods) as Period[]).find((period) => period === search['last']),
  ...some({
    agent: text(search['agent']),
    error: text(search['error']),
    cost: text(search['cost']),
    text: text(search['text']),
  }),
})

/** The first project to show: the key's only one, the last one shown, the first one listed, or `default`. */
async function firstProject(me: Me): Promise<string> {
  if (typeof me.project === 'string') return me.project
  const last = storage.get('browser', 'project')
  const listed = await listProjects().catch((): readonly string[] => [])
  return (listed.length === 0 || (last !== undefined && listed.includes(last)) ? last : listed[0]) ?? 'default'
}

const root = createRootRouteWithContext<{ me: Me }>()({
  component: Outlet,
  notFoundComponent: NotFound,
  errorComponent: PageFailed,
})

const start = createRoute({
  getParentRoute: () => root,
  path: '/',
  beforeLoad: async ({ context }) => {
    const project = await firstProject(context.me)
    redirect({ to: '/p/$project/fleet', params: { project }, replace: true, throw: true })
  },
})

const login = createRoute({
  getParentRoute: () => root,
  path: '/login',
  beforeLoad: () => {
    redirect({ to: '/', replace: true, throw: true })
  },
})

export const projectRoute = createRoute({ getParentRoute: () => root, path: '/p/$project', component: Shell })

interface FleetSearch {
  readonly show?: string | undefined
  readonly q?: string | undefined
  readonly target?: string | undefined
}

const fleet = createRoute({
  getParentRoute: () => projectRoute,
  path: '/fleet',
  validateSearch: (search): FleetSearch =>
    some({ show: text(search['show']), q: text(search['q']), target: text(search['target']) }),
  component: FleetPage,
})

const board = createRoute({
  getParentRoute: () => projectRoute,
  path: '/board',
  validateSearch: (search): TaskFilter & { readonly task?: string | undefined } => ({
    status: taskStatuses.find((status) => status === search['status']),
    outcome: outcomes.find((outcome) => outcome === search['outcome']),
    ...some({ task: text(search['task']) }),
    ...listFilter(search),
  }),
  component: lazyRouteComponent(() => import('./pages/board/board.js'), 'BoardPage'),
})

const turns = createRoute({
  getParentRoute: () => projectRoute,
  path: '/turns',
  validateSearch: ({ from, to, ...search }): TurnFilter => ({
    status: turnStatuses.find((status) => status === search['status']),
    ...some({ from: instant(from), to: instant(to) }),
    ...listFilter(search),
  }),
  component: lazyRouteComponent(() => import('./pages/turns/turns.js'), 'TurnsPage'),
})

const turn = createRoute({
  getParentRoute: () => projectRoute,
  path: '/turns/$turn',
  component: lazyRouteComponent(() => import('./pages/turns/turn.js'), 'TurnPage'),
})

interface TrendsSearch {
  readonly range?: string | undefined
  readonly agent?: string | undefined
}

const trends = createRoute({
  getParentRoute: () => projectRoute,
  path: '/trends',
  validateSearch: (search): TrendsSearch => some({ range: text(search['range']), agent: text(search['agent']) }),
  component: lazyRouteComponent(() => import('./pages/trends/trends.js'), 'TrendsPage'),
})

const needsYou = createRoute({
  getParentRoute: () => projectRoute,
  path: '/needs-you',
  validateSearch: (search): { question?: string | undefined; approval?: string | undefined } =>
    some({ question: text(search['question']), approval: text(search['approval']) }),
  component: lazyRouteComponent(() => import('./pages/needs-you/needs-you.js'), 'NeedsYouPage'),
})

const schedules = createRoute({
  getParentRoute: () => projectRoute,
  path: '/schedules',
  validateSearch: (search): { schedule?: string | undefined } => some({ schedule: text(search['schedule']) }),
  component: lazyRouteComponent(() => import('./pages/schedules/schedules.js'), 'SchedulesPage'),
})

const evals = createRoute({
  getParentRoute: () => projectRoute,
  path: '/evals',
  component: lazyRouteComponent(() => import('./pages/evals/evals.js'), 'EvalsPage'),
})

const shownCases = ['all', 'failed', 'differing'] as const

const evalRun = createRoute({
  getParentRoute: () => projectRoute,
  path: '/evals/$run',
  validateSearch: (search): { show?: (typeof shownCases)[number] | undefined; case?: string | undefined } => ({
    show: shownCases.find((one) => one === search['show']),
    ...some({ case: text(search['case']) }),
  }),
  component: lazyRouteComponent(() => import('./pages/evals/run.js'), 'EvalRunPage'),
})

interface WorkspaceSearch {
  readonly view?: string | undefined
  readonly source?: string | undefined
  readonly q?: string | undefined
}

const workspace = createRoute({
  getParentRoute: () => projectRoute,
  path: '/workspace',
  validateSearch: (search): WorkspaceSearch =>
    some({ view: text(search['view']), source: text(search['source']), q: text(search['q']) }),
  component: lazyRouteComponent(() => import('./pages/workspace/workspace.js'), 'WorkspacePage'),
})

const health = createRoute({
  getParentRoute: () => projectRoute,
  path: '/health',
  validateSearch: (search): { kind?: string | undefined } => some({ kind: text(search['kind']) }),
  component: lazyRouteComponent(() => import('./pages/health/health.js'), 'HealthPage'),
})

const pages = projectRoute.addChildren([
  fleet,
  board,
  turns,
  turn,
  trends,
  evals,
  evalRun,
  schedules,
  needsYou,
  workspace,
  health,
])

export const router = createRouter({
  routeTree: root.addChildren([start, login, pages]),
  // The application passes the real one before it shows a page.
  context: { me: undefined! },
  defaultNotFoundComponent: NotFound,
  defaultErrorComponent: PageFailed,
  // Search parameters are plain text; they are never parsed as JSON.
  parseSearch: (found) => Object.fromEntries(new URLSearchParams(found)),
  stringifySearch: (search) => {
    const present = Object.entries(search).filter((pair): pair is [string, string] => typeof pair[1] === 'string')
    return present.length === 0 ? '' : `?${new URLSearchParams(present)}`
  },
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
