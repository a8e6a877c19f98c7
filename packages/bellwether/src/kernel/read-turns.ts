/**
 * Turns as people and programs look at them: lists by the page, and one turn with its trail. Reads only. Always bounded: a list
 * looks at a fixed number of turns and says where it stopped, because no index of the hot table is spent on rare questions.
 */
import { outcomes } from '@bellwether/protocol'
import type { Queryable } from '../ports/database/database.js'
import { headStatuses } from './turn.js'

export interface TurnRow {
  readonly agent_turn_id: string
  readonly inbox_id: string
  readonly project_id: string
  readonly agent_id: string
  readonly status: string
  readonly turn_epoch: number | null
  readonly created_at: Date
  readonly started_at: Date | null
  readonly ended_at: Date | null
  readonly outcome: string | null
  readonly deliverable_card_id: string | null
  readonly error: string | null
  readonly [column: string]: unknown
}

// A head at rest has no turn.
const [, ...activeStatuses] = headStatuses
const queued = 'queued'
/** What a list may be asked for. */
export const turnStatuses = [queued, ...activeStatuses, ...outcomes] as const
export type TurnStatus = (typeof turnStatuses)[number]

export interface TurnQuery {
  readonly projectId: string
  readonly agentId?: string | undefined
  readonly status?: TurnStatus | undefined
  /** Turns older than this one. */
  readonly cursor?: string | undefined
  readonly limit: number
}

export interface TurnPage {
  readonly turns: readonly TurnRow[]
  /** Null at the end. A page may be short, even empty, and still have one: ask on. */
  readonly cursor: string | null
}

// One look reads this many index entries at most: about 10 ms.
const lookMax = 5_000
// Behind every id.
const newest = '~'

/** Newest first. */
export async function listTurns(db: Queryable, query: TurnQuery): Promise<TurnPage> {
  const { projectId, agentId = null, status = null, cursor = newest, limit } = query
  const values = [projectId, agentId, cursor, limit]
  if (status === queued) return paged(await db.query<TurnRow>({ ...inLine, values }), limit)
  if (status !== null && (activeStatuses as readonly string[]).includes(status))
    return paged(await db.query<TurnRow>({ ...active, values: [...values, status] }), limit)
  const found = await db.query<TurnRow & { readonly edge: string | null }>({ ...looked, values: [...values, status] })
  const turns = found.filter((row) => row.agent_turn_id !== null).map(({ edge: _edge, ...row }) => row as TurnRow)
  return { turns, cursor: turns.length === limit ? turns.at(-1)!.agent_turn_id : (found[0]?.edge ?? null) }
}

function paged(turns: readonly TurnRow[], limit: number): TurnPage {
  return { turns, cursor: turns.length === limit ? turns.at(-1)!.agent_turn_id : null }
}

const inLine = {
  name: 'bw_turns_in_line',
  text: `select t.* from state.agent_inbox i cross join lateral (select * from state.turns t where t.agent_turn_id = i.agent_turn_id) t
    where i.project_id = $1 and i.status = 'queued' and ($2::text is null or i.agent_id = $2) and i.agent_turn_id < $3
    order by i.agent_turn_id desc limit $4`,
}

const active = {
  name: 'bw_turns_active',
  text: `select t.* from state.agent_state_head h cross join lateral (select * from state.turns t where t.agent_turn_id = h.active_agent_turn_id) t
    where h.active_agent_turn_id is not null and h.project_id = $1 and ($2::text is null or h.agent_id = $2) and h.active_agent_turn_id < $3
      and h.status = $5
    order by h.active_agent_turn_id desc limit $4`,
}

const looked = {
  name: 'bw_turns_looked',
  text: `with looked as materialized (
      select i.agent_turn_id, i.project_id, i.agent_id, i.outcome from state.agent_inbox i
      where i.message_type in ('turn', 'ui_action') and i.agent_turn_id < $3 order by i.agent_turn_id desc limit ${lookMax}
    ), page as (
      select l.agent_turn_id as id from looked l
      where l.project_id = $1 and ($2::text is null or l.agent_id = $2) and ($5::text is null or l.outcome = $5)
      order by l.agent_turn_id desc limit $4
    )
    select e.edge, t.* from (select case when count(*) = ${lookMax} then min(agent_turn_id) end as edge from looked) e
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

/** What became of a turn, besides its row. Long trails are cut; the newest is what people look for. */
export async function readTrail(db: Queryable, agentTurnId: string): Promise<Readonly<Record<string, unknown>>> {
  const [row] = await db.query<Record<string, unknown>>({
    name: 'bw_read_trail',
    text: `select
        (select jsonb_build_object('card_id', c.card_id, 'content', c.content, 'created_at', c.created_at) from state.turn_row($1) i
          join cards.cards c on c.card_id = i.deliverable_card_id) as deliverable,
        (select coalesce(jsonb_agg(to_jsonb(s) - 'project_id' - 'agent_id' order by s.started_at), '[]') from (
          select * from state.agent_steps s where s.agent_turn_id = $1 order by s.started_at desc limit ${trailMax}) s) as steps,
        (select coalesce(jsonb_agg(to_jsonb(w) - 'project_id' - 'agent_id' - 'wait_seq' order by w.wait_seq), '[]') from (
          select * from state.turn_waiting_tools w where w.agent_turn_id = $1 order by w.wait_seq desc limit ${trailMax}) w) as waits,
        (select coalesce(jsonb_agg(to_jsonb(v) - 'project_id' - 'agent_id' order by v.intervention_id), '[]') from (
          select * from state.interventions v where v.agent_turn_id = $1 order by v.intervention_id desc limit ${trailMax}) v) as interventions,
        (select coalesce(jsonb_agg(jsonb_build_object('agent_turn_id', e.target_agent_turn_id, 'agent_id', e.target_agent_id, 'status', t.status)
          order by e.edge_id), '[]') from (
            select * from state.execution_edges e where e.source_agent_turn_id = $1 and e.primitive = 'enqueue' order by e.edge_id desc limit ${trailMax}) e
          left join lateral (select status from state.turns t where t.agent_turn_id = e.target_agent_turn_id) t on true) as children,
        (select jsonb_build_object('agent_turn_id', e.source_agent_turn_id, 'agent_id', e.source_agent_id) from state.turn_row($1) i
          join state.execution_edges e on e.edge_id = i.inbox_id where e.source_agent_turn_id is not null) as parent,
        (select i.payload ->> 'context_box_id' from state.turn_row($1) i) as context_box_id,
        (select case when h.active_agent_turn_id = i.agent_turn_id then h.output_box_id else coalesce(i.payload ->> 'output_box_id', h.home_box_id) end
          from state.turn_row($1) i cross join lateral state.head(i.project_id, i.agent_id) h) as output_box_id`,
    values: [agentTurnId],
  })
  return row ?? {}
}

// A thousand steps of a turn are more than anybody reads.
const trailMax = 1_000
