/**
 * What became of one turn, besides its row: steps, waits, watchdogs, kin, cards, what it used and what it may use. Reads only. Always
 * bounded: long trails keep their newest, and say so; every part is found by an index, however long the agent has been at work.
 */
import type { Queryable } from '../../ports/database/database.js'
import type { Card } from '../verbs/cards.js'
import { readBoxWithin } from './cards.js'
import type { TurnRow } from './turns.js'

export interface Kin {
  readonly agent_turn_id: string
  readonly agent_id: string
  readonly status: string | null
  readonly outcome: string | null
  readonly error: string | null
  readonly created_at: Date | null
  readonly started_at: Date | null
  readonly ended_at: Date | null
  readonly children: readonly Kin[]
}

export interface Usage {
  readonly steps: number
  readonly total_tokens: number
  readonly input_tokens: number
  readonly output_tokens: number
  /** Null: no step told what it cost. */
  readonly cost_micros: number | null
}

interface Purse {
  readonly used: number
  /** Null: not limited here. */
  readonly limit: number | null
}

export interface BudgetFacts {
  readonly budget_id: string
  readonly parent_budget_id: string | null
  readonly tokens: Purse
  readonly cost_micros: Purse
  readonly wall_ms: Purse
}

export interface Trail {
  readonly deliverable: { readonly card_id: string; readonly content: unknown; readonly created_at: string } | null
  readonly steps: readonly unknown[]
  readonly waits: readonly unknown[]
  readonly interventions: readonly unknown[]
  readonly parent: unknown
  readonly context_box_id: string | null
  readonly output_box_id: string | null
  readonly usage: Usage
  /** Null: nothing limits it. */
  readonly budget: BudgetFacts | null
}

// A thousand steps of a turn are more than anybody reads.
const trailMax = 1_000
// A step may carry much more, and a thousand of them must still be one answer: of a large one the account is kept.
const metadataMax = 8_192
const brief = `jsonb_build_object('metadata', jsonb_strip_nulls(jsonb_build_object('usage', case
  when octet_length((s.metadata -> 'usage')::text) < ${metadataMax}
  then s.metadata -> 'usage' end, 'truncated', true)))`
// A family tree that a page can show.
const kinMax = 500
const generationsMax = 5
// What one answer carries of cards; the boxes have all of them.
const cardsMax = 500
const cardBytesMax = 1_048_576
// Beyond any honest count; a sum of many stays a number that JSON and JavaScript agree about.
const countMax = 1e15

const counted = (path: string) =>
  `case when jsonb_typeof(${path}) = 'number' then least(${countMax}, greatest(0, (${path})::numeric)) end`
const tokens = (name: string) => counted(`s.metadata -> 'usage' -> '${name}'`)
/** A step tells its cost in micros, or its program in dollars. */
const cost = `coalesce(${counted(`s.metadata -> 'cost_micros'`)},
  ${counted(`s.metadata -> 'usage' -> 'cost_usd'`)} * 1000000)`
/** Null where no step told one: `least` alone would take the bound for it. */
const costs = `case when count(${cost}) > 0 then least(${countMax}, round(sum(${cost})))::double precision end`
const sum = (what: string) => `least(${countMax}, coalesce(sum(${what}), 0))::double precision`

