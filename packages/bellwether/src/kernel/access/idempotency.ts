/**
 * What was answered to requests that may come again (`Idempotency-Key`). Always: the first well-formed body that comes with a key
 * owns it; the row, and with it the id that the work is done under, is there before the work begins, so that a crash in between
 * leads to the same work and not to more of it; the first answer that is kept is everybody's.
 */
import { createHash } from 'node:crypto'
import type { Queryable } from '../../ports/database/database.js'
import type { Ids } from '../../ports/ids.js'

export interface AnswerName {
  readonly projectId: string
  /** What is asked for: the same key may be used once for each. */
  readonly scope: string
  readonly key: string
}

export interface KeptAnswer {
  readonly status: number
  readonly answer: unknown
}

export interface OpenedAnswer {
  /** Another body came with this key before. */
  readonly mismatch: boolean
  readonly inboxId: string
  readonly kept: KeptAnswer | undefined
}

interface Row {
  readonly same: boolean
  readonly inbox_id: string
  readonly status: number | null
  readonly answer: unknown
}

export async function openAnswer(db: Queryable, ids: Ids, name: AnswerName, body: unknown): Promise<OpenedAnswer> {
  const hash = createHash('sha256')
    .update(JSON.stringify(body ?? null))
    .digest()
  const values = [name.projectId, name.scope, name.key, hash]
  await db.query({
    name: 'bw_open_answer',
    text: `insert into resource.http_answers (project_id, scope, idempotency_key, body_hash, inbox_id, created_at)
      values ($1, $2, $3, $4, $5, state.now()) on conflict do nothing`,
    values: [...values, ids.next()],
  })
  // In a statement of its own, which sees whoever was faster (hazard 12).
  const [row] = await db.query<Row>({
    name: 'bw_read_answer',
    text: `select body_hash = $4 as same, inbox_id, status, answer from resource.http_answers
      where project_id = $1 and scope = $2 and idempotency_key = $3`,
    values,
  })
  if (row === undefined) throw new Error('an idempotency key vanished while it was used')
  return {
    mismatch: !row.same,
    inboxId: row.inbox_id,
    kept: row.status === null ? undefined : { status: row.status, answer: row.answer },
  }
}

/** Keeps an answer, unless one is kept already; answers the one that is. */
export async function keepAnswer(db: Queryable, name: AnswerName, given: KeptAnswer): Promise<KeptAnswer> {
  const values = [name.projectId, name.scope, name.key]
  await db.query({
    name: 'bw_keep_answer',
    text: `update resource.http_answers set status = $4, answer = $5
      where project_id = $1 and scope = $2 and idempotency_key = $3 and status is null`,
    values: [...values, given.status, JSON.stringify(given.answer)],
  })
  const [row] = await db.query<{ status: number | null; answer: unknown }>({
    name: 'bw_kept_answer',
    text: `select status, answer from resource.http_answers
      where project_id = $1 and scope = $2 and idempotency_key = $3`,
    values,
  })
  return row === undefined || row.status === null ? given : { status: row.status, answer: row.answer }
}

const pruneMax = 5_000

export async function pruneAnswers(db: Queryable, days: number): Promise<number> {
  const gone = await db.query({
    text: `delete from resource.http_answers where (project_id, scope, idempotency_key) in (
      select project_id, scope, idempotency_key from resource.http_answers
      where created_at < state.now() - make_interval(secs => $1::float8 * 86400) order by created_at limit ${pruneMax})
        returning scope`,
    values: [days],
  })
  return gone.length
}
