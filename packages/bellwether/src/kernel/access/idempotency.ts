/**
 * Stores the responses to requests with an `Idempotency-Key`. The first valid body with a key owns it. The row, which holds the id of the
 * work, is written before the work starts, so that a repeated request after a crash continues the same work. The first stored response
 * is returned to every later request.
 */
import { createHash } from 'node:crypto'
import type { Queryable } from '../../ports/database/database.js'
import type { Ids } from '../../ports/ids.js'

export interface RequestKey {
  readonly projectId: string
  /** The kind of request: the same key may be used once per scope. */
  readonly scope: string
  readonly key: string
}

export interface StoredResponse {
  readonly status: number
  readonly body: unknown
}

export interface OpenedResponse {
  /** An earlier request with this key had another body. */
  readonly mismatch: boolean
  readonly inboxId: string
  readonly stored: StoredResponse | undefined
}

interface Row {
  readonly same: boolean
  readonly inbox_id: string
  readonly status: number | null
  readonly body: unknown
}

export async function openResponse(db: Queryable, ids: Ids, name: RequestKey, body: unknown): Promise<OpenedResponse> {
  const hash = createHash('sha256')
    .update(JSON.stringify(body ?? null))
    .digest()
  const values = [name.projectId, name.scope, name.key, hash]
  await db.query({
    name: 'bw_open_response',
    text: `insert into resource.http_responses (project_id, scope, idempotency_key, body_hash, inbox_id, created_at)
      values ($1, $2, $3, $4, $5, state.now()) on conflict do nothing`,
    values: [...values, ids.next()],
  })
  // A separate statement sees the row of a concurrent request that was faster (hazard 12).
  const [row] = await db.query<Row>({
    name: 'bw_read_response',
    text: `select body_hash = $4 as same, inbox_id, status, response as body from resource.http_responses
      where project_id = $1 and scope = $2 and idempotency_key = $3`,
    values,
  })
  if (row === undefined) throw new Error(`The row of idempotency key "${name.key}" disappeared during the request`)
  return {
    mismatch: !row.same,
    inboxId: row.inbox_id,
    stored: row.status === null ? undefined : { status: row.status, body: row.body },
  }
}

/** Whether `owner` is the first one with this key; it stays the owner until its row is pruned. */
export async function ownsKey(db: Queryable, ids: Ids, name: RequestKey, owner: string): Promise<boolean> {
  return !(await openResponse(db, ids, name, owner)).mismatch
}

/** Stores a response unless one is stored already; returns the stored one. */
export async function storeResponse(
  db: Queryable,
  name: RequestKey,
  response: StoredResponse,
): Promise<StoredResponse> {
  const values = [name.projectId, name.scope, name.key]
  await db.query({
    name: 'bw_store_response',
    text: `update resource.http_responses set status = $4, response = $5
      where project_id = $1 and scope = $2 and idempotency_key = $3 and status is null`,
    values: [...values, response.status, JSON.stringify(response.body)],
  })
  const [row] = await db.query<{ status: number | null; body: unknown }>({
    name: 'bw_stored_response',
    text: `select status, response as body from resource.http_responses
      where project_id = $1 and scope = $2 and idempotency_key = $3`,
    values,
  })
  return row === undefined || row.status === null ? response : { status: row.status, body: row.body }
}

const pruneMax = 5_000

export async function pruneResponses(db: Queryable, days: number): Promise<number> {
  const removed = await db.query({
    text: `delete from resource.http_responses where (project_id, scope, idempotency_key) in (
      select project_id, scope, idempotency_key from resource.http_responses
      where created_at < state.now() - make_interval(secs => $1::float8 * 86400) order by created_at limit ${pruneMax})
        returning scope`,
    values: [days],
  })
  return removed.length
}