export async function readTrail(db: Queryable, agentTurnId: string): Promise<Trail> {
  const [row] = await db.query<Trail>({
    name: 'bw_read_trail',
    text: `select
        (select jsonb_build_object('card_id', c.card_id, 'content', c.content, 'created_at', c.created_at)
          from state.turn_row($1) i
          join cards.cards c on c.card_id = i.deliverable_card_id) as deliverable,
        (select coalesce(jsonb_agg(to_jsonb(s) - 'project_id' - 'agent_id' || case
          when octet_length(s.metadata::text) > ${metadataMax} then ${brief} else '{}' end
            order by s.started_at), '[]') from (
          select * from state.agent_steps s where s.agent_turn_id = $1
          order by s.started_at desc limit ${trailMax}) s) as steps,
        (select coalesce(jsonb_agg(to_jsonb(w) - 'project_id' - 'agent_id' - 'wait_seq' order by w.wait_seq), '[]')
          from (
          select * from state.turn_waiting_tools w where w.agent_turn_id = $1
          order by w.wait_seq desc limit ${trailMax}) w) as waits,
        (select coalesce(jsonb_agg(to_jsonb(v) - 'project_id' - 'agent_id' order by v.intervention_id), '[]') from (
          select * from state.interventions v where v.agent_turn_id = $1
          order by v.intervention_id desc limit ${trailMax}) v) as interventions,
        (select jsonb_build_object('agent_turn_id', e.source_agent_turn_id, 'agent_id', e.source_agent_id,
          'status', t.status, 'outcome', t.outcome)
          from state.turn_row($1) i join state.execution_edges e on e.edge_id = i.inbox_id
          left join lateral (select status, outcome from state.turns t
            where t.agent_turn_id = e.source_agent_turn_id) t on true
          where e.source_agent_turn_id is not null) as parent,
        (select i.payload ->> 'context_box_id' from state.turn_row($1) i) as context_box_id,
        (select case when h.active_agent_turn_id = i.agent_turn_id then h.output_box_id
            else coalesce(v.payload ->> 'output_box_id', i.payload ->> 'output_box_id', h.home_box_id) end
          from state.turn_row($1) i cross join lateral state.head(i.project_id, i.agent_id) h
          left join state.events v on v.agent_turn_id = i.agent_turn_id and v.kind = 'task') as output_box_id,
        (select jsonb_build_object('steps', count(*), 'total_tokens', ${sum(tokens('total_tokens'))},
          'input_tokens', ${sum(tokens('input_tokens'))},
            'output_tokens', ${sum(tokens('output_tokens'))}, 'cost_micros', ${costs})
          from state.agent_steps s where s.agent_turn_id = $1) as usage,
        (select jsonb_build_object('budget_id', b.budget_id, 'parent_budget_id', b.parent_budget_id,
            'tokens', jsonb_build_object('used', b.tokens_used, 'limit', b.token_limit),
            'cost_micros', jsonb_build_object('used', b.cost_micros_used, 'limit', b.cost_micros_limit),
            'wall_ms', jsonb_build_object('used',
            coalesce(round(extract(epoch from coalesce(i.ended_at, state.now()) - i.started_at) * 1000), 0),
              'limit', b.wall_ms_limit))
          from state.turn_row($1) i join state.budgets b on b.agent_turn_id = i.agent_turn_id) as budget`,
    values: [agentTurnId],
  })
  if (row === undefined) throw new Error('a question without a condition has an answer')
  return row
}

/** What turns have used together with those steps that told it, by turn; turns without a step are not in it. */
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

/** How turns stand, by their ids; those of other projects, and those that retention has removed, are not in it. */
export async function readStandings(
  db: Queryable,
  projectId: string,
  agentTurnIds: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const rows = await db.query<{ id: string; status: string }>({
    name: 'bw_read_standings',
    text: `select t.agent_turn_id as id, t.status from unnest($2::text[]) as k (id)
      cross join lateral (select * from state.turns t where t.agent_turn_id = k.id) t where t.project_id = $1`,
    values: [projectId, agentTurnIds],
  })
  return new Map(rows.map(({ id, status }) => [id, status]))
}

interface KinRow extends Omit<Kin, 'children'> {
  readonly source: string
}

