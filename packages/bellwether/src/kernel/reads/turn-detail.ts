/**
 * Reads the details of one turn: steps, waits, interventions, parent and children, cards, usage and budget. Reads only. Bounded: long lists
 * keep their newest entries and are marked `truncated`; every part uses an index, however long the agent's history is.
 */
import type { ChildTurnRow, TurnRow, TurnTrail } from '@bellwether/protocol/http'
import type { Queryable } from '../../ports/database/database.js'
import type { Card } from '../verbs/cards.js'
import { cardBytes, readBoxWithin, type BoxBounds } from './cards.js'

// More steps than a person reads.
const listMax = 1_000
// 1,000 steps must fit into one response: of larger metadata only the usage is returned.
const metadataMax = 8_192
const brief = `jsonb_build_object('metadata', jsonb_strip_nulls(jsonb_build_object('usage', case
  when octet_length((s.metadata -> 'usage')::text) < ${metadataMax}
  then s.metadata -> 'usage' end, 'truncated', true)))`
// The largest tree that a page can show.
const childrenMax = 500
const generationsMax = 5
// A turn reads no more.
const contextCardsMax = 2_000
// The cards of one response; the boxes hold all cards.
const cardsMax = 500
const cardBytesMax = 1_048_576
// Above any real count; sums stay exact in JSON and JavaScript.
const countMax = 1e15

const counted = (path: string) =>
  `case when jsonb_typeof(${path}) = 'number' then least(${countMax}, greatest(0, (${path})::numeric)) end`
export const tokens = (name: string) => counted(`s.metadata -> 'usage' -> '${name}'`)
/** The cost that a step reports in micros, or its program in dollars. */
export const cost = `coalesce(${counted(`s.metadata -> 'cost_micros'`)},
  ${counted(`s.metadata -> 'usage' -> 'cost_usd'`)} * 1000000)`
/** The output box of turn $1. A turn that was forked has one of its own. */
export const outputBox = `(select case when h.active_agent_turn_id = i.agent_turn_id then h.output_box_id
      else coalesce(v.output_box_id, v.payload ->> 'output_box_id', i.payload ->> 'output_box_id', h.home_box_id) end
    from state.turn_row($1) i left join lateral state.head(i.project_id, i.agent_id) h on true
    left join state.outbox v on v.agent_turn_id = i.agent_turn_id and v.kind = 'task')`
/** Null if no step reported a cost: `least` alone would return the bound. */
const costs = `case when count(${cost}) > 0 then least(${countMax}, round(sum(${cost})))::double precision end`
/** How the turn of the inbox row i came from its source. The call that created a batch says which tool it was, as long as it is stored. */
const relation = `case when i.payload ? 'forked_from' then 'fork'
    when i.payload ? 'continues' then 'follow_up'
    else coalesce((select case when w.tool_name = 'delegate' then 'delegate' else 'fork_join' end
      from state.batch_tasks k join state.batches b on b.batch_id = k.batch_id
      left join state.turn_waiting_tools w on w.agent_turn_id = b.parent_agent_turn_id and w.tool_call_id = b.tool_call_id
      where k.agent_turn_id = i.agent_turn_id limit 1), 'enqueued') end`
const sum = (what: string) => `least(${countMax}, coalesce(sum(${what}), 0))::double precision`

