/** What a view says of itself in numbers and short lists: stats, blind spots, suspects, sessions. Reads only. */
import { Retryable, type HealthState } from '@bellwether/protocol'
import { best, measures, type Standing } from './source-selection.js'
import type { HealthBook } from '../health.js'
import { root } from '../tree/tree.js'
import type { View, ViewSource } from '../view.js'

// Lists for people and sentinels; the counts beside them are exact.
export const listMax = 10_000

export interface Now {
  readonly wallMs: number
  readonly monotonicMs: number
}

export function standing(source: ViewSource): Standing {
  const { files, size } = source.tree.stats(root)
  return {
    source_id: source.id,
    ready: source.ready,
    file_count: files,
    total_size: size,
    latest_mtime: source.tree.newest(root),
  }
}

function sourceStats(source: ViewSource, now: Now) {
  const { pipe, tree } = source
  const { files, directories, size } = tree.stats(root)
  const { blindSpots, suspects, tombstones, clock } = pipe.source
  return {
    item_count: files + directories,
    total_files: files,
    total_directories: directories,
    total_size: size,
    latest_mtime: tree.newest(root),
    staleness_seconds: pipe.heardAt === undefined ? null : Math.max(0, now.monotonicMs - pipe.heardAt) / 1_000,
    has_blind_spot: blindSpots.any,
    suspect_file_count: suspects.size,
    tombstone_count: tombstones.size,
    logical_now: clock.watermark(now.wallMs / 1_000),
    last_audit_start: seconds(pipe.lastAuditStartAt),
    last_audit_finished_at: seconds(pipe.lastAuditFinishedAt),
    audit_cycle_count: pipe.auditCycles,
    is_auditing: pipe.audit !== undefined,
    ready: source.ready,
    full: source.full,
  }
}

const seconds = (ms: number | undefined) => (ms === undefined ? null : ms / 1_000)

type SourceStats = ReturnType<typeof sourceStats>

/** One source's numbers; or all of them together, side by side, with the best by each measure (V6.9). */
export function viewStats(sources: readonly ViewSource[], now: Now) {
  const each = sources.map((source) => ({ id: source.id, stats: sourceStats(source, now) }))
  const standings = sources.map(standing)
  const together =
    each.length === 1
      ? each[0]!.stats
      : added(
          each.map(({ stats }) => stats),
          now,
        )
  return {
    ...together,
    sources: Object.fromEntries(each.map(({ id, stats }) => [id, stats])),
    best: Object.fromEntries(measures.map((measure) => [measure, best(standings, measure)?.source_id ?? null])),
  }
}

function added(all: readonly SourceStats[], now: Now): SourceStats {
  const sum = (of: (stats: SourceStats) => number) => all.reduce((total, stats) => total + of(stats), 0)
  const most = (of: (stats: SourceStats) => number | null) => {
    const told = all.map(of).filter((value) => value !== null)
    return told.length === 0 ? null : Math.max(...told)
  }
  return {
    item_count: sum((stats) => stats.item_count),
    total_files: sum((stats) => stats.total_files),
    total_directories: sum((stats) => stats.total_directories),
    total_size: sum((stats) => stats.total_size),
    latest_mtime: most((stats) => stats.latest_mtime) ?? 0,
    staleness_seconds: most((stats) => stats.staleness_seconds),
    has_blind_spot: all.some((stats) => stats.has_blind_spot),
    suspect_file_count: sum((stats) => stats.suspect_file_count),
    tombstone_count: sum((stats) => stats.tombstone_count),
    logical_now: most((stats) => stats.logical_now) ?? now.wallMs / 1_000,
    last_audit_start: most((stats) => stats.last_audit_start),
    last_audit_finished_at: most((stats) => stats.last_audit_finished_at),
    audit_cycle_count: sum((stats) => stats.audit_cycle_count),
    is_auditing: all.some((stats) => stats.is_auditing),
    ready: all.length > 0 && all.every((stats) => stats.ready),
    full: all.some((stats) => stats.full),
  }
}

export function blindSpotLists(sources: readonly ViewSource[]) {
  const additions: string[] = []
  const deletions: string[] = []
  let additionsCount = 0
  let deletionCount = 0
  for (const { pipe, tree } of sources) {
    const { blindSpots } = pipe.source
    additionsCount += blindSpots.additions.size
    deletionCount += blindSpots.deletionCount
    for (const node of blindSpots.additions) {
      if (additions.length >= listMax) break
      additions.push(tree.pathOf(node))
    }
    deletions.push(...blindSpots.deletions(listMax - deletions.length))
  }
  return { additions_count: additionsCount, additions, deletion_count: deletionCount, deletions }
}

export function suspectList(sources: readonly ViewSource[], now: Now) {
  const suspects = sources.flatMap(({ id, pipe, tree }) =>
    pipe.source.suspects.list(listMax).map(({ node, modifiedTime, expiresAt }) => ({
      path: tree.pathOf(node),
      mtime: modifiedTime,
      expires_in_seconds: Math.max(0, expiresAt - now.monotonicMs) / 1_000,
      source_id: id,
    })),
  )
  const count = sources.reduce((total, { pipe }) => total + pipe.source.suspects.size, 0)
  return { count, suspects: suspects.slice(0, listMax) }
}

export function sessionList(view: View, now: Now) {
  return [...view.sessions.all()].map((session) => ({
    session_id: session.id,
    task_id: session.facts.taskId,
    agent_id: session.facts.agentId,
    source_id: session.facts.sourceId,
    source_uri: session.facts.sourceUri,
    client_ip: session.facts.clientAddress,
    role: session.role,
    can_realtime: session.canRealtime,
    session_timeout_seconds: session.facts.timeoutMs / 1_000,
    created_at: session.facts.createdAtMs / 1_000,
    silent_seconds: Math.max(0, now.monotonicMs - session.heardAt) / 1_000,
    commands_waiting: session.commandCount,
    agent_status: session.agentStatus ?? null,
  }))
}

/** V6.8, V5.3: why this view cannot be read now, if so. On-demand questions are answered all the same. */
export function unreadable(view: View, sources: readonly ViewSource[], health: HealthBook): Retryable | undefined {
  const state: HealthState = health.get(view.key)?.effective ?? 'ok'
  if (state === 'failed') {
    return new Retryable('this live view is unavailable: a pipe that feeds it failed', {
      code: 'view_unavailable',
      afterMs: 1_000,
      hint: 'see /api/v1/health/components; ?force-real-time=true still asks the sensors',
    })
  }
  if (sources.some(({ ready }) => ready)) return undefined
  return new Retryable('this view is not ready: no first snapshot is complete', {
    code: 'view_not_ready',
    afterMs: 1_000,
    hint: view.sessions.size === 0 ? 'no sensor is connected' : 'the leading sensor is still scanning',
  })
}
