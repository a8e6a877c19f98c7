/** Metrics of the views in the Prometheus text format. */
import type { Fusion } from '../view/fusion.js'
import { root } from '../view/tree/tree.js'
import type { ViewSource } from '../view/view.js'

interface Sample {
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

const perSource: readonly (readonly [
  name: string,
  type: 'gauge' | 'counter',
  help: string,
  value: (source: ViewSource) => number,
])[] = [
  ['entries', 'gauge', 'Entries per source', ({ tree }) => tree.count],
  ['bytes', 'gauge', 'Total size of the files per source', ({ tree }) => tree.stats(root).size],
  ['suspects', 'gauge', 'Files that may be incomplete', ({ pipe }) => pipe.state.suspects.size],
  ['tombstones', 'gauge', 'Remembered deletions', ({ pipe }) => pipe.state.tombstones.size],
  ['rows_applied_total', 'counter', 'Rows that changed the view', ({ pipe }) => pipe.rowsApplied],
  ['rows_rejected_total', 'counter', 'Malformed rows', ({ pipe }) => pipe.rowsRejected],
  ['audits_total', 'counter', 'Finished audits', ({ pipe }) => pipe.auditCycles],
]

export function viewMetrics({ views, health }: Fusion): string {
  const all = [...views.values()]
  const sources = all.flatMap((view) =>
    [...view.sources.values()].map((source) => ({ labels: { view: view.name, source: source.id }, source })),
  )
  const sessions = all.map((view) => ({ labels: { view: view.name }, value: view.sessions.size }))
  const single = (value: number) => [{ labels: {}, value }]
  return [
    metric('bellwether_view_sessions', 'gauge', 'Sessions per view', sessions),
    ...perSource.map(([name, type, help, value]) =>
      metric(
        `bellwether_view_${name}`,
        type,
        help,
        sources.map(({ labels, source }) => ({ labels, value: value(source) })),
      ),
    ),
    metric('bellwether_health_changes_total', 'counter', 'State changes of health units', single(health.changes)),
    metric(
      'bellwether_health_restarts_total',
      'counter',
      'Restarts of health units',
      single(health.summary().restarts),
    ),
  ].join('')
}

function metric(name: string, type: string, help: string, samples: readonly Sample[]): string {
  const lines = samples.map(({ labels, value }) => {
    const pairs = Object.entries(labels).map(([key, text]) => `${key}=${JSON.stringify(text)}`)
    return `${name}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${value}\n`
  })
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join('')}`
}