export async function readTurnDetail(db: Queryable, agentTurnId: string): Promise<TurnTrail> {
  const [row] = await db.query<TurnTrail>({
    name: 'bw_read_turn_detail',
    text: `select
        (select jsonb_build_object('card_id', c.card_id, 'created_at', c.created_at) || case
          when c.metadata ->> 'kind' = 'fallback' then jsonb_build_object('kind', 'fallback',
            'content', c.content - 'fallback', 'fallback', c.content -> 'fallback')
          else jsonb_build_object('kind', 'result', 'content', c.content, 'fallback', null) end
          from state.turn_row($1) i
          join cards.cards c on c.card_id = i.deliverable_card_id) as deliverable,
        (select coalesce(jsonb_agg(to_jsonb(s) - 'project_id' - 'agent_id' || case
          when octet_length(s.metadata::text) > ${metadataMax} then ${brief} else '{}' end
            order by s.started_at), '[]') from (
          select * from state.agent_steps s where s.agent_turn_id = $1
          order by s.started_at desc limit ${listMax}) s) as steps,
        (select coalesce(jsonb_agg(to_jsonb(w) - '{project_id,agent_id,wait_seq,pmo_tool}'::text[]
          order by w.wait_seq), '[]')
          from (
          select * from state.turn_waiting_tools w where w.agent_turn_id = $1
          order by w.wait_seq desc limit ${listMax}) w) as waits,
        (select coalesce(jsonb_agg(to_jsonb(v) - '{project_id,agent_id,counted}'::text[]
          order by v.intervention_id), '[]') from (
          select * from state.interventions v where v.agent_turn_id = $1
          order by v.intervention_id desc limit ${listMax}) v) as interventions,
        (select jsonb_build_object('agent_turn_id', i.source_agent_turn_id, 'agent_id', i.source_agent_id,
          'status', t.status, 'outcome', t.outcome, 'relation', ${relation})
          from state.turn_row($1) i
          left join lateral (select status, outcome from state.turns t
            where t.agent_turn_id = i.source_agent_turn_id) t on true
          where i.source_agent_turn_id is not null) as parent,
        (select i.payload ->> 'context_box_id' from state.turn_row($1) i) as context_box_id,
        (select i.payload ->> 'session_id' from state.turn_row($1) i) as session_id,
        (select i.payload ->> 'continues' from state.turn_row($1) i) as continues,
        (select jsonb_build_object('agent_turn_id', i.payload -> 'forked_from' -> 'agent_turn_id',
            'step', i.payload -> 'forked_from' -> 'step')
          from state.turn_row($1) i where i.payload ? 'forked_from') as forked_from,
        (select i.payload -> 'imported_from' from state.turn_row($1) i) as imported_from,
        (select jsonb_build_object('memory', coalesce(m.memory, 'none'), 'cards', b.cards, 'bytes', b.bytes,
            'memory_cards', coalesce(m.cards, 0), 'memory_bytes', coalesce(m.bytes, 0),
            'memory_truncated', coalesce(m.truncated, false))
          from state.turn_row($1) i left join state.turn_memories m on m.agent_turn_id = i.agent_turn_id
          cross join lateral (select count(*) as cards, coalesce(sum(${cardBytes}), 0) as bytes
            from (select x.card_id from cards.box_cards x where x.box_id = i.payload ->> 'context_box_id'
              order by x.position desc limit ${contextCardsMax}) x
            join cards.cards c on c.card_id = x.card_id) b
          where i.started_at is not null) as context_size,
        ${outputBox} as output_box_id,
        (select jsonb_build_object('steps', count(*), 'total_tokens', ${sum(tokens('total_tokens'))},
          'input_tokens', ${sum(tokens('input_tokens'))},
            'output_tokens', ${sum(tokens('output_tokens'))},
            'cache_read_tokens', ${sum(tokens('cache_read_tokens'))},
            'cache_write_tokens', ${sum(tokens('cache_write_tokens'))}, 'cost_micros', ${costs})
          from state.agent_steps s where s.agent_turn_id = $1) as usage,
        (select jsonb_build_object('budget_id', b.budget_id, 'parent_budget_id', b.parent_budget_id,
            'tokens', jsonb_build_object('used', b.tokens_used, 'limit', b.token_limit),
            'cost_micros', jsonb_build_object('used', b.cost_micros_used, 'limit', b.cost_micros_limit),
            'wall_ms', jsonb_build_object('used', coalesce(state.working_ms(i.agent_turn_id), 0),
              'limit', b.wall_ms_limit), 'exceeded_keys', to_jsonb(b.exceeded_keys),
            'agent_limits', to_jsonb(b.agent_limits))
          from state.turn_row($1) i join state.budgets b on b.agent_turn_id = i.agent_turn_id) as budget`,
    values: [agentTurnId],
  })
  if (row === undefined) throw new Error(`The query for turn ${agentTurnId} returned no row`)
  return row
}

