/**
 * Cards, boxes and batches as somebody outside reads them: of the project that was named and of no other, by the page. Reads only.
 */
import type { Queryable } from '../../ports/database/database.js'
import type { Card } from '../verbs/cards.js'

const columns = 'c.card_id, c.type, c.role, c.content, c.metadata, c.created_at'

export async function readCardOf(db: Queryable, projectId: string, cardId: string): Promise<Card | undefined> {
  const [card] = await db.query<Card>({
    name: 'bw_read_card_of',
    text: `select ${columns} from cards.cards c where c.card_id = $1 and c.project_id = $2`,
    values: [cardId, projectId],
  })
  return card
}

export interface BoxPage {
  readonly kind: 'context' | 'output'
  readonly cards: readonly (Card & { readonly position: number })[]
  readonly cursor: number | null
}

// A card may have a megabyte, and a page many cards: one answer stays below what one request may send.
const pageBytesMax = 8_388_608

/** In order; a page ends early where its cards are large. Undefined: this project has no such box. */
export async function readBoxOf(
  db: Queryable,
  projectId: string,
  boxId: string,
  after: number,
  limit: number,
): Promise<BoxPage | undefined> {
  const [box] = await db.query<{ kind: 'context' | 'output' }>({
    name: 'bw_read_box',
    text: 'select kind from cards.boxes where box_id = $1 and project_id = $2',
    values: [boxId, projectId],
  })
  if (box === undefined) return undefined
  const rows = await db.query<BoxPage['cards'][number] & { readonly total: number; readonly before: number }>({
    name: 'bw_read_box_page',
    text: `select * from (
        select x.position, ${columns}, (count(*) over ())::int as total,
          sum(octet_length(c.content::text)) over (order by x.position) - octet_length(c.content::text) as before
        from (select * from cards.box_cards x where x.box_id = $1 and x.position > $2 order by x.position limit $3) x
        join cards.cards c on c.card_id = x.card_id) page
      where before < ${pageBytesMax} order by position`,
    values: [boxId, after, limit],
  })
  const isAll = rows.length === (rows[0]?.total ?? 0) && rows.length < limit
  const cards = rows.map(({ total: _total, before: _before, ...card }) => card)
  return { kind: box.kind, cards, cursor: isAll ? null : cards.at(-1)!.position }
}

export interface CardsWithin {
  readonly cards: readonly Card[]
  /** Older cards are there and were left out. */
  readonly truncated: boolean
}

/** The newest cards of a box that fit into so many bytes, in order; the newest of all always. */
export async function readBoxWithin(
  db: Queryable,
  boxId: string,
  bytesMax: number,
  cardsMax: number,
): Promise<CardsWithin> {
  const rows = await db.query<Card & { readonly total: number; readonly size: number }>({
    name: 'bw_read_box_within',
    text: `select * from (
        select ${columns}, x.position, count(*) over () as total,
          sum(octet_length(c.content::text)) over (order by x.position desc) - octet_length(c.content::text) as size
        from (select * from cards.box_cards where box_id = $1 order by position desc limit $3 + 1) x
        join cards.cards c on c.card_id = x.card_id) newest
      where size < $2 order by position desc limit $3`,
    values: [boxId, bytesMax, cardsMax],
  })
  const truncated = rows.length > 0 && rows[0]!.total > rows.length
  const cards = rows.toReversed().map(({ card_id, type, role, content, metadata, created_at }) => ({
    card_id,
    type,
    role,
    content,
    metadata,
    created_at,
  }))
  return { cards, truncated }
}

export interface BatchLine {
  readonly batch_id: string
  readonly status: string
  readonly task_count: number
  readonly open_count: number
  readonly done_count: number
  readonly failed_count: number
  readonly deadline: Date | null
  readonly created_at: Date
}

/** Batches that are not settled yet; those that are can be read by their id. */
export async function listBatches(
  db: Queryable,
  projectId: string,
  after: string,
  limit: number,
): Promise<{ batches: BatchLine[]; cursor: string | null }> {
  const batches = await db.query<BatchLine>({
    name: 'bw_list_batches',
    text: `select batch_id, status, task_count, open_count, done_count, failed_count, deadline, created_at, ended_at, parent_agent_turn_id, tool_call_id
      from state.batches where settled_at is null and project_id = $1 and batch_id > $2 order by batch_id limit $3`,
    values: [projectId, after, limit],
  })
  return { batches, cursor: batches.length === limit ? batches.at(-1)!.batch_id : null }
}

export interface BatchTask {
  readonly position: number
  readonly status: string
  /** What it delivered; null also where the answer would be too large with it: the card has it. */
  readonly content: unknown
  readonly content_truncated: boolean
  readonly [column: string]: unknown
}

/** One batch with its tasks, in their order. Undefined: this project has no such batch. */
export async function readBatchOf(
  db: Queryable,
  projectId: string,
  batchId: string,
): Promise<(BatchLine & { readonly tasks: readonly BatchTask[] }) | undefined> {
  const [batch] = await db.query<BatchLine>({
    name: 'bw_read_batch_of',
    text: `select batch_id, project_id, status, task_count, open_count, done_count, failed_count, deadline, fail_fast, channel_id, traceparent,
        recursion_depth, parent_agent_id, parent_agent_turn_id, parent_turn_epoch, parent_step_id, tool_call_id, created_at, ended_at, settled_at
      from state.batches where batch_id = $1 and project_id = $2`,
    values: [batchId, projectId],
  })
  if (batch === undefined) return undefined
  const tasks = await db.query<BatchTask>({
    name: 'bw_read_batch_tasks',
    text: `select position, target_strategy, target_ref, agent_id, agent_turn_id, status, attempts, outcome, error, deliverable_card_id,
        case when before < ${pageBytesMax} then content end as content, coalesce(before >= ${pageBytesMax}, false) as content_truncated
      from (select t.*, c.content, sum(octet_length(c.content::text)) over (order by t.position) - octet_length(c.content::text) as before
        from state.batch_tasks t left join cards.cards c on c.card_id = t.deliverable_card_id where t.batch_id = $1) t
      order by position`,
    values: [batchId],
  })
  return { ...batch, tasks }
}
