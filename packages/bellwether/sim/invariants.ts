/**
 * The invariants, as queries that return offending rows. `always` holds after every COMMIT, whatever has crashed; `settled` holds when every
 * turn has ended. Mutations name the invariant that they break.
 */
import type { Invariant } from './engine/index.js'

const turns = "message_type in ('turn', 'ui_action')"

export const always: readonly Invariant[] = [
  {
    name: 'an agent has one head',
    sql: 'select project_id, agent_id from state.agent_state_head group by 1, 2 having count(*) > 1',
  },
  {
    name: 'an output box has one active turn',
    sql: `select output_box_id, array_agg(agent_id) from state.agent_state_head where active_agent_turn_id is not null
      group by 1 having count(*) > 1`,
  },
  {
    name: 'a borrowed box is the box of an active turn',
    sql: `select b.box_id, b.agent_id from state.borrowed_boxes b where not exists (select from state.agent_state_head h
      where h.project_id = b.project_id and h.agent_id = b.agent_id and h.active_agent_turn_id is not null
        and h.output_box_id = b.box_id)`,
  },
  {
    name: 'no idle agent leaves a turn queued',
    sql: `select i.agent_id, i.agent_turn_id from state.agent_inbox i
      join state.agent_state_head h using (project_id, agent_id) where i.status = 'queued' and h.status = 'idle'`,
  },
  {
    name: 'an active head and its inbox row agree',
    sql: `select h.agent_id, h.status, h.turn_epoch, i.status as inbox, i.turn_epoch as inbox_epoch from state.agent_state_head h
      left join state.agent_inbox i on i.agent_turn_id = h.active_agent_turn_id and i.${turns}
      where h.status <> 'idle' and (i.inbox_id is null or i.ended_at is not null or i.turn_epoch is distinct from h.turn_epoch
        or i.status not in ('pending', 'processing') or (h.status = 'dispatched' and i.status <> 'pending')
        or (h.status = 'suspended' and i.status <> 'processing'))`,
  },
  {
    name: 'a row that is being worked on belongs to an active head',
    sql: `select i.agent_id, i.agent_turn_id, i.status from state.agent_inbox i
      left join state.agent_state_head h on h.active_agent_turn_id = i.agent_turn_id
      where i.${turns} and i.status in ('pending', 'processing') and h.agent_id is null`,
  },
  {
    name: 'the queue lists exactly the rows that wait',
    sql: `select i.inbox_id, i.status, i.in_queue, q.status as queue from state.agent_inbox i
      full join state.queue q on q.inbox_id = i.inbox_id
      where i.inbox_id is null or i.in_queue <> (q.inbox_id is not null) or i.in_queue <> (i.status in ('queued', 'pending'))
        or i.in_queue and (q.status, q.pending_xid, q.worker_target, q.agent_id) is distinct from
          (i.status, i.pending_xid, i.worker_target, i.agent_id)
      union all select inbox_id, null, null, null from state.queue group by 1 having count(*) > 1`,
  },
  {
    name: 'a start is announced once per fence',
    sql: `select m.agent_turn_id, m.turn_epoch, count(*) from state.outbox o
      cross join lateral unnest(o.agent_turn_ids, o.turn_epochs) as m (agent_turn_id, turn_epoch)
      where o.status = 'running' group by 1, 2 having count(*) > 1`,
  },
  {
    name: 'every ended turn has exactly one task event, and only ended turns have one',
    sql: `select i.agent_turn_id, i.ended_at, count(e.*) from state.agent_inbox i
      left join state.events e on e.agent_turn_id = i.agent_turn_id and e.kind = 'task'
      where i.${turns} group by 1, 2 having count(e.*) <> (i.ended_at is not null)::int`,
  },
  {
    name: 'every ended turn has its deliverable in an output box',
    sql: `select i.agent_turn_id, i.deliverable_card_id from state.agent_inbox i
      where i.${turns} and i.ended_at is not null and not exists (
        select from cards.cards c join cards.box_cards x on x.card_id = c.card_id
        where c.card_id = i.deliverable_card_id and c.type = 'task.deliverable')`,
  },
  {
    name: 'a turn has one deliverable',
    sql: `select metadata ->> 'agent_turn_id' as turn, count(*) from cards.cards where type = 'task.deliverable' group by 1 having count(*) > 1`,
  },
  {
    name: 'every turn that did not succeed has a fallback with its reason, and no other turn has one',
    sql: `select i.agent_turn_id, i.outcome, c.metadata ->> 'kind' as kind, c.content from state.agent_inbox i
      join cards.cards c on c.card_id = i.deliverable_card_id
      where i.${turns} and ((i.outcome <> 'success') <> (c.metadata ->> 'kind' is not distinct from 'fallback')
        or i.outcome <> 'success' and (coalesce(c.content -> 'fallback' ->> 'reason', '') = ''
          or coalesce(c.content -> 'fallback' ->> 'ended_by', '') = ''
          or c.content -> 'fallback' ->> 'code' is distinct from coalesce(i.error, i.outcome)
          or (c.content -> 'fallback' -> 'started')::boolean <> (i.started_at is not null)))`,
  },
  {
    // By sequence numbers, not by time, because clocks jump in the simulation.
    name: 'nothing is written for a turn after its end',
    sql: `select c.card_id from state.agent_inbox i
      join cards.box_cards d on d.card_id = i.deliverable_card_id
      join cards.box_cards x on x.box_id = d.box_id and x.position > d.position
      join cards.cards c on c.card_id = x.card_id and c.metadata ->> 'agent_turn_id' = i.agent_turn_id
      union all
      select s.payload ->> 'step_id' from state.events t
      join state.events s on s.agent_turn_id = t.agent_turn_id and s.kind in ('step', 'command') and s.event_id > t.event_id
      where t.kind = 'task'`,
  },
  {
    name: 'a fallback has the tool results and the newest text of its turn',
    sql: `select i.agent_turn_id, c.content -> 'fallback' as fallback from state.agent_inbox i
      join cards.cards c on c.card_id = i.deliverable_card_id and c.metadata ->> 'kind' = 'fallback'
      where i.${turns} and i.started_at is not null and ((c.content -> 'fallback' ->> 'tool_results_received')::int <> (
          select count(*) from state.agent_inbox r where r.agent_turn_id = i.agent_turn_id and r.message_type in ('tool_result', 'timeout'))
        or c.content -> 'fallback' ->> 'last_text' is distinct from (select t.content ->> 'text' from cards.cards t
          join cards.box_cards x on x.card_id = t.card_id where t.metadata ->> 'agent_turn_id' = i.agent_turn_id and t.type = 'agent.thought'
          order by x.position desc limit 1))`,
  },
  {
    name: 'a deliverable was made under the fence that it was taken under',
    sql: `select i.agent_turn_id, i.turn_epoch, c.content from state.agent_inbox i join cards.cards c on c.card_id = i.deliverable_card_id
      where i.outcome = 'success' and c.content ->> 'text' like 'epoch %' and c.content ->> 'text' <> 'epoch ' || i.turn_epoch`,
  },
  {
    name: 'a delivery is answered by its own fence',
    sql: `select a.*, i.turn_epoch as ended_under from state.sim_answers a join state.agent_inbox i on i.agent_turn_id = a.agent_turn_id
      and i.${turns} where (a.answer in ('ended', 'already')) <> (i.outcome = 'success' and i.turn_epoch = a.turn_epoch)`,
  },
  {
    name: 'one worker holds a fence',
    sql: `select agent_turn_id, turn_epoch, array_agg(distinct worker) from state.sim_claims group by 1, 2 having count(distinct worker) > 1`,
  },
  {
    name: 'the head counts its waits',
    sql: `select h.agent_id, h.waiting_tool_count, count(w.*) from state.agent_state_head h
      left join state.turn_waiting_tools w on w.agent_turn_id = h.active_agent_turn_id and w.turn_epoch = h.turn_epoch and w.wait_status = 'waiting'
      where h.status = 'suspended' group by h.agent_id, h.waiting_tool_count having count(w.*) <> h.waiting_tool_count`,
  },
  {
    name: 'a turn whose results are all there can be resumed',
    sql: `select h.agent_id from state.agent_state_head h where h.status = 'suspended' and h.waiting_tool_count = 0
      and not exists (select from state.turn_resume_ledger l where l.agent_turn_id = h.active_agent_turn_id and l.status <> 'applied')`,
  },
  {
    name: 'a tool call acts once',
    sql: `select tool_call_id, count(*) from state.sim_effects group by 1 having count(*) > 1`,
  },
  {
    name: 'every enqueue is one turn and one edge',
    sql: `select i.inbox_id from state.agent_inbox i where not exists (select from state.execution_edges e where e.edge_id = i.inbox_id)
      union all select project_id || correlation_id from state.agent_inbox where ${turns} and correlation_id is not null
      group by project_id, agent_id, correlation_id having count(*) > 1`,
  },
  {
    name: "the worker's watchdog ends nothing",
    sql: `select agent_turn_id from state.force_terminations f where not exists (
      select from state.interventions v where v.agent_turn_id = f.agent_turn_id and v.kind = 'reap')`,
  },
]

