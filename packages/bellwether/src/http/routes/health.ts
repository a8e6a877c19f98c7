/** Whether the process lives, whether its views can be read, what its parts say of themselves, and numbers for Prometheus. */
import type { HealthState } from '@bellwether/protocol'
import type { FastifyInstance } from 'fastify'
import type { Fusion } from '../../view/fusion.js'
import type { HealthSummary } from '../../view/health.js'
import { root } from '../../view/tree/tree.js'
import type { Grant } from '../auth.js'
import { isUnlimited } from '../roles.js'

export function healthRoutes(app: FastifyInstance, base: string, { fusion }: { readonly fusion: Fusion }): void {
  app.get('/healthz', async () => ({ status: 'ok' }))

  app.get('/readyz', async (_request, reply) => {
    const views = Object.fromEntries([...fusion.views.values()].map((view) => [view.name, view.ready]))
    const ready = Object.values(views).every(Boolean)
    return reply.code(ready ? 200 : 503).send({ status: ready ? 'ready' : 'not_ready', views })
  })

  componentRoutes(app, base, { fusion })

  app.get('/metrics', async (_request, reply) => reply.type('text/plain; version=0.0.4').send(viewMetrics(fusion)))
}

export interface ComponentParts {
  readonly fusion?: Fusion | undefined
  /** The processes of this house that somebody supervises; absent: nobody does. */
  readonly parts?: (() => readonly PartFact[]) | undefined
}

/** One supervised process, as its supervisor knows it. */
export interface PartFact {
  readonly name: string
  readonly status: 'starting' | 'ready' | 'waiting' | 'quarantined' | 'stopped'
  readonly pid: number | null
  readonly restarts: number
  /** What it died of, the last time. */
  readonly lastEnd: string | null
  /** When it came to this status, and when it is started again: ISO. */
  readonly since?: string | null
  readonly nextStartAt?: string | null
}

const stateOfPart = {
  starting: ['ok', 'it is starting'],
  ready: ['ok', null],
  waiting: ['degraded', 'it ended and is started again'],
  quarantined: ['failed', 'it fails again and again: in quarantine, and tried ever more rarely'],
  stopped: ['degraded', 'it was stopped'],
} as const satisfies Record<PartFact['status'], readonly [HealthState, string | null]>

function partComponent(part: PartFact) {
  const [state, because] = stateOfPart[part.status]
  return {
    kind: 'part',
    name: part.name,
    state,
    own_state: state,
    because,
    restarts: part.restarts,
    error: state === 'ok' ? null : part.lastEnd,
    depends_on: [] as readonly string[],
    status: part.status,
    pid: part.pid,
    last_end: part.lastEnd,
    since: part.since ?? null,
    next_start_at: part.nextStartAt ?? null,
  }
}

const noUnits: HealthSummary = { status: 'ok', units: 0, restarts: 0, changes: 0, troubled: {} }

export function componentRoutes(app: FastifyInstance, base: string, { fusion, parts }: ComponentParts): void {
  app.get(`${base}/health/components`, async ({ grant }) => {
    const all = fusion?.health.all() ?? []
    const told = all.filter((unit) => isReached(unit, grant) || unit.kind === 'view')
    const units = told.map((unit) => {
      // Of a view that the key does not reach it is told whether it is well, and no more.
      const reached = isReached(unit, grant)
      return {
        kind: unit.kind,
        name: unit.name,
        state: unit.effective,
        own_state: unit.state,
        because: reached ? (unit.because ?? null) : null,
        restarts: unit.restarts,
        error: reached ? (unit.error ?? null) : null,
        depends_on: reached ? unit.dependsOn : [],
      }
    })
    // Processes belong to no project and no view: a key with a limit does not see them.
    const processes = isUnlimited(grant) ? (parts?.() ?? []).map(partComponent) : []
    const summary = fusion?.health.summary() ?? noUnits
    return {
      summary: together(told.length === all.length ? summary : { ...summary, ...summaryOf(units) }, processes),
      components: [...units, ...processes],
    }
  })
}

