/** The audit log: who did what, kept for the configured number of days. Rows are written in batches and never change. */
import type { AuditRow } from '@bellwether/protocol/http'
import type { Queryable } from '../../ports/database/database.js'

export interface AuditEntry {
  /** The key's or person's id, or the user of the command line. */
  readonly actor: string
  readonly name?: string | undefined
  readonly role: string | null
  readonly address: string | null
  readonly method: string
  readonly path: string
  readonly status: number
  readonly code: string | null
}

export interface AuditQuery {
  readonly actor?: string | undefined
  /** Only rows older than this one. */
  readonly before?: number | undefined
  readonly limit: number
}

// Rows scanned for one page: a filter with few matches returns a cursor instead of scanning everything.
const scanMax = 20_000

export async function writeAudit(db: Queryable, entries: readonly AuditEntry[]): Promise<void> {
  await db.query({
    name: 'bw_write_audit',
    text: `insert into resource.audit_log (at, actor, name, role, address, method, path, status, code)
      select state.now(), x.* from json_to_recordset($1::json)
        as x (actor text, name text, role text, address text, method text, path text, status int, code text)`,
    values: [JSON.stringify(entries)],
  })
}

/** Newest first. The cursor is the last scanned row, or null at the end. */
export async function readAudit(
  db: Queryable,
  query: AuditQuery,
): Promise<{ rows: AuditRow[]; cursor: number | null }> {
  const found = await db.query<AuditRow & { readonly edge: number | null }>({
    name: 'bw_read_audit',
    text: `with scanned as materialized (select * from resource.audit_log where audit_id < $2
        order by audit_id desc limit ${scanMax}),
      page as (select * from scanned l where $1::text is null or l.actor = $1 order by audit_id desc limit $3)
      select e.edge, p.* from (select case when count(*) = ${scanMax} then min(audit_id) end as edge from scanned) e
      left join page p on true order by p.audit_id desc`,
    values: [query.actor ?? null, query.before ?? Number.MAX_SAFE_INTEGER, query.limit],
  })
  const rows = found.filter((row) => row.audit_id !== null).map(({ edge: _edge, ...row }) => row)
  return { rows, cursor: rows.length === query.limit ? rows.at(-1)!.audit_id : (found[0]?.edge ?? null) }
}

const pruneMax = 5_000

/** Returns the number of removed rows; the caller repeats the call while it is large. */
export async function pruneAudit(db: Queryable, days: number): Promise<number> {
  const removed = await db.query({
    text: `delete from resource.audit_log where audit_id in (
      select o.audit_id from (select audit_id, at from resource.audit_log order by audit_id limit ${pruneMax}) o
      where o.at < state.now() - make_interval(secs => $1::float8 * 86400)) returning audit_id`,
    values: [days],
  })
  return removed.length
}
