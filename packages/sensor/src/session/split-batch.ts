/**
 * Splits a batch that the server, or a proxy before it, rejected as too large, so that one odd directory cannot stop a pipe.
 * Rows whose path no longer exists are dropped, because a later row or scan reports that. A single row that is still too
 * large is skipped, logged with its path and reported as a health problem of the pipe.
 */
import type { FileEvent, FileRow } from '@bellwether/protocol'
import type { PipeContext } from './context.js'

interface EventRow {
  readonly event: FileEvent
  readonly row: FileRow
}

/** The smaller batches to send instead, in order. */
export async function splitBatch(
  context: PipeContext,
  events: readonly FileEvent[],
  signal: AbortSignal,
): Promise<readonly (readonly FileEvent[])[]> {
  const { scanner, log, name, skipped } = context
  const all = events.flatMap((event) => event.rows.map((row) => ({ event, row })))
  const stats = await scanner.statPaths(
    all.map(({ row }) => row.path),
    signal,
  )
  const existing = all.filter(({ event }, at) => event.event_type === 'delete' || stats[at]?.miss !== 'gone')
  const longest = all.reduce((one, other) => (other.row.path.length > one.row.path.length ? other : one), all[0]!)
  const path = longest.row.path.slice(0, 200)
  log.warn({ pipe: name, rows: all.length, gone: all.length - existing.length, path }, 'batch too large; splitting it')
  if (existing.length < all.length) return existing.length === 0 ? [] : [groupRows(existing)]
  if (all.length === 1) {
    log.error({ pipe: name, path }, 'row skipped because it is too large')
    skipped.count += 1
    skipped.path = path
    return []
  }
  const half = all.length >> 1
  return [groupRows(all.slice(0, half)), groupRows(all.slice(half))]
}

function groupRows(rows: readonly EventRow[]): FileEvent[] {
  const groups: { readonly event: FileEvent; readonly rows: FileRow[] }[] = []
  for (const { event, row } of rows) {
    const last = groups.at(-1)
    if (last?.event === event) last.rows.push(row)
    else groups.push({ event, rows: [row] })
  }
  return groups.map((group) => ({ ...group.event, rows: group.rows }))
}
