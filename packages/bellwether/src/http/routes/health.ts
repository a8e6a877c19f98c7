/** Whether the process lives, whether its views can be read, what its parts say of themselves, and numbers for Prometheus. */
import type { FastifyInstance } from 'fastify'
import type { Fusion } from '../../view/fusion.js'
import { root } from '../../view/tree/tree.js'

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

export function componentRoutes(app: FastifyInstance, base: string, { fusion }: { readonly fusion: Fusion }): void {
  app.get(`${base}/health/components`, async () => ({
    summary: fusion.health.summary(),
    components: fusion.health.all().map((unit) => ({
      kind: unit.kind,
      name: unit.name,
      state: unit.effective,
      own_state: unit.state,
      because: unit.because ?? null,
      restarts: unit.restarts,
      error: unit.error ?? null,
      depends_on: unit.dependsOn,
    })),
  }))
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
      perSource(({ pipe }) => pipe.source.suspects.size),
    ),
    metric(
      'bellwether_view_tombstones',
      'gauge',
      'Remembered deletions',
      perSource(({ pipe }) => pipe.source.tombstones.size),
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
