/**
 * Counts what the fleet did, for metrics: turns by outcome, steps, tokens, tool calls and interventions. Reads only, bounded, by index.
 */
import type { Queryable } from '../../ports/database/database.js'
import { beginning } from '../verbs/events.js'

interface StepCount {
  readonly phase: string
  readonly seconds: number
  readonly input_tokens: number
  readonly output_tokens: number
  readonly cost_usd: number
}

export interface TurnCounts {
  readonly outcomes: readonly { readonly outcome: string; readonly turns: number; readonly seconds: number }[]
  readonly steps: readonly StepCount[]
  readonly tools: readonly { readonly status: string; readonly calls: number }[]
}

/** The present: where a process that begins to count starts. */
export async function countStart(db: Queryable) {
  const [row] = await db.query<{ cursor: string; intervention_id: string }>({
    text: `select readable as cursor,
        coalesce((select max(intervention_id) from state.interventions), 0)::text as intervention_id
      from state.outbox_end()`,
  })
  return { cursor: row?.cursor ?? beginning, interventionId: row?.intervention_id ?? '0' }
}

export interface InterventionCount {
  readonly kind: string
  readonly times: number
  /** The newest one that was counted. */
  readonly last: string
}

/** Interventions after this one, by kind. Leaves those of the last second: an earlier identity may still commit after a later one. */
export async function countInterventions(db: Queryable, after: string): Promise<InterventionCount[]> {
  return db.query<InterventionCount>({
    name: 'bw_count_interventions',
    text: `select kind, count(*)::int as times, max(intervention_id)::text as last from (
        select kind, intervention_id from state.interventions
        where intervention_id > $1::bigint and created_at < state.now() - interval '1 second'
        order by intervention_id limit 10000) v
      group by kind`,
    values: [after],
  })
}

// Steps read per call; further ones are not timed.
const stepsMax = 10_000

export async function countTurns(db: Queryable, turns: readonly string[]): Promise<TurnCounts> {
  if (turns.length === 0) return { outcomes: [], steps: [], tools: [] }
  const values = [turns]
  const [outcomes, steps, tools] = await Promise.all([
    db.query<TurnCounts['outcomes'][number]>({
      name: 'bw_count_outcomes',
      text: `select i.outcome, count(*)::int as turns,
          sum(extract(epoch from i.ended_at - i.created_at))::double precision as seconds
        from unnest($1::text[]) as t (id) cross join lateral state.turn_row(t.id) i where i.outcome is not null
        group by 1`,
      values,
    }),
    db.query<StepCount>({
      name: 'bw_count_steps',
      text: `select s.phase,
          coalesce(state.seconds(s.metadata -> 'duration_ms') / 1000, extract(epoch from s.ended_at - s.started_at),
          0)::double precision as seconds,
          ${numberIn('input_tokens')} as input_tokens, ${numberIn('output_tokens')} as output_tokens,
          ${numberIn('cost_usd')} as cost_usd
        from unnest($1::text[]) as t (id) cross join lateral (select * from state.agent_steps s
          where s.agent_turn_id = t.id offset 0) s
        limit ${stepsMax}`,
      values,
    }),
    db.query<TurnCounts['tools'][number]>({
      name: 'bw_count_tools',
      text: `select coalesce(r.payload ->> 'status', 'not_answered') as status, count(*)::int as calls
        from unnest($1::text[]) as t (id) cross join lateral (select * from state.turn_waiting_tools w
          where w.agent_turn_id = t.id offset 0) w
        left join lateral (select * from state.agent_inbox r
          where r.agent_turn_id = w.agent_turn_id and r.correlation_id = w.tool_call_id
          and r.message_type in ('tool_result', 'timeout') offset 0) r on true
        group by 1`,
      values,
    }),
  ])
  return { outcomes, steps, tools }
}

function numberIn(key: string): string {
  const value = `s.metadata -> 'usage' -> '${key}'`
  return `case when jsonb_typeof(${value}) = 'number' then (${value})::double precision else 0 end`
}