export const settled: readonly Invariant[] = [
  { name: 'every turn ended', sql: `select agent_turn_id, status from state.turns where ended_at is null` },
  {
    name: 'every event was seen once by a reader of the cursor',
    sql: `select e.event_id, count(s.*) from state.events e left join state.sim_seen s on s.event_id = e.event_id
      group by 1 having count(s.*) <> 1`,
  },
  {
    name: 'every event was published once, in order',
    sql: `select e.event_id, count(p.*) from state.events e left join state.sim_published p on p.cursor = e.xid || ':' || e.event_id
      where e.kind <> 'command' group by 1 having count(p.*) <> 1
      union all
      select seq, -1 from (select seq, cursor, lag(cursor) over (order by seq) as before from state.sim_published) o
      where (split_part(cursor, ':', 1)::numeric, split_part(cursor, ':', 2)::numeric)
        < (split_part(before, ':', 1)::numeric, split_part(before, ':', 2)::numeric)`,
  },
  {
    name: 'every turn whose wait was applied has its result once',
    sql: `select w.tool_call_id from state.turn_waiting_tools w where w.wait_status in ('received', 'waiting')
      union all select x.card_id from cards.box_cards x group by x.box_id, x.card_id having count(*) > 1`,
  },
]

/** The invariants of batches and budgets, after every COMMIT (hazards 17 and 18). */
export const holdings: readonly Invariant[] = [
  {
    name: 'an ended parent has no open batch',
    sql: `select b.batch_id from state.batches b join state.agent_inbox i on i.agent_turn_id = b.parent_agent_turn_id and i.${turns}
      where b.status = 'open' and i.ended_at is not null`,
  },
  {
    name: 'every child is known to its batch',
    sql: `select i.agent_turn_id, t.status from state.agent_inbox i
      left join state.batch_tasks t on t.agent_turn_id = i.agent_turn_id
      where i.${turns} and i.payload ? 'batch_id' and i.ended_at is null and t.status is distinct from 'dispatched' and t.status is distinct from 'stopping'`,
  },
  {
    name: 'a batch counts its tasks',
    sql: `select b.batch_id, b.open_count from state.batches b where b.status = 'open' and (b.open_count, b.done_count, b.failed_count) <> (
      select count(*) filter (where t.outcome is null), count(*) filter (where t.status = 'done'), count(*) filter (where t.status in ('failed', 'canceled'))
      from state.batch_tasks t where t.batch_id = b.batch_id)`,
  },
  {
    name: 'budgets add up',
    sql: `select b.budget_id from state.budgets b
      where b.tokens_reserved <> (select coalesce(sum(r.tokens), 0) from state.reservations r where r.budget_id = b.budget_id and r.status = 'open')
        or b.tokens_escrowed <> (select coalesce(sum(c.token_limit), 0) from state.budgets c where c.parent_budget_id = b.budget_id and c.closed_at is null)
        or b.open_children <> (select count(*) from state.budgets c where c.parent_budget_id = b.budget_id and c.closed_at is null)
        or b.tokens_used <> (select coalesce(sum(r.tokens_used), 0) from state.reservations r where r.budget_id = b.budget_id and r.status <> 'open')
          + (select coalesce(sum(c.tokens_used), 0) from state.budgets c where c.parent_budget_id = b.budget_id and c.closed_at is not null)`,
  },
  {
    name: 'an ended turn holds no budget',
    sql: `select i.agent_turn_id from state.agent_inbox i left join state.budgets b on b.agent_turn_id = i.agent_turn_id
      where i.${turns} and i.ended_at is not null and (b.ended_at is null and b.budget_id is not null
        or exists (select from state.reservations r where r.agent_turn_id = i.agent_turn_id and r.status = 'open'))`,
  },
  {
    name: 'no budget is overspent',
    sql: `select budget_id, token_limit, tokens_used, tokens_reserved, tokens_escrowed from state.budgets
      where tokens_used + tokens_reserved + tokens_escrowed > token_limit`,
  },
]

