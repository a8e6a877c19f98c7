/**
 * Fills the tables with finished turns, as on a system that has run for a long time: per turn the rows that a bulk turn leaves, in the
 * layout of decision 0015. The rows are written directly, because only what runs afterwards is measured. Consecutive turns belong to one
 * agent, so that the rows enter every index in its order: in random order, most of the time would go into reading index pages.
 */
import type { Database } from '../src/ports/database/database.js'

const chunk = 100_000

/** The ids of past turns and their cards begin with this: no id of a turn that runs now does. */
export const pastIds = '01000000-0000-7000-8000-'

export async function fillHistory(
  db: Database,
  turns: number,
  agents: number,
  onProgress: (line: string) => void,
): Promise<void> {
  for (let from = 0; from < turns; from += chunk) {
    const upTo = Math.min(turns, from + chunk) - 1
    await db.transaction(async (tx) => {
      for (const text of statements(from, upTo, turns, agents)) await tx.query({ text })
    })
    onProgress(`history: ${upTo + 1} of ${turns} finished turns`)
  }
}

function statements(from: number, upTo: number, turns: number, agents: number): string[] {
  const announced = (status: string) => `
    insert into state.outbox (project_id, channel_id, kind, status, agent_ids, agent_turn_ids, turn_epochs, created_at)
    select 'bench', 'public', 'state', '${status}', array_agg(agent_id order by id), array_agg(id order by id), array_agg(1::bigint), min(t)
    from past group by n / state.messages_max()`
  return [
    'set local statement_timeout = 0',
    'set local synchronous_commit = off',
    `create temporary table past on commit drop as
      select n, '${pastIds}' || lpad(n::text, 12, '0') as id, h.agent_id, h.output_box_id, state.now() - interval '1 day' as t
      from generate_series(${from}::bigint, ${upTo}) n
      join state.agent_state_head h on h.project_id = 'bench' and h.agent_id = 'a' || n * ${agents} / ${turns} order by n`,
    `insert into state.agent_inbox (inbox_id, project_id, agent_id, worker_target, channel_id, message_type, status, agent_turn_id,
        turn_epoch, payload, created_at, claimed_by, processed_at, archived_at, started_at, ended_at, outcome, deliverable_card_id)
      select id, 'bench', agent_id, 'bench', 'public', 'turn', 'consumed', id, 1, '{"past": true}', t, 'bench-0', t, t, t, t, 'success', id
      from past order by n`,
    `insert into cards.cards (card_id, project_id, type, role, content, metadata, created_at)
      select id, 'bench', 'task.deliverable', 'assistant', '{"text": "ok"}',
        jsonb_build_object('agent_id', agent_id, 'agent_turn_id', id, 'status', 'success'), t from past order by n`,
    'insert into cards.box_cards (box_id, card_id) select output_box_id, id from past order by n',
    announced('dispatched'),
    announced('running'),
    `insert into state.outbox (project_id, channel_id, agent_id, kind, status, agent_turn_id, turn_epoch, output_box_id,
        deliverable_card_id, created_at)
      select 'bench', 'public', agent_id, 'task', 'success', id, 1, output_box_id, id, t from past order by n`,
  ]
}
