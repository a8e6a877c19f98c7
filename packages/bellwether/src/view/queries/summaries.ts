/** Statistics of a view and its lists of blind spots, suspects and sessions, as HTTP returns them. Reads only. */
import { Retryable, Terminal, type HealthState } from '@bellwether/protocol'
import { bestSource, measures, type SourceSize } from './source-selection.js'
import type { HealthRegistry } from '../health.js'
import { none, root } from '../tree/tree.js'
import type { View, ViewSource } from '../view.js'

// Lists are cut here; the counts beside them are exact.
const listMax = 10_000

export interface Now {
  readonly wallMs: number
  readonly monotonicMs: number
}

export function sourceSize(source: ViewSource): SourceSize {
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
  const { blindSpots, suspects, tombstones, clock } = pipe.state
  return {
    item_count: files + directories,
    total_files: files,
    total_directories: directories,
    total_size: size,
    latest_mtime: tree.newest(root),
    staleness_seconds: pipe.lastRowsAt === undefined ? null : Math.max(0, now.monotonicMs - pipe.lastRowsAt) / 1_000,
    has_blind_spot: blindSpots.any,
    suspect_file_count: suspects.size,
    tombstone_count: tombstones.size,
    logical_now: clock.watermark(now.wallMs / 1_000),
    last_audit_start: seconds(pipe.lastAuditStartAt),
    last_audit_finished_at: seconds(pipe.lastAuditFinishedAt),
    audit_cycle_count: pipe.auditCycles,
    is_auditing: pipe.audit !== undefined,
    ready: source.ready,
    full: source.full !== undefined,
  }
}

const seconds = (ms: number | undefined) => (ms === undefined ? null : ms / 1_000)

type SourceStats = ReturnType<typeof sourceStats>

/** Statistics of one source, or the sum over several, with each source's own numbers and the best one per measure (V6.9). */
export function viewStats(sources: readonly ViewSource[], now: Now) {
  const each = sources.map((source) => ({ id: source.id, stats: sourceStats(source, now) }))
  const sizes = sources.map(sourceSize)
  const total =
    each.length === 1
      ? each[0]!.stats
      : sumStats(
          each.map(({ stats }) => stats),
          now,
        )
  return {
    ...total,
    sources: Object.fromEntries(each.map(({ id, stats }) => [id, stats])),
    best: Object.fromEntries(measures.map((measure) => [measure, bestSource(sizes, measure)?.source_id ?? null])),
  }
}

function sumStats(all: readonly SourceStats[], now: Now): SourceStats {
  const sum = (of: (stats: SourceStats) => number) => all.reduce((total, stats) => total + of(stats), 0)
  const largest = (of: (stats: SourceStats) => number | null) => {
    const values = all.map(of).filter((value) => value !== null)
    return values.length === 0 ? null : Math.max(...values)
  }
  return {
    item_count: sum((stats) => stats.item_count),
    total_files: sum((stats) => stats.total_files),
    total_directories: sum((stats) => stats.total_directories),
    total_size: sum((stats) => stats.total_size),
    latest_mtime: largest((stats) => stats.latest_mtime) ?? 0,
    staleness_seconds: largest((stats) => stats.staleness_seconds),
    has_blind_spot: all.some((stats) => stats.has_blind_spot),
    suspect_file_count: sum((stats) => stats.suspect_file_count),
    tombstone_count: sum((stats) => stats.tombstone_count),
    logical_now: largest((stats) => stats.logical_now) ?? now.wallMs / 1_000,
    last_audit_start: largest((stats) => stats.last_audit_start),
    last_audit_finished_at: largest((stats) => stats.last_audit_finished_at),
    audit_cycle_count: sum((stats) => stats.audit_cycle_count),
    is_auditing: all.some((stats) => stats.is_auditing),
    ready: all.length > 0 && all.every((stats) => stats.ready),
    full: all.some((stats) => stats.full),
  }
}

/** The entry at a path, or Terminal `unknown_path`. */
export function entryAt({ tree }: Pick<ViewSource, 'tree'>, path: string): number {
  const node = tree.find(path)
  if (node !== none) return node
  throw new Terminal(`This view has no entry ${JSON.stringify(path.slice(0, 200))}`, {
    code: 'unknown_path',
    hint: 'a path starts with / and is relative to the root of its source',
  })
}

export function blindSpotLists(sources: readonly ViewSource[]) {
  const additions: string[] = []
  const deletions: string[] = []
  let additionsCount = 0
  let deletionCount = 0
  for (const { pipe, tree } of sources) {
    const { blindSpots } = pipe.state
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
    pipe.state.suspects
      .list(listMax)
      .map(({ node, modifiedTime, expiresAt }) => ({
        path: tree.pathOf(node),
        mtime: modifiedTime,
        expires_in_seconds: Math.max(0, expiresAt - now.monotonicMs) / 1_000,
        source_id: id,
      })),
  )
  const count = sources.reduce((total, { pipe }) => total + pipe.state.suspects.size, 0)
  return { count, suspects: suspects.slice(0, listMax) }
}

export function sessionList(view: View, now: Now) {
  return [...view.sessions.all()].map((session) => ({
    session_id: session.id,
    task_id: session.info.taskId,
    agent_id: session.info.agentId,
    source_id: session.info.sourceId,
    source_uri: session.info.sourceUri,
    client_ip: session.info.clientAddress,
    role: session.role,
    can_realtime: session.canRealtime,
    session_timeout_seconds: session.info.timeoutMs / 1_000,
    created_at: session.info.createdAtMs / 1_000,
    silent_seconds: Math.max(0, now.monotonicMs - session.lastContactAt) / 1_000,
    commands_waiting: session.commandCount,
    agent_status: session.agentStatus ?? null,
  }))
}

/** Why this view cannot be read now, or undefined (V6.8, V5.3). On-demand scans are accepted in any case. */
export function whyUnreadable(
  view: View,
  sources: readonly ViewSource[],
  health: HealthRegistry,
): Retryable | undefined {
  const state: HealthState = health.get(view.key)?.effective ?? 'ok'
  if (state === 'failed') {
    return new Retryable('This live view is unavailable because one of its pipes failed', {
      code: 'view_unavailable',
      afterMs: 1_000,
      hint: 'See /api/v1/health/components. ?force-real-time=true&wait=10 still asks the sensors.',
    })
  }
  if (sources.some(({ ready }) => ready)) return undefined
  return new Retryable('This view is not ready: no source has completed its first snapshot', {
    code: 'view_not_ready',
    afterMs: 1_000,
    hint: view.sessions.size === 0 ? 'No sensor is connected.' : 'The leading sensor is still scanning.',
  })
}
