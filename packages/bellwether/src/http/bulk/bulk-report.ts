/**
 * Runs a bulk action: decides nothing itself, changes each row on its own, and reports every row. A row that fails leaves the others as they
 * are. The audit log gets one line per row that was changed or failed, as if it had been changed alone.
 */
import { errorMessage, type Log } from '@bellwether/base'
import { bulkCounts, Retryable, Terminal, type BulkResult } from '@bellwether/protocol'
import type { FastifyRequest } from 'fastify'

export interface BulkRow {
  readonly result: BulkResult
  readonly reason: string | null
}

/** A line of the audit log. */
interface AuditedChange {
  readonly method: string
  readonly path: string
  readonly status: number
  readonly code: string | null
}

declare module 'fastify' {
  interface FastifyRequest {
    /** What the request changed, for the audit log; null: the request itself is the change. */
    auditedChanges: readonly AuditedChange[] | null
  }
}

export interface Bulk<Row extends BulkRow> {
  /** What would happen to each row. */
  readonly rows: readonly Row[]
  /** Whether more rows match than these. */
  readonly more: boolean
  /** How many rows are changed at once. */
  readonly atOnce: number
  /** Changes a row. Throws Terminal if the action no longer applies to it. */
  readonly act: (row: Row) => Promise<Partial<Row>>
  /** The request that changes this row alone. */
  readonly alone: (row: Row) => { readonly method: string; readonly path: string }
  readonly log: Log
}

interface BulkRequest {
  readonly dry_run: boolean
  readonly expected_affected?: number | undefined
}

export async function runBulk<Row extends BulkRow>(
  request: FastifyRequest,
  { dry_run: isDry, expected_affected: expected }: BulkRequest,
  { rows, more, atOnce, act, alone, log }: Bulk<Row>,
) {
  const affected = bulkCounts(rows).affected
  if (!isDry && expected !== undefined && expected !== affected)
    throw new Terminal(
      `Cannot run the bulk action: the filter now affects ${affected} rows, not ${expected}. Nothing was changed`,
      { code: 'count_changed', hint: 'preview again with dry_run, and pass the new number' },
    )
  if (isDry) {
    request.auditedChanges = []
    return { dry_run: true, ...bulkCounts(rows), more, rows }
  }
  const changes: AuditedChange[] = []
  const changeRow = async (row: Row): Promise<Row> => {
    if (row.result !== 'affected') return row
    try {
      const changed = { ...row, ...(await act(row)) }
      if (changed.result === 'affected') changes.push({ ...alone(row), status: 200, code: null })
      return changed
    } catch (error) {
      if (error instanceof Terminal) return { ...row, result: 'unaffected', reason: error.message }
      if (!(error instanceof Retryable)) log.error({ err: error, ...alone(row) }, 'bulk action failed')
      changes.push({ ...alone(row), status: 503, code: error instanceof Retryable ? error.code : 'internal' })
      return { ...row, result: 'failed', reason: errorMessage(error) }
    }
  }
  const done: Row[] = []
  for (let at = 0; at < rows.length; at += atOnce)
    done.push(...(await Promise.all(rows.slice(at, at + atOnce).map(changeRow))))
  // A request that changed nothing is a line of its own.
  if (changes.length > 0) request.auditedChanges = changes
  return { dry_run: false, ...bulkCounts(done), more, rows: done }
}
