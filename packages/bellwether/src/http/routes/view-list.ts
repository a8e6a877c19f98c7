/** Lists the views that a key can reach, with their sources and leaders, also while a view is not ready. */
import { viewStats, type Now } from '../../view/queries/summaries.js'
import type { Fusion } from '../../view/fusion.js'
import type { View, ViewSource } from '../../view/view.js'
import type { Api } from '../api.js'

export function viewListRoute(api: Api, fusion: Fusion): void {
  const { clock } = fusion
  api('GET /views', ({ grant }) => {
    const now = { wallMs: clock.wallMs(), monotonicMs: clock.monotonicMs() }
    const views = [...fusion.views.values()].filter((view) => grant.may(view.name))
    return { views: views.map((view) => lineOf(fusion, view, now)) }
  })
}

function lineOf(fusion: Fusion, view: View, now: Now) {
  const sources = [...view.sources.values()]
  const stats = viewStats(sources, now)
  return {
    view_id: view.name,
    ready: view.ready,
    live: view.settings.live,
    available: fusion.health.get(view.key)?.effective !== 'failed',
    sessions: view.sessions.size,
    item_count: stats.item_count,
    total_files: stats.total_files,
    total_directories: stats.total_directories,
    total_size: stats.total_size,
    suspect_file_count: stats.suspect_file_count,
    has_blind_spot: stats.has_blind_spot,
    is_auditing: stats.is_auditing,
    sources: sources.map((source) => sourceLine(view, source, stats.sources[source.id]!)),
  }
}

function sourceLine(view: View, source: ViewSource, stats: ReturnType<typeof viewStats>['sources'][string]) {
  const leader = view.sessions.leader(source.id)
  const sessions = [...view.sessions.all()].filter((session) => session.info.sourceId === source.id).length
  return {
    source_id: source.id,
    ready: stats.ready,
    full: stats.full,
    leader:
      leader === undefined
        ? null
        : { session_id: leader.id, agent_id: leader.info.agentId, source_uri: leader.info.sourceUri ?? null },
    sessions,
    item_count: stats.item_count,
    total_size: stats.total_size,
    suspect_file_count: stats.suspect_file_count,
    staleness_seconds: stats.staleness_seconds,
    is_auditing: stats.is_auditing,
  }
}