/** The reported cost per turn; turns without a reported cost are missing. */
export async function readCosts(db: Queryable, agentTurnIds: readonly string[]): Promise<ReadonlyMap<string, number>> {
  if (agentTurnIds.length === 0) return new Map()
  const rows = await db.query<{ id: string; cost: number | null }>({
    name: 'bw_read_costs',
    text: `select t.id, ${costs} as cost
      from unnest($1::text[]) as t (id) cross join lateral (select * from state.agent_steps s
        where s.agent_turn_id = t.id offset 0) s
      group by t.id`,
    values: [agentTurnIds],
  })
  return new Map(rows.flatMap(({ id, cost: micros }) => (micros === null ? [] : [[id, micros] as const])))
}

/** The status of turns by id; turns of other projects and removed turns are missing. */
export async function readTurnStatuses(
  db: Queryable,
  projectId: string,
  agentTurnIds: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const rows = await db.query<{ id: string; status: string }>({
    name: 'bw_read_turn_statuses',
    text: `select t.agent_turn_id as id, t.status from unnest($2::text[]) as k (id)
      cross join lateral (select * from state.turns t where t.agent_turn_id = k.id) t where t.project_id = $1`,
    values: [projectId, agentTurnIds],
  })
  return new Map(rows.map(({ id, status }) => [id, status]))
}

interface DescendantRow extends Omit<ChildTurnRow, 'children'> {
  readonly source: string
}

/** The turns that this turn enqueued, and their children, up to a limit. */
export async function readChildTurns(
  db: Queryable,
  agentTurnId: string,
): Promise<{ readonly children: readonly ChildTurnRow[]; readonly truncated: boolean }> {
  const rows = await db.query<DescendantRow>({
    name: 'bw_read_child_turns',
    text: `with recursive children (level, source, id, agent_id, edge_id) as (
        select 1, i.source_agent_turn_id, i.agent_turn_id, i.agent_id, i.inbox_id
        from state.agent_inbox i where i.source_agent_turn_id = $1
        union all
        select k.level + 1, i.source_agent_turn_id, i.agent_turn_id, i.agent_id, i.inbox_id from children k
        join state.agent_inbox i on i.source_agent_turn_id = k.id
        where k.level <= ${generationsMax}
      ), page as materialized (select * from children limit ${childrenMax + 1})
      select k.level, k.source, k.id as agent_turn_id, k.agent_id, t.status, t.outcome, t.error, t.created_at,
        t.started_at, t.ended_at, ${relation} as relation from page k
      left join lateral state.turn_row(k.id) i on true
      left join lateral (select * from state.turns t where t.agent_turn_id = k.id) t on true
      order by k.level, k.edge_id`,
    values: [agentTurnId],
  })
  return treeOf(agentTurnId, rows)
}

function treeOf(top: string, rows: readonly (DescendantRow & { readonly level?: number })[]) {
  const childrenOf = new Map<string, ChildTurnRow[]>([[top, []]])
  let truncated = rows.length > childrenMax
  for (const { source, level = 1, ...facts } of rows.slice(0, childrenMax)) {
    const siblings = childrenOf.get(source)
    // Too deep, without its parent in the list, or a duplicate.
    if (level > generationsMax || siblings === undefined || childrenOf.has(facts.agent_turn_id)) {
      truncated = true
      continue
    }
    const children: ChildTurnRow[] = []
    childrenOf.set(facts.agent_turn_id, children)
    siblings.push({ ...facts, children })
  }
  return { children: childrenOf.get(top) ?? [], truncated }
}

