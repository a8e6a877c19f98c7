/**
 * Fills the tables with finished turns, as on a system that has run for a long time: one inbox row, edge, card, box entry and two events
 * each. The rows are written directly, because only what runs afterwards is measured.
 */
import type { Database } from '../src/ports/database/database.js'

const chunk = 100_000

export async function fillHistory(
  db: Database,
  turns: number,
  agents: number,
  onProgress: (line: string) => void,
): Promise<void> {
  for (let from = 0; from < turns; from += chunk) {
    const upTo = Math.min(turns, from + chunk) - 1
    await db.transaction(async (tx) => {
      await tx.query({ text: 'set local statement_timeout = 0' })
      await tx.query({
        text: `create temporary table past on commit drop as
          select '01000000-0000-7000-8000-' || lpad(n::text, 12, '0') as id, 'a' || n % ${agents} as agent_id, h.output_box_id
          from generate_series(${from}, ${upTo}) n join state.agent_state_head h on h.project_id = 'bench' and h.agent_id = 'a' || n % ${agents}`,
      })
      await tx.query({
        text: `insert into state.agent_inbox (inbox_id, project_id, agent_id, worker_target, channel_id, message_type, status, agent_turn_id, turn_epoch, traceparent, correlation_id,
            created_at, processed_at, archived_at, started_at, ended_at, outcome, deliverable_card_id)
          select id, 'bench', agent_id, 'bench', 'public', 'turn', 'consumed', id, 1, '00-' || replace(id, '-', '') || '-0000000000000001-01', 'history-' || id,
            t, t, t, t, t, 'success', id from past, (select state.now() - interval '1 day' as t) x`,
      })
      await tx.query({
        text: `insert into cards.cards (card_id, project_id, type, role, content, metadata, created_at)
          select id, 'bench', 'task.deliverable', 'assistant', '{"text": "ok"}', '{"history": true}', state.now() from past`,
      })
      await tx.query({ text: 'insert into cards.box_cards (box_id, card_id) select output_box_id, id from past' })
      await tx.query({
        text: `insert into state.outbox (project_id, subject, kind, payload, agent_turn_id, created_at)
          select 'bench', 'bw.v1.bench.public.evt.agent.' || agent_id || '.' || kind, kind, jsonb_build_object('history', true, 'agent_turn_id', id, 'status', 'success'), id, state.now()
          from past, (values ('task'), ('state')) k (kind)`,
      })
    })
    onProgress(`history: ${upTo + 1} of ${turns} finished turns`)
  }
}
