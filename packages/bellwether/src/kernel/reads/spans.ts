/**
 * Reads what took time in a turn: queue, leases, run, steps, tool calls, waits and children. Derived from the rows of the turn, with its transcript for
 * the calls that a program made itself. Reads only. Bounded: of more spans than fit, the first ones.
 */
import { spansMax, spanWithoutDetails, type ChildTurnRow, type SpanRow } from '@bellwether/protocol/http'
import type { Queryable } from '../../ports/database/database.js'
import { cost, readChildTurns, tokens } from './turn-detail.js'

const number = (path: string) => `case when jsonb_typeof(${path}) = 'number' then (${path})::double precision end`
const text = (path: string, most: number) => `left(${path}, ${most})`

/** The columns of a span, with null for those that a kind does not have. */
const columns = (expressions: Readonly<Record<string, string>>) =>
  Object.entries({ ...noColumns, ...expressions })
    .map(([name, value]) => `${value} as ${name}`)
    .join(', ')
const noColumns = {
  kind: 'null::text',
  span_id: 'null::text',
  parent_span_id: 'null::text',
  name: "''",
  agent_turn_id: '$1::text',
  status: 'null::text',
  started_at: 'null::timestamptz',
  ended_at: 'null::timestamptz',
  error: 'null::text',
  model: 'null::text',
  tokens: 'null::double precision',
  cost_micros: 'null::double precision',
  first_token_ms: 'null::double precision',
  tries: 'null::double precision',
  call_card_id: 'null::text',
  result_card_id: 'null::text',
  transcript_seq: 'null::int',
}

/**
 * A wait ends when its result is stored, or with the turn. A lease ends when a worker claims the turn: the first one, each takeover, and each
 * resume, which waits for a worker from the last result of its suspension on.
 */
