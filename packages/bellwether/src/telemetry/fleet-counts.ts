/**
 * What the fleet has done since this process began to count: turns by outcome, steps, tokens, tool calls, interventions. Read from the
 * outbox by cursor, a bounded part a look, so that each is counted once and no turn waits for it, whoever did the work.
 */
import type { Queryable } from '../ports/database/database.js'
import { readEnded, type Position } from './trail.js'

export interface StepFact {
  readonly phase: string
  readonly seconds: number
  readonly input_tokens: number
  readonly output_tokens: number
  readonly cost_usd: number
}

export interface Counted {
  readonly outcomes: readonly { readonly outcome: string; readonly turns: number; readonly seconds: number }[]
  readonly steps: readonly StepFact[]
  readonly tools: readonly { readonly status: string; readonly calls: number }[]
  readonly interventions: readonly { readonly kind: string; readonly times: number }[]
}

export interface FleetCounts {
  /** What is new since the last look. */
  look(onCounted: (counted: Counted) => void): Promise<void>
}

// 40,000 events: what a busy fleet does in a few seconds; a backlog is counted by the next looks.
const pagesMax = 20
// Steps that one page of turns is asked for; more are not timed.
const stepsMax = 10_000

export async function openFleetCounts(db: Queryable): Promise<FleetCounts> {
  const [start] = await db.query<Position & { readonly intervention_id: string }>({
    text: `select pg_snapshot_xmin(pg_current_snapshot())::text as xid, '0' as event_id,
      coalesce((select max(intervention_id) from state.interventions), 0)::text as intervention_id`,
  })
  let position: Position = { xid: start?.xid ?? '0', event_id: '0' }
  let intervention = start?.intervention_id ?? '0'

  async function interventions(): Promise<Counted['interventions']> {
    // An identity may be committed after a later one: what is younger than a moment is left for the next look.
    const rows = await db.query<{ kind: string; times: number; last: string }>({
      name: 'bw_count_interventions',
      text: `select kind, count(*)::int as times, max(intervention_id)::text as last from (
          select kind, intervention_id from state.interventions
          where intervention_id > $1::bigint and created_at < state.now() - interval '1 second' order by intervention_id limit 10000) v
        group by kind`,
      values: [intervention],
    })
    for (const { last } of rows) if (BigInt(last) > BigInt(intervention)) intervention = last
    return rows
  }

  async function count(turns: readonly string[]): Promise<Pick<Counted, 'outcomes' | 'steps' | 'tools'>> {
    if (turns.length === 0) return { outcomes: [], steps: [], tools: [] }
    const values = [turns]
    const [outcomes, steps, tools] = await Promise.all([
      db.query<Counted['outcomes'][number]>({
        name: 'bw_count_outcomes',
        text: `select i.outcome, count(*)::int as turns, sum(extract(epoch from i.ended_at - i.created_at))::double precision as seconds
          from unnest($1::text[]) as t (id) cross join lateral state.turn_row(t.id) i where i.outcome is not null group by 1`,
        values,
      }),
      db.query<StepFact>({
        name: 'bw_count_steps',
        text: `select s.phase,
            coalesce(state.seconds(s.metadata -> 'duration_ms') / 1000, extract(epoch from s.ended_at - s.started_at), 0)::double precision as seconds,
            ${numberIn('input_tokens')} as input_tokens, ${numberIn('output_tokens')} as output_tokens, ${numberIn('cost_usd')} as cost_usd
          from unnest($1::text[]) as t (id) cross join lateral (select * from state.agent_steps s where s.agent_turn_id = t.id offset 0) s
          limit ${stepsMax}`,
        values,
      }),
      db.query<Counted['tools'][number]>({
        name: 'bw_count_tools',
        text: `select coalesce(r.payload ->> 'status', 'not_answered') as status, count(*)::int as calls
          from unnest($1::text[]) as t (id) cross join lateral (select * from state.turn_waiting_tools w where w.agent_turn_id = t.id offset 0) w
          left join lateral (select * from state.agent_inbox r where r.agent_turn_id = w.agent_turn_id and r.correlation_id = w.tool_call_id
            and r.message_type in ('tool_result', 'timeout') offset 0) r on true
          group by 1`,
        values,
      }),
    ])
    return { outcomes, steps, tools }
  }

  return {
    async look(onCounted) {
      onCounted({ outcomes: [], steps: [], tools: [], interventions: await interventions() })
      for (let page = 0; page < pagesMax; page += 1) {
        const { turns, last, full } = await readEnded(db, position)
        if (last === undefined) return
        const counted = await count(turns)
        // Together with the position: a look that failed before it is repeated, and counts nothing twice.
        position = last
        onCounted({ ...counted, interventions: [] })
        if (!full) return
      }
    },
  }
}

function numberIn(key: string): string {
  const value = `s.metadata -> 'usage' -> '${key}'`
  return `case when jsonb_typeof(${value}) = 'number' then (${value})::double precision else 0 end`
}
