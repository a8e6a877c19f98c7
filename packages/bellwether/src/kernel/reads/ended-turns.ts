/**
 * Reads what the database holds of turns that have ended: the rows that spans are made of. Reads only, by index, in the order of the
 * outbox, without locks.
 */
import type { Outcome } from '@bellwether/protocol'
import type { InterventionRow, StepRow, TurnRow, WaitRow } from '@bellwether/protocol/http'
import type { Queryable } from '../../ports/database/database.js'

export interface EndedTurnRow extends Omit<
  TurnRow,
  | 'inbox_id'
  | 'correlation_id'
  | 'status'
  | 'source_agent_id'
  | 'source_step_id'
  | 'turn_deadline'
  | 'resume_deadline'
  | 'waiting_tool_count'
  | 'activity'
  | 'current_tool'
> {
  readonly ended_at: Date
  readonly outcome: Outcome
  readonly profile_id: string | null
}

export type EndedStep = Omit<StepRow, 'tool_call_ids'>

export interface EndedWait extends Pick<
  WaitRow,
  'agent_turn_id' | 'step_id' | 'tool_call_id' | 'tool_name' | 'wait_status' | 'started_by' | 'created_at'
> {
  readonly project_id: string
  readonly answered_at: Date | null
  readonly status: string | null
  readonly error: string | null
}

export interface EndedIntervention extends Pick<InterventionRow, 'kind' | 'reason' | 'turn_epoch' | 'created_at'> {
  readonly agent_turn_id: string
}

export interface EndedTurns {
  readonly turns: readonly EndedTurnRow[]
  readonly steps: readonly EndedStep[]
  readonly waits: readonly EndedWait[]
  readonly interventions: readonly EndedIntervention[]
}

// A turn with more steps or waits than this went wrong, and its first 500 show how.
const rowsPerTurn = 500

export async function readEndedTurns(db: Queryable, agentTurnIds: readonly string[]): Promise<EndedTurns> {
  const values = [agentTurnIds]
  const [turns, steps, waits, interventions] = await Promise.all([
    db.query<EndedTurnRow>({
      name: 'bw_ended_turns',
      text: `select i.project_id, i.agent_id, i.agent_turn_id, i.turn_epoch, i.message_type, i.channel_id,
          state.trace_of(i.agent_turn_id, i.traceparent) as traceparent, i.deaths, i.claimed_by, i.recursion_depth,
          i.created_at, i.started_at, i.ended_at, i.outcome, i.error, i.deliverable_card_id, a.profile_id
        from unnest($1::text[]) as t (id) cross join lateral state.turn_row(t.id) i
        left join resource.project_agents a on a.project_id = i.project_id and a.agent_id = i.agent_id
        where i.ended_at is not null`,
      values,
    }),
    db.query<EndedStep>({
      name: 'bw_ended_steps',
      text: `select s.agent_turn_id, s.step_id, s.phase, s.status, left(s.error, 1000) as error, s.started_at,
          s.ended_at,
          jsonb_build_object('usage', s.metadata -> 'usage', 'model', s.metadata -> 'model',
          'duration_ms', s.metadata -> 'duration_ms') as metadata
        from unnest($1::text[]) as t (id) cross join lateral (
          select * from state.agent_steps s where s.agent_turn_id = t.id
          order by s.started_at, s.step_id limit ${rowsPerTurn}) s`,
      values,
    }),
    db.query<EndedWait>({
      name: 'bw_ended_waits',
      text: `select w.project_id, w.agent_turn_id, w.step_id, w.tool_call_id, w.tool_name, w.wait_status, w.started_by,
          w.created_at, r.created_at as answered_at, r.payload ->> 'status' as status,
          r.payload -> 'error' ->> 'code' as error
        from unnest($1::text[]) as t (id) cross join lateral (
          select * from state.turn_waiting_tools w where w.agent_turn_id = t.id
          order by w.wait_seq limit ${rowsPerTurn}) w
        left join lateral (select * from state.agent_inbox r
          where r.agent_turn_id = w.agent_turn_id and r.correlation_id = w.tool_call_id
          and r.message_type in ('tool_result', 'timeout') offset 0) r on true`,
      values,
    }),
    db.query<EndedIntervention>({
      name: 'bw_ended_interventions',
      text: `select v.agent_turn_id, v.kind, v.reason, v.turn_epoch, v.created_at
        from unnest($1::text[]) as t (id) cross join lateral (
          select * from state.interventions v where v.agent_turn_id = t.id order by v.intervention_id limit 100) v`,
      values,
    }),
  ])
  return { turns, steps, waits, interventions }
}

export interface EndedPage {
  readonly turns: readonly string[]
  /** The cursor of the last event on the page; undefined: the page is empty. */
  readonly last: string | undefined
  readonly full: boolean
}

// Rows of a few dozen bytes: reading one page takes a few milliseconds.
const eventsMax = 2_000

/** Turns that ended after this cursor; none is skipped (hazard 4), except those whose events were removed by retention. */
export async function readEnded(db: Queryable, cursor: string): Promise<EndedPage> {
  const rows = await db.query<{ cursor: string; kind: string; agent_turn_id: string | null }>({
    name: 'bw_read_ended',
    text: `select e.xid || ':' || e.event_id as cursor, e.kind, e.agent_turn_id
      from (select $1::text::xid8 as xid, $2::bigint as event_id
        union all select xid, event_id from state.event_cursors where name = 'pruned'
        order by xid desc, event_id desc limit 1) c, state.read_events(c.xid, c.event_id, $3) e`,
    values: [...cursor.split(':'), eventsMax],
  })
  const turns = rows.flatMap((row) => (row.kind === 'task' && row.agent_turn_id !== null ? [row.agent_turn_id] : []))
  return { turns, last: rows.at(-1)?.cursor, full: rows.length === eventsMax }
}