export const settledHoldings: readonly Invariant[] = [
  {
    name: 'every batch is over, its children have ended, and its parent was answered once',
    sql: `select b.batch_id, b.status from state.batches b where b.settled_at is null or b.status = 'open'
      or exists (select from state.batch_tasks t where t.batch_id = b.batch_id and t.status in ('waiting', 'dispatched', 'stopping'))
      or (b.status <> 'canceled' and b.tool_call_id is not null and 1 <> (select count(*) from state.agent_inbox r
        where r.correlation_id = b.tool_call_id and r.message_type in ('tool_result', 'timeout')))
      or 2 <> (select count(*) from state.execution_edges e where e.primitive = 'join' and e.correlation_id = coalesce(b.tool_call_id, b.batch_id))`,
  },
  {
    name: 'every budget of a turn is closed',
    sql: `select budget_id from state.budgets where agent_turn_id is not null and closed_at is null`,
  },
]

/** For stories in which some turns kill their workers: only these turns may fail, and they must. */
export const culpritsFail: Invariant = {
  name: 'a turn that kills its workers fails, and no other turn does',
  sql: `select agent_id, outcome, error, deaths from state.agent_inbox
    where ${turns} and (agent_id like 'poison%') <> (outcome = 'failed' and error = 'max_deaths')`,
}

/** For stories in which workers are away and nothing is wrong with the turns. */
export const everyTurnSucceeds: Invariant = {
  name: 'every turn succeeds',
  sql: `select agent_id, outcome, error from state.agent_inbox where ${turns} and outcome is distinct from 'success'`,
}

/** For stories with an account that reaches a limit. */
export const oneProbePerWindow: Invariant = {
  name: 'one call probes a held account per window',
  sql: `select held_since, probe, count(*) from state.sim_calls where probe is not null
    group by 1, 2 having count(*) > 1`,
}

/** For stories in which no worker dies: then no live turn may be reaped or reclaimed. */
export const nobodyDied: Invariant = {
  name: 'no live turn is ended or reclaimed',
  sql: `select agent_turn_id, kind, reason from state.interventions where kind in ('reap', 'reclaim')`,
}