/** Units are named after their view: `shared`, `shared/source`, `shared/session/unit`. */
const viewOf = (unit: string) => unit.split('/', 1)[0]!
const isReached = (unit: { readonly kind: string; readonly name: string }, grant: Grant) =>
  unit.kind === 'receiver' || grant.may(viewOf(unit.name))

interface Judged {
  readonly kind: string
  readonly name: string
  readonly state: HealthState
  readonly restarts: number
}

function summaryOf(some: readonly Judged[]): Omit<HealthSummary, 'changes'> {
  return {
    status: worst(some.map(({ state }) => state)),
    units: some.length,
    restarts: some.reduce((sum, { restarts }) => sum + restarts, 0),
    troubled: Object.fromEntries(
      some.filter(({ state }) => state !== 'ok').map(({ kind, name, state }) => [`${kind}:${name}`, state]),
    ),
  }
}

const worst = (states: readonly HealthState[]): HealthState =>
  states.includes('failed') ? 'failed' : states.includes('degraded') ? 'degraded' : 'ok'

function together(units: HealthSummary, parts: readonly Judged[]): HealthSummary {
  const more = summaryOf(parts)
  return {
    ...units,
    status: worst([units.status, more.status]),
    units: units.units + more.units,
    restarts: units.restarts + more.restarts,
    troubled: { ...units.troubled, ...more.troubled },
  }
}

interface Sample {
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

export function viewMetrics(fusion: Fusion): string {
  const sources = [...fusion.views.values()].flatMap((view) =>
    [...view.sources.values()].map((source) => ({ labels: { view: view.name, source: source.id }, source })),
  )
  const perSource = (value: (source: (typeof sources)[number]['source']) => number): Sample[] =>
    sources.map(({ labels, source }) => ({ labels, value: value(source) }))
  const views = [...fusion.views.values()]
  return [
    metric(
      'bellwether_view_sessions',
      'gauge',
      'Sessions of a view',
      views.map((view) => ({ labels: { view: view.name }, value: view.sessions.size })),
    ),
    metric(
      'bellwether_view_entries',
      'gauge',
      'Entries of a source',
      perSource(({ tree }) => tree.count),
    ),
    metric(
      'bellwether_view_bytes',
      'gauge',
      'Sum of the sizes of its files',
      perSource(({ tree }) => tree.stats(root).size),
    ),
    metric(
      'bellwether_view_suspects',
      'gauge',
      'Files that may not be whole',
      perSource(({ pipe }) => pipe.state.suspects.size),
    ),
    metric(
      'bellwether_view_tombstones',
      'gauge',
      'Remembered deletions',
      perSource(({ pipe }) => pipe.state.tombstones.size),
    ),
    metric(
      'bellwether_view_rows_applied_total',
      'counter',
      'Rows that changed the view',
      perSource(({ pipe }) => pipe.rowsApplied),
    ),
    metric(
      'bellwether_view_rows_rejected_total',
      'counter',
      'Malformed rows',
      perSource(({ pipe }) => pipe.rowsRejected),
    ),
    metric(
      'bellwether_view_audits_total',
      'counter',
      'Audits that ended',
      perSource(({ pipe }) => pipe.auditCycles),
    ),
    metric('bellwether_health_changes_total', 'counter', 'Changes of health units', [
      { labels: {}, value: fusion.health.changes },
    ]),
    metric('bellwether_health_restarts_total', 'counter', 'Restarts of health units', [
      { labels: {}, value: fusion.health.summary().restarts },
    ]),
  ].join('')
}

function metric(name: string, type: string, help: string, samples: readonly Sample[]): string {
  const lines = samples.map(({ labels, value }) => {
    const told = Object.entries(labels).map(([key, text]) => `${key}=${JSON.stringify(text)}`)
    return `${name}${told.length === 0 ? '' : `{${told.join(',')}}`} ${value}\n`
  })
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join('')}`
}
