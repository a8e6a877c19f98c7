/**
 * Reads turns: lists page by page, and single turns. Reads only. Bounded: a list scans a fixed number of turns and returns a cursor where it
 * stopped, because the hot table has no index for rare filters. Words have one (turns/words.ts).
 */
import type { BudgetKey, TurnStatus } from '@bellwether/protocol'
import type { TurnRow } from '@bellwether/protocol/http'
import type { Queryable } from '../../ports/database/database.js'
import { headStatuses } from '../turn.js'
import { waitsForWorker } from './gauges.js'
import { hasWords, wordSearch } from './turns/words.js'

export interface TurnFilter {
  readonly agentId?: string | undefined
  readonly status?: TurnStatus | undefined
  /** Queued at this time or later. */
  readonly since?: Date | undefined
  /** Queued before this time. */
  readonly until?: Date | undefined
  /** Ended at this time or later. */
  readonly endedSince?: Date | undefined
  /** Ended before this time. */
  readonly endedUntil?: Date | undefined
  /** The beginning of the error. */
  readonly error?: string | undefined
  readonly minCostMicros?: number | undefined
  /** Words of the instruction or the deliverable, as in `websearch_to_tsquery`; the last one may be the beginning of a word. */
  readonly text?: string | undefined
}

export interface TurnQuery extends TurnFilter {
  readonly projectId: string
  /** Only turns older than this one. */
  readonly cursor?: string | undefined
  readonly limit: number
}

export interface TurnPage {
  readonly turns: readonly TurnRow[]
  /** Null at the end. A short or empty page may still have a cursor: continue with it. */
  readonly cursor: string | null
}

// Index entries that one page scans at most: about 10 ms.
const scanMax = 5_000
// Turns whose cards or steps one page reads at most: about 50 ms.
const readMax = 1_000
// Sorts after every id.
const newest = '~'
// Ids contain the clock of the process that created them (decision 0006). It may differ from the clock of the database by less than this.
const clockSkewMs = 86_400_000

/** Newest first. */
export async function listTurns(db: Queryable, query: TurnQuery): Promise<TurnPage> {
  const { projectId, agentId, status, since, until, endedSince, endedUntil, error, minCostMicros, text, limit } = query
  // A turn is queued before it ends.
  const cursor = firstOf(firstOf(query.cursor ?? newest, until), endedUntil)
  const filters = [since, until, error, minCostMicros, text, endedSince, endedUntil]
  const values = [projectId, agentId, cursor, limit, status, ...filters]
  if (status === 'queued') return paged(await db.query<TurnRow>({ ...queuedTurns, values }), limit)
  if (status !== undefined && (headStatuses as readonly string[]).includes(status))
    return paged(await db.query<TurnRow>({ ...activeTurns, values }), limit)
  const found = (await searched(db, query, values)) ?? (await db.query<ScannedTurn>({ ...statementFor(query), values }))
  const turns = found.flatMap(({ edge: _edge, edge_at: _edgeAt, known: _known, ...row }) =>
    row.agent_turn_id === null ? [] : [row as TurnRow],
  )
  return { turns, cursor: turns.length === limit ? turns.at(-1)!.agent_turn_id : endOfScan(found[0], since) }
}

interface ScannedTurn extends TurnRow {
  /** The last turn that was scanned; null: it was the last one. */
  readonly edge: string | null
  readonly edge_at: Date | null
  /** Of a search: the index of words tells where to look. */
  readonly known?: boolean
}

const statementFor = ({ minCostMicros, text }: TurnFilter) =>
  minCostMicros === undefined && text === undefined ? scanned : readAndScanned

/** The turns with the words; undefined if the index of words cannot tell where to look. */
async function searched(db: Queryable, { text, since }: TurnFilter, values: readonly unknown[]) {
  if (text === undefined) return undefined
  const lowest = since === undefined ? '' : idAt(since.getTime() - clockSkewMs)
  const found = await db.query<ScannedTurn>({ ...worded, values: [...values, lowest] })
  return found[0]?.known === true ? found : undefined
}

/** The cursor, or the first id after `until` if that is older. */
function firstOf(cursor: string, until: Date | undefined): string {
  if (until === undefined) return cursor
  const first = `${idAt(until.getTime() + clockSkewMs)}${newest}`
  return first < cursor ? first : cursor
}