/** The turns that this one asked for, those that they asked for, and so on, to a bound. */
export async function readKin(
  db: Queryable,
  agentTurnId: string,
): Promise<{ readonly children: readonly Kin[]; readonly truncated: boolean }> {
  const rows = await db.query<KinRow>({
    name: 'bw_read_kin',
    text: `with recursive kin (level, source, id, agent_id, edge_id) as (
        select 1, e.source_agent_turn_id, e.target_agent_turn_id, e.target_agent_id, e.edge_id
        from state.execution_edges e
        where e.source_agent_turn_id = $1 and e.primitive = 'enqueue'
        union all
        select k.level + 1, e.source_agent_turn_id, e.target_agent_turn_id, e.target_agent_id, e.edge_id from kin k
        join state.execution_edges e on e.source_agent_turn_id = k.id and e.primitive = 'enqueue'
        where k.level <= ${generationsMax}
      ), page as materialized (select * from kin limit ${kinMax + 1})
      select k.level, k.source, k.id as agent_turn_id, k.agent_id, t.status, t.outcome, t.error, t.created_at,
        t.started_at, t.ended_at from page k
      left join lateral (select * from state.turns t where t.agent_turn_id = k.id) t on true
      order by k.level, k.edge_id`,
    values: [agentTurnId],
  })
  return familyOf(agentTurnId, rows)
}

function familyOf(top: string, rows: readonly (KinRow & { readonly level?: number })[]) {
  const childrenOf = new Map<string, Kin[]>([[top, []]])
  let truncated = rows.length > kinMax
  for (const { source, level = 1, ...facts } of rows.slice(0, kinMax)) {
    const siblings = childrenOf.get(source)
    // A level too deep, one whose parent was left out, or a turn that is there already.
    if (level > generationsMax || siblings === undefined || childrenOf.has(facts.agent_turn_id)) {
      truncated = true
      continue
    }
    const children: Kin[] = []
    childrenOf.set(facts.agent_turn_id, children)
    siblings.push({ ...facts, children })
  }
  return { children: childrenOf.get(top) ?? [], truncated }
}

export interface TurnCards {
  /** What the turn was given. */
  readonly context_cards: readonly Card[]
  /** What it wrote, in order. */
  readonly cards: readonly Card[]
  readonly truncated: boolean
}

type Boxes = Pick<Trail, 'context_box_id' | 'output_box_id'>

export async function readTurnCards(db: Queryable, turn: TurnRow, boxes: Boxes): Promise<TurnCards> {
  const nothing = { cards: [], truncated: false }
  const { context_box_id: given, output_box_id: written } = boxes
  const context = given === null ? nothing : await readBoxWithin(db, given, cardBytesMax, cardsMax)
  const output = written === null || turn.started_at === null ? nothing : await writtenBy(db, turn, written)
  const truncated = context.truncated || output.truncated
  return { context_cards: context.cards, cards: output.cards, truncated }
}

/**
 * The first place of a box whose card is not older than an instant (`after`: that is newer). An output box is its agent's whole past, in
 * the order of time and without an index of it: so it is halved, some thirty times, and not read.
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

async function writtenBy(
  db: Queryable,
  turn: TurnRow,
  boxId: string,
): Promise<{ readonly cards: readonly Card[]; readonly truncated: boolean }> {
  const rows = await db.query<Card & { readonly total: number }>({
    name: 'bw_read_turn_cards',
    text: `with recursive times as (select i.started_at, coalesce(i.ended_at, 'infinity') as ended_at
        from state.turn_row($2) i),
      ${placeOf('first', 'c.created_at < (select started_at from times)')},
      ${placeOf('last', 'c.created_at <= (select ended_at from times)')},
      page as (
        select c.card_id, c.type, c.role, c.content, c.metadata, c.created_at, x.position,
          octet_length(c.content::text) as size
        from cards.box_cards x join cards.cards c on c.card_id = x.card_id
        where x.box_id = $1 and x.position >= (select high from first) and x.position < (select high from last)
          and coalesce(c.metadata ->> 'agent_turn_id', $2) = $2
        order by x.position desc limit ${cardsMax + 1})
      select card_id, type, role, content, metadata, created_at, total::int from (
        select *, count(*) over () as total, sum(size) over (order by position desc) - size as newer from page) s
      where newer < ${cardBytesMax} order by position desc limit ${cardsMax}`,
    values: [boxId, turn.agent_turn_id],
  })
  const truncated = rows.length > 0 && rows[0]!.total > rows.length
  return { cards: rows.toReversed().map(({ total: _total, ...card }) => card), truncated }
}