const statement = `with turn as materialized (
    select i.created_at, i.leased_at, i.started_at, i.ended_at, i.outcome, i.error, i.agent_id from state.turn_row($1) i
  ), moves as materialized (
    select o.xid, o.event_id, o.created_at as at, case when o.agent_turn_ids is not null then 'takeover'
      when o.payload -> 'metadata' -> 'reclaimed' is not null then 'reclaim' else o.payload ->> 'status' end as what
    from state.outbox o where o.agent_turn_id = $1 and o.kind = 'state' and o.status is distinct from 'dispatched'
    order by o.xid, o.event_id limit ${spansMax + 1}
  ), waits as materialized (
    select w.* from state.turn_waiting_tools w where w.agent_turn_id = $1 order by w.wait_seq limit ${spansMax + 1}
  ), calls as materialized (
    select t.call_id, min(t.seq) filter (where t.kind = 'tool_call') as seq, min(t.name) as name,
      min(t.created_at) filter (where t.kind = 'tool_call') as started_at,
      max(t.created_at) filter (where t.kind = 'tool_result') as ended_at
    from state.transcript t where t.agent_turn_id = $1 and t.call_id is not null
      and t.kind in ('tool_call', 'tool_result')
    group by t.call_id
  ), spans as (
    select ${columns({ kind: "'queue'", span_id: "'queue'", started_at: 't.created_at', ended_at: 'coalesce(t.leased_at, t.started_at, t.ended_at)' })}
    from turn t
    union all
    select ${columns({ kind: "'lease'", span_id: "'lease'", started_at: 't.leased_at', ended_at: 'coalesce(t.started_at, t.ended_at)' })}
    from turn t
    union all
    select ${columns({ kind: "'lease'", span_id: "'lease ' || m.event_id", parent_span_id: "'run'", name: "'takeover'", started_at: 'm.at', ended_at: 'coalesce(n.at, t.ended_at)' })}
    from moves m cross join turn t left join lateral (
      select n.at from moves n where n.what in ('takeover', 'reclaim') and (n.xid, n.event_id) > (m.xid, m.event_id)
      order by n.xid, n.event_id limit 1) n on true
    where m.what = 'reclaim'
    union all
    select ${columns({ kind: "'lease'", span_id: "'lease ' || m.event_id", parent_span_id: "'run'", name: "'resume'", started_at: 'w.answered_at', ended_at: 'coalesce(n.at, t.ended_at)' })}
    from moves m cross join turn t cross join lateral (
      select max(r.created_at) as answered_at from waits w left join cards.cards r on r.card_id = w.tool_result_card_id
      where w.created_at = m.at having bool_and(r.card_id is not null)) w
    left join lateral (
      select n.at from moves n where n.what = 'running' and (n.xid, n.event_id) > (m.xid, m.event_id)
      order by n.xid, n.event_id limit 1) n on true
    where m.what = 'suspended'
    union all
    select ${columns({ kind: "'run'", span_id: "'run'", name: 't.agent_id', status: 't.outcome', started_at: 't.started_at', ended_at: 't.ended_at', error: text('t.error', 500) })}
    from turn t where t.started_at is not null
    union all
    (select ${columns({
      kind: "'step'",
      span_id: 's.step_id',
      parent_span_id: "'run'",
      name: text('s.phase', 200),
      status: 's.status',
      started_at: 's.started_at',
      ended_at: 's.ended_at',
      error: text('s.error', 500),
      model: text("s.metadata ->> 'model'", 200),
      tokens: `${tokens('total_tokens')}::double precision`,
      cost_micros: `round(${cost})::double precision`,
      first_token_ms: number("s.metadata -> 'first_token_ms'"),
      tries: number("s.metadata -> 'tries'"),
    })}
    from state.agent_steps s where s.agent_turn_id = $1 order by s.started_at limit ${spansMax + 1})
    union all
    select ${columns({
      kind: `case when w.tool_name = 'ask_person' then 'person' when w.tool_name like 'account %' then 'account' else 'tool' end`,
      span_id: "'call ' || w.tool_call_id",
      parent_span_id: "'run'",
      name: text('w.tool_name', 200),
      status: 'w.wait_status',
      started_at: 'w.created_at',
      ended_at: 'coalesce(r.created_at, t.ended_at)',
      call_card_id: 'w.tool_call_card_id',
      result_card_id: 'w.tool_result_card_id',
      transcript_seq: 'c.seq',
    })}
    from waits w cross join turn t left join cards.cards r on r.card_id = w.tool_result_card_id
    left join calls c on c.call_id = w.tool_call_id
    union all
    select ${columns({
      kind: "'tool'",
      span_id: "'call ' || c.call_id",
      parent_span_id: "'run'",
      name: text("coalesce(c.name, 'tool')", 200),
      status: "case when c.ended_at is null and t.ended_at is null then 'waiting' end",
      started_at: 'c.started_at',
      ended_at: 'coalesce(c.ended_at, t.ended_at)',
      transcript_seq: 'c.seq',
    })}
    from calls c cross join turn t
    where c.started_at is not null and not exists (select from waits w where w.tool_call_id = c.call_id)
    union all
    select ${columns({
      kind: "'person'",
      span_id: "'approval ' || a.approval_id",
      parent_span_id: "case when a.tool_call_id is null then 'run' else 'call ' || a.tool_call_id end",
      name: text("'approval of ' || a.tool_name", 200),
      status: 'a.status',
      started_at: 'a.asked_at',
      ended_at: 'coalesce(a.decided_at, t.ended_at)',
    })}
    from state.approvals a cross join turn t where a.agent_turn_id = $1
  )
  select * from spans where started_at is not null order by started_at, (kind <> 'queue'), (kind <> 'lease'), (kind <> 'run'), span_id
  limit ${spansMax + 1}`

export interface Spans {
  readonly spans: readonly SpanRow[]
  /** There are more. */
  readonly truncated: boolean
}

export async function readSpans(db: Queryable, agentTurnId: string): Promise<Spans> {
  const own = await db.query<SpanRow>({ name: 'bw_read_spans', text: statement, values: [agentTurnId] })
  const { children, truncated } = await readChildTurns(db, agentTurnId)
  const spans = [...own, ...childSpans(children, 'run')].sort((a, b) => a.started_at.getTime() - b.started_at.getTime())
  return { spans: spans.slice(0, spansMax), truncated: truncated || spans.length > spansMax }
}

/** A child begins when it is enqueued: its parent may wait for it from then on. */
function childSpans(children: readonly ChildTurnRow[], parent: string): SpanRow[] {
  return children.flatMap(({ agent_turn_id: id, created_at: at, ...child }) => {
    const span_id = `turn ${id}`
    const own: SpanRow = {
      ...spanWithoutDetails,
      kind: 'child',
      span_id,
      parent_span_id: parent,
      name: child.agent_id ?? '',
      agent_turn_id: id,
      status: child.status,
      started_at: new Date(at ?? 0),
      ended_at: child.ended_at === null ? null : new Date(child.ended_at),
      error: child.error,
    }
    // Without its row, nothing is known about its times.
    return [...(at === null ? [] : [own]), ...childSpans(child.children, at === null ? parent : span_id)]
  })
}