export interface TurnCards {
  /** The context that the turn read. */
  readonly context_cards: readonly Card[]
  /** The cards that it wrote, in order. */
  readonly cards: readonly Card[]
  readonly truncated: boolean
}

type Boxes = Pick<TurnTrail, 'context_box_id' | 'output_box_id'>

export async function readTurnCards(db: Queryable, turn: TurnRow, boxes: Boxes): Promise<TurnCards> {
  const nothing = { cards: [], bytes: 0, truncated: false }
  const { context_box_id: contextBoxId, output_box_id: outputBoxId } = boxes
  const bounds = { bytesMax: cardBytesMax, cardsMax }
  const context = contextBoxId === null ? nothing : await readBoxWithin(db, contextBoxId, bounds)
  const output =
    outputBoxId === null || turn.started_at === null ? nothing : await readWrittenCards(db, turn, outputBoxId, bounds)
  const truncated = context.truncated || output.truncated
  return { context_cards: context.cards, cards: output.cards, truncated }
}

/**
 * Finds the first position of a box whose card is not earlier than an instant. An output box holds the agent's complete history in time
 * order and has no index on time, so this is a binary search of about 30 steps.
 */
const placeOf = (name: string, isEarlier: string) => `${name}_probe (low, high) as (
    select (select position from cards.box_cards where box_id = $1 order by position limit 1),
      (select position from cards.box_cards where box_id = $1 order by position desc limit 1) + 1
    union all
    select case when n.earlier then n.position + 1 else p.low end, case when n.earlier then p.high else p.middle end
    from (select low, high, low + (high - low) / 2 as middle from ${name}_probe where low < high) p
    left join lateral (select x.position, ${isEarlier} as earlier from cards.box_cards x
      join cards.cards c on c.card_id = x.card_id
      where x.box_id = $1 and x.position >= p.middle and x.position < p.high order by x.position limit 1) n on true
  ), ${name} as (select high from ${name}_probe where low >= high limit 1)`

/** The newest cards that a turn wrote into its box, in order. */
export async function readWrittenCards(
  db: Queryable,
  turn: Pick<TurnRow, 'agent_turn_id'>,
  boxId: string,
  bounds: BoxBounds,
): Promise<{ readonly cards: readonly Card[]; readonly truncated: boolean }> {
  const rows = await db.query<Card & { readonly total: number }>({
    name: 'bw_read_turn_cards',
    // The cards that a fork began with are older than its start; those of imported turns are in the order of the imports.
    text: `with recursive times as (select coalesce(case when not i.payload ? 'imported_from' then i.ended_at end,
            'infinity') as ended_at,
          case when i.payload ?| '{forked_from,imported_from}' then '-infinity' else i.started_at end as started_at
        from state.turn_row($2) i),
      ${placeOf('first', 'c.created_at < (select started_at from times)')},
      ${placeOf('last', 'c.created_at <= (select ended_at from times)')},
      page as (
        select c.card_id, c.type, c.role, c.content, c.metadata, c.created_at, x.position,
          octet_length(c.content::text) as size
        from cards.box_cards x join cards.cards c on c.card_id = x.card_id
        where x.box_id = $1 and x.position >= (select high from first) and x.position < (select high from last)
          and coalesce(c.metadata ->> 'agent_turn_id', $2) = $2
        order by x.position desc limit $3::int + 1)
      select card_id, type, role, content, metadata, created_at, total::int from (
        select *, count(*) over () as total, sum(size) over (order by position desc) - size as newer from page) s
      where newer < $4::bigint order by position desc limit $3::int`,
    values: [boxId, turn.agent_turn_id, bounds.cardsMax, bounds.bytesMax],
  })
  const truncated = rows.length > 0 && rows[0]!.total > rows.length
  return { cards: rows.toReversed().map(({ total: _total, ...card }) => card), truncated }
}
