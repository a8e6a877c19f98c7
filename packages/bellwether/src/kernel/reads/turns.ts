/**
 * Reads turns: lists page by page, and single turns. Reads only. Bounded: a list scans a fixed number of turns and returns a cursor where it
 * stopped, because the hot table has no index for rare filters.
 */
import type { BudgetKey, TurnStatus } from '@bellwether/protocol'
import type { TurnRow } from '@bellwether/protocol/http'
import type { Queryable } from '../../ports/database/database.js'
import { headStatuses } from '../turn.js'
import { waitsForWorker } from './gauges.js'

export interface TurnQuery {
  readonly projectId: string
  readonly agentId?: string | undefined
  readonly status?: TurnStatus | undefined
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
// Sorts after every id.
const newest = '~'

/** Newest first. */
export async function listTurns(db: Queryable, query: TurnQuery): Promise<TurnPage> {
  const { projectId, agentId = null, status = null, cursor = newest, limit } = query
  const values = [projectId, agentId, cursor, limit]
  if (status === 'queued') return paged(await db.query<TurnRow>({ ...queuedTurns, values }), limit)
  if (status !== null && (headStatuses as readonly string[]).includes(status))
    return paged(await db.query<TurnRow>({ ...activeTurns, values: [...values, status] }), limit)
  const found = await db.query<TurnRow & { readonly edge: string | null }>({ ...scanned, values: [...values, status] })
  const turns = found.filter((row) => row.agent_turn_id !== null).map(({ edge: _edge, ...row }) => row as TurnRow)
  return { turns, cursor: turns.length === limit ? turns.at(-1)!.agent_turn_id : (found[0]?.edge ?? null) }
}

function paged(turns: readonly TurnRow[], limit: number): TurnPage {
  return { turns, cursor: turns.length === limit ? turns.at(-1)!.agent_turn_id : null }
}

const queuedTurns = {
  name: 'bw_turns_queued',
  text: `select t.* from state.queue q cross join lateral state.inbox_row(q.inbox_id) i
    cross join lateral (select * from state.turns t where t.agent_turn_id = i.agent_turn_id) t
    where q.project_id = $1 and q.status = 'queued' and ($2::text is null or q.agent_id = $2) and i.agent_turn_id < $3
    order by i.agent_turn_id desc limit $4`,
}

const activeTurns = {
  name: 'bw_turns_active',
  text: `select t.* from state.agent_state_head h cross join lateral (select * from state.turns t
      where t.agent_turn_id = h.active_agent_turn_id) t
    where h.awake and h.active_agent_turn_id is not null and h.project_id = $1 and ($2::text is null or h.agent_id = $2)
      and h.active_agent_turn_id < $3
      and h.status = $5
    order by h.active_agent_turn_id desc limit $4`,
}

const scanned = {
  name: 'bw_turns_scanned',
  text: `with scanned as materialized (
      select i.agent_turn_id, i.project_id, i.agent_id, i.outcome from state.agent_inbox i
      where i.message_type in ('turn', 'ui_action') and i.agent_turn_id < $3
      order by i.agent_turn_id desc limit ${scanMax}
    ), page as (
      select l.agent_turn_id as id from scanned l
      where l.project_id = $1 and ($2::text is null or l.agent_id = $2) and ($5::text is null or l.outcome = $5)
      order by l.agent_turn_id desc limit $4
    )
    select e.edge, t.* from (select case when count(*) = ${scanMax} then min(agent_turn_id) end as edge from scanned) e
    left join page p on true left join lateral (select * from state.turns t where t.agent_turn_id = p.id) t on true
    order by t.agent_turn_id desc`,
}

export async function readTurn(db: Queryable, projectId: string, agentTurnId: string): Promise<TurnRow | undefined> {
  const [turn] = await db.query<TurnRow>({
    name: 'bw_read_turn',
    text: 'select * from state.turns where agent_turn_id = $1 and project_id = $2',
    values: [agentTurnId, projectId],
  })
  return turn
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