/** The beginning of an id of this time. */
function idAt(ms: number): string {
  const hex = Math.max(0, ms).toString(16).padStart(12, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8)}`
}

/** Where the next page continues; null if every older turn was queued before `since`. */
function endOfScan(edge: ScannedTurn | undefined, since: Date | undefined): string | null {
  // A search ends by itself.
  const isPast =
    edge?.known !== true && since !== undefined && (edge?.edge_at?.getTime() ?? 0) < since.getTime() - clockSkewMs
  return isPast ? null : (edge?.edge ?? null)
}

function paged(turns: readonly TurnRow[], limit: number): TurnPage {
  return { turns, cursor: turns.length === limit ? turns.at(-1)!.agent_turn_id : null }
}

/** Whether turn `i`, a row of the inbox, matches the filters $6 to $12. Cheap ones first. */
const matches = `($6::timestamptz is null or i.created_at >= $6) and ($7::timestamptz is null or i.created_at < $7)
    and ($11::timestamptz is null or i.ended_at >= $11) and ($12::timestamptz is null or i.ended_at < $12)
    and ($8::text is null or starts_with(i.error, $8))
    and ($9::bigint is null or (
      select sum(u.cost_micros) from state.agent_steps s cross join lateral state.step_usage(s.metadata - 'charged') u
      where s.agent_turn_id = i.agent_turn_id) >= $9)
    and ($10::text is null or ${hasWords})`

const queuedTurns = {
  name: 'bw_turns_queued',
  text: `select t.* from state.queue q cross join lateral state.inbox_row(q.inbox_id) i
    cross join lateral (select * from state.turns t where t.agent_turn_id = i.agent_turn_id) t
    where q.project_id = $1 and q.status = 'queued' and ($2::text is null or q.agent_id = $2) and i.agent_turn_id < $3
      and $5::text is not null and ${matches}
    order by i.agent_turn_id desc limit $4`,
}

const activeTurns = {
  name: 'bw_turns_active',
  text: `select t.* from state.agent_state_head h cross join lateral state.turn_row(h.active_agent_turn_id) i
    cross join lateral (select * from state.turns t where t.agent_turn_id = h.active_agent_turn_id) t
    where h.awake and h.active_agent_turn_id is not null and h.project_id = $1 and ($2::text is null or h.agent_id = $2)
      and h.active_agent_turn_id < $3 and h.status = $5 and ${matches}
    order by h.active_agent_turn_id desc limit $4`,
}

const scan = (max: number) => `with scanned as materialized (
      select i.agent_turn_id, i.project_id, i.agent_id, i.outcome, i.created_at, i.ended_at, i.error, i.payload,
        i.deliverable_card_id
      from state.agent_inbox i
      where i.message_type in ('turn', 'ui_action') and i.agent_turn_id < $3
      order by i.agent_turn_id desc limit ${max}
    ), page as (
      select i.agent_turn_id as id from scanned i
      where i.project_id = $1 and ($2::text is null or i.agent_id = $2) and ($5::text is null or i.outcome = $5)
        and ${matches}
      order by i.agent_turn_id desc limit $4
    )
    select e.edge, e.edge_at, t.* from (
      select case when count(*) = ${max} then min(agent_turn_id) end as edge,
        (array_agg(created_at order by agent_turn_id))[1] as edge_at from scanned) e
    left join page p on true left join lateral (select * from state.turns t where t.agent_turn_id = p.id) t on true
    order by t.agent_turn_id desc`

const scanned = { name: 'bw_turns_scanned', text: scan(scanMax) }
const readAndScanned = { name: 'bw_turns_read', text: scan(readMax) }
const worded = { name: 'bw_turns_worded', text: wordSearch(matches) }

export async function readTurn(db: Queryable, projectId: string, agentTurnId: string): Promise<TurnRow | undefined> {
  const [turn] = await db.query<TurnRow>({
    name: 'bw_read_turn',
    text: 'select * from state.turns where agent_turn_id = $1 and project_id = $2',
    values: [agentTurnId, projectId],
  })
  return turn
}

// As much as a list shows.
const instructionMax = 300
// Boxes that agents share may be long; an instruction is near the end.
const instructionCards = 20

/** The beginning of the instruction of turns, by id; turns without one are missing. */
export async function readInstructions(
  db: Queryable,
  agentTurnIds: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const rows = await db.query<{ id: string; text: string }>({
    name: 'bw_read_instructions',
    text: `select k.id, left(c.text, ${instructionMax}) as text
      from unnest($1::text[]) as k (id) cross join lateral state.turn_row(k.id) i
      cross join lateral (select coalesce(c.content ->> 'text', c.content ->> 'instruction') as text
        from (select x.card_id, x.position from cards.box_cards x where x.box_id = i.payload ->> 'context_box_id'
          order by x.position desc limit ${instructionCards}) x
        join cards.cards c on c.card_id = x.card_id
        where c.type = 'task.instruction' order by x.position desc limit 1) c
      where c.text is not null`,
    values: [agentTurnIds],
  })
  return new Map(rows.map(({ id, text }) => [id, text]))
}

/** A turn with what another one needs to repeat it. */
export interface RepeatableTurn extends TurnRow {
  readonly context_box_id: string | null
  readonly session_id: string | null
}

/** Turns that do not exist in the project are left out. */
export function readTurnsToRepeat(
  db: Queryable,
  projectId: string,
  agentTurnIds: readonly string[],
): Promise<RepeatableTurn[]> {
  return db.query<RepeatableTurn>({
    name: 'bw_read_turns_to_repeat',
    text: `select t.*, i.payload ->> 'context_box_id' as context_box_id, i.payload ->> 'session_id' as session_id
      from unnest($2::text[]) k cross join lateral state.turn_row(k) i
      cross join lateral (select * from state.turns t where t.agent_turn_id = i.agent_turn_id) t
      where i.project_id = $1`,
    values: [projectId, agentTurnIds],
  })
}

/** A turn and its result, found by the inbox id that the caller chose when it enqueued the turn. */
export interface RequestedTurn {
  readonly inbox_id: string
  readonly agent_turn_id: string
  readonly outcome: 'success' | 'failed' | 'timeout' | 'canceled' | null
  readonly error: string | null
  readonly deliverable: Readonly<Record<string, unknown>> | null
  /** The worker target that the turn waits for, because it has no worker; null: it has one, or the turn has ended. */
  readonly no_worker_for: string | null
  /** Fresh tokens, with those of the turn's children if it has a budget. */
  readonly token_usage: number
  readonly output_tokens: number
  readonly cache_read_tokens: number
  readonly cache_write_tokens: number
  readonly cost_micros: number
  readonly exceeded_keys: readonly BudgetKey[]
  /** The limits that the agent file set. */
  readonly agent_limits: readonly BudgetKey[]
  /** Working time if the turn has a budget. */
  readonly elapsed_ms: number
}

export async function readRequestedTurns(
  db: Queryable,
  projectId: string,
  inboxIds: readonly string[],
): Promise<RequestedTurn[]> {
  return db.query<RequestedTurn>({
    name: 'bw_read_requested_turns',
    text: `select i.inbox_id, i.agent_turn_id, i.outcome, i.error, c.content as deliverable,
        case when i.ended_at is null then (select h.worker_target from state.head(i.project_id, i.agent_id) h
          where ${waitsForWorker}) end as no_worker_for,
        coalesce(b.tokens_used, u.tokens, 0) as token_usage,
        coalesce(b.output_tokens_used, u.output_tokens, 0) as output_tokens,
        coalesce(b.cache_read_tokens_used, u.cache_read_tokens, 0) as cache_read_tokens,
        coalesce(b.cache_write_tokens_used, u.cache_write_tokens, 0) as cache_write_tokens,
        coalesce(b.cost_micros_used, u.cost_micros, 0) as cost_micros,
        coalesce(b.exceeded_keys, '{}') as exceeded_keys, coalesce(b.agent_limits, '{}') as agent_limits,
        coalesce(b.wall_ms_used, extract(epoch from i.ended_at - coalesce(i.started_at, i.created_at)) * 1000, 0)::bigint
          as elapsed_ms
      from unnest($2::text[]) k
      cross join lateral (select * from state.agent_inbox i where i.inbox_id = k and i.project_id = $1 offset 0) i
      left join cards.cards c on c.card_id = i.deliverable_card_id
      left join state.budgets b on b.agent_turn_id = i.agent_turn_id
      left join lateral (select sum(s.tokens)::bigint as tokens, sum(s.output_tokens)::bigint as output_tokens,
          sum(s.cache_read_tokens)::bigint as cache_read_tokens,
          sum(s.cache_write_tokens)::bigint as cache_write_tokens, sum(s.cost_micros)::bigint as cost_micros
        from state.agent_steps t cross join lateral state.step_usage(t.metadata - 'charged') s
        where b.budget_id is null and t.agent_turn_id = i.agent_turn_id) u on true`,
    values: [projectId, inboxIds],
  })
}
