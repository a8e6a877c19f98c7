/** The audit log: who did what, kept for the configured number of days. Rows are written in batches and never change. */
import type { AuditRow } from '@bellwether/protocol/http'
import type { Queryable } from '../../ports/database/database.js'
import { scanBack } from '../reads/scan.js'

export type AuditEntry = Readonly<Omit<AuditRow, 'audit_id' | 'at' | 'name'>> & { readonly name?: string | undefined }

export interface AuditQuery {
  readonly actor?: string | undefined
  /** Only rows older than this one. */
  readonly before?: number | undefined
  readonly limit: number
}

export async function writeAudit(db: Queryable, entries: readonly AuditEntry[]): Promise<void> {
  await db.query({
    name: 'bw_write_audit',
    text: `insert into resource.audit_log (at, actor, name, role, address, method, path, status, code)
      select state.now(), x.* from json_to_recordset($1::json)
        as x (actor text, name text, role text, address text, method text, path text, status int, code text)`,
    values: [JSON.stringify(entries)],
  })
}

/** Newest first. A short page may still have a cursor. */
export const readAudit = (db: Queryable, { actor, before, limit }: AuditQuery) =>
  scanBack<AuditRow>(db, {
    ...{ name: 'bw_read_audit', table: 'resource.audit_log', id: 'audit_id', before, limit },
    where: '$3::text is null or l.actor = $3',
    values: [actor ?? null],
  })

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
