/** Liveness, readiness, metrics, and the health of supervised processes and units of views. */
import type { HealthState } from '@bellwether/protocol'
import type { Component, HealthSummary } from '@bellwether/protocol/http'
import { noWorkerText, type TargetWithoutWorkers } from '../../kernel/reads/gauges.js'
import type { Fusion } from '../../view/fusion.js'
import { httpReceiver } from '../../view/health.js'
import type { Api } from '../api.js'
import type { Grant } from '../auth.js'
import { isUnlimited } from '../roles.js'
import { viewMetrics } from '../view-metrics.js'

export interface HealthParts {
  readonly fusion?: Fusion | undefined
  /** The supervised processes; absent if nothing supervises this server. */
  readonly parts?: (() => readonly PartHealth[]) | undefined
  /** Absent: a server of views alone, which is ready when all its views are. */
  readonly readiness?:
    | (() => Promise<{
        readonly database: boolean
        readonly draining: boolean
        readonly receiver: boolean
        /** Targets whose turns wait for a worker. The server is ready even if there are some. */
        readonly targets_without_workers: string[]
      }>)
    | undefined
  readonly targets?: (() => Promise<readonly TargetWithoutWorkers[]>) | undefined
  /** The runtime's metrics in the Prometheus format. */
  readonly metrics?: (() => Promise<string>) | undefined
  /** Refuses a request for metrics by throwing. */
  readonly admitMetrics?:
    | ((headers: Readonly<Record<string, string | string[] | undefined>>) => Promise<void>)
    | undefined
}

/** A supervised process, as its supervisor knows it. */
type PartHealth = Pick<Component, 'since' | 'next_start_at'> & {
  readonly [Name in 'name' | 'status' | 'pid' | 'restarts' | 'last_end']: Exclude<Component[Name], undefined>
}

const partStates = {
  starting: ['ok', 'the process is starting'],
  ready: ['ok', null],
  waiting: ['degraded', 'the process ended and will be restarted'],
  quarantined: ['failed', 'the process fails repeatedly and is restarted at growing intervals'],
  stopped: ['degraded', 'the process was stopped'],
} as const satisfies Record<PartHealth['status'], readonly [HealthState, string | null]>

function partComponent(part: PartHealth) {
  const [state, because] = partStates[part.status]
  return {
    kind: 'part',
    name: part.name,
    state,
    own_state: state,
    because,
    restarts: part.restarts,
    error: state === 'ok' ? null : part.last_end,
    depends_on: [] as readonly string[],
    status: part.status,
    pid: part.pid,
    last_end: part.last_end,
    since: part.since ?? null,
    next_start_at: part.next_start_at ?? null,
  }
}

function targetComponent({ worker_target: name, turns }: TargetWithoutWorkers) {
  return {
    kind: 'target',
    name,
    state: 'failed' as const,
    own_state: 'failed' as const,
    because: null,
    restarts: 0,
    error: noWorkerText(name, turns),
    depends_on: [] as readonly string[],
  }
}

const noUnits: HealthSummary = { status: 'ok', units: 0, restarts: 0, changes: 0, troubled: {} }

export function healthRoutes(api: Api, options: HealthParts): void {
  const { fusion, parts, readiness, metrics } = options

  api('GET /healthz', () => ({ status: 'ok' }))

  api('GET /readyz', async (_request, reply) => {
    const server = await readiness?.()
    const views = Object.fromEntries(
      [...(fusion?.views.values() ?? [])].map((view) => [
        view.name,
        view.ready && fusion?.health.get(view.key)?.effective !== 'failed',
      ]),
    )
    // In a full server a view without a sensor is reported but does not prevent turns from running.
    const receiver = server?.receiver ?? fusion?.health.get(httpReceiver)?.state !== 'failed'
    const isReady = server === undefined ? Object.values(views).every(Boolean) : server.database && !server.draining
    if (isReady && receiver) return { status: 'ready', ...server, receiver, views }
    void reply.code(503)
    return { status: 'not_ready', ...server, receiver, views }
  })

  api('GET /metrics', async ({ headers }, reply) => {
    await options.admitMetrics?.(headers)
    const texts = [await metrics?.(), fusion && viewMetrics(fusion)]
    return reply.type('text/plain; version=0.0.4').send(texts.filter((text) => text !== undefined).join(''))
  })

  api('GET /health/components', async ({ grant }) => {
    const all = fusion?.health.all() ?? []
    const listed = all.filter((unit) => isReached(unit, grant) || unit.kind === 'view')
    const units = listed.map((unit) => {
      // A key that cannot reach the view sees only its state.
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
    // Processes belong to no project or view: a limited key does not see them.
    const processes = isUnlimited(grant)
      ? [...(parts?.() ?? []).map(partComponent), ...((await options.targets?.()) ?? []).map(targetComponent)]
      : []
    const summary = fusion?.health.summary() ?? noUnits
    return {
      summary: merged(listed.length === all.length ? summary : { ...summary, ...summaryOf(units) }, processes),
      components: [...units, ...processes],
    }
  })
}

/** Units are named after their view: `shared`, `shared/source`, `shared/session/unit`. */
const viewOf = (unit: string) => unit.split('/', 1)[0]!
const isReached = (unit: { readonly kind: string; readonly name: string }, grant: Grant) =>
  unit.kind === 'receiver' || grant.may(viewOf(unit.name))

interface Counted {
  readonly kind: string
  readonly name: string
  readonly state: HealthState
  readonly restarts: number
}

function summaryOf(some: readonly Counted[]): Omit<HealthSummary, 'changes'> {
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

function merged(units: HealthSummary, processes: readonly Counted[]): HealthSummary {
  const more = summaryOf(processes)
  return {
    ...units,
    status: worst([units.status, more.status]),
    units: units.units + more.units,
    restarts: units.restarts + more.restarts,
    troubled: { ...units.troubled, ...more.troubled },
  }
}
