-- Retention: removes finished rows older than p_days, a bounded number per call, and returns how many; the caller
-- repeats the call until it returns 0. Cards and boxes are the agents' memory and stay. What is removed has been
-- counted for the Trends page before.
create or replace function state.prune(p_days double precision, p_limit int) returns int language plpgsql as $$
#variable_conflict use_column
declare
  v_before timestamptz := state.now() - make_interval(secs => p_days * 86400);
  v_turns text[];
  v_rows_gone text[];
  v_batches text[];
  v_rows int;
  v_sum int := 0;
begin
  -- One call nearly always counts everything. While another PMO counts, retention waits.
  for v_round in 1..20 loop
    select c.events into v_rows from state.count_trends(p_limit) c;
    exit when not state.has_uncounted(v_before + interval '1 hour');
    if coalesce(v_rows, 0) = 0 then return 0; end if;
    if v_round = 20 then return v_rows; end if;
  end loop;

  with gone as (
    delete from state.outbox e where (e.xid, e.event_id) in (
      select o.xid, o.event_id from (select * from state.outbox order by xid, event_id limit p_limit) o
      where o.created_at < v_before)
    returning e.xid, state.last_event_id(e) as event_id
  ), counted as (select count(*) as rows from gone),
  marked as (
    insert into state.event_cursors as c (name, xid, event_id, updated_at)
    select 'pruned', g.xid, g.event_id, state.now() from gone g order by g.xid desc, g.event_id desc limit 1
    on conflict (name) do update set xid = excluded.xid, event_id = excluded.event_id, updated_at = excluded.updated_at
    where (excluded.xid, excluded.event_id) > (c.xid, c.event_id)
  )
  select rows into v_sum from counted;

  -- Ids sort by time, so the oldest rows come first without an index on ended_at. Refused and skipped rows go with
  -- them.
  v_rows_gone := array(select i.inbox_id from (select * from state.agent_inbox order by inbox_id limit 4 * p_limit) i
    -- An imported turn is kept from its import on.
    where (i.ended_at < v_before and coalesce(i.archived_at, i.ended_at) < v_before)
      or (i.created_at < v_before and (i.status in ('error', 'skipped')
      or (i.status = 'consumed' and i.message_type not in ('turn', 'ui_action')))));
  v_turns := array(select i.agent_turn_id from unnest(v_rows_gone) g cross join lateral state.inbox_row(g) i
    where i.message_type in ('turn', 'ui_action') and i.agent_turn_id is not null);
  delete from state.turn_waiting_tools w using unnest(v_turns) t where w.agent_turn_id = t;
  delete from state.turn_resume_ledger l using unnest(v_turns) t where l.agent_turn_id = t;
  delete from state.agent_steps s using unnest(v_turns) t where s.agent_turn_id = t;
  delete from state.transcript s using unnest(v_turns) t where s.agent_turn_id = t;
  delete from state.program_sessions s using unnest(v_turns) t where s.agent_turn_id = t;
  delete from state.turn_messages m using unnest(v_turns) t where m.agent_turn_id = t;
  delete from state.reservations r using unnest(v_turns) t where r.agent_turn_id = t;
  delete from state.budgets b using unnest(v_turns) t where b.agent_turn_id = t and b.closed_at is not null;
  delete from state.approvals a using unnest(v_turns) t where a.agent_turn_id = t;
  delete from state.approval_grants g using unnest(v_turns) t where g.agent_turn_id = t;
  delete from state.lease_tokens k using unnest(v_turns) t where k.agent_turn_id = t;
  delete from state.turn_memories m using unnest(v_turns) t where m.agent_turn_id = t;
  delete from state.force_terminations f using unnest(v_turns) t where f.agent_turn_id = t;
  delete from state.edges e using unnest(v_rows_gone) g where e.edge_id = g;
  delete from state.agent_inbox i using unnest(v_rows_gone) g where i.inbox_id = g;
  get diagnostics v_rows = row_count;
  v_sum := v_sum + v_rows;

  delete from state.interventions v where v.intervention_id in (
    select o.intervention_id from (select * from state.interventions order by intervention_id limit p_limit) o
    where o.created_at < v_before and o.counted);
  get diagnostics v_rows = row_count;
  v_sum := v_sum + v_rows;
  delete from state.word_blocks w where w.block_id in (
    select o.block_id from (select * from state.word_blocks order by block_id limit p_limit) o
    where o.ended_at < v_before);
  get diagnostics v_rows = row_count;
  v_sum := v_sum + v_rows;
  v_batches := array(select b.batch_id from state.batches b where b.settled_at < v_before limit p_limit / 100 + 1);
  if v_batches <> '{}' then
    -- Agents that were created for one task go with it.
    with gone as (
      delete from state.batch_tasks t using state.batches b
      where t.batch_id = any (v_batches) and b.batch_id = t.batch_id
      returning b.project_id, t.agent_id, t.target_strategy
    ), heads as (
      delete from state.agent_state_head h using gone g
      where g.target_strategy <> 'reuse' and h.project_id = g.project_id and h.agent_id = g.agent_id
        and h.status = 'idle'
    )
    delete from resource.project_agents a using gone g
    where g.target_strategy <> 'reuse' and a.project_id = g.project_id and a.agent_id = g.agent_id;
    delete from state.edges e using (
      select unnest(array[b.batch_id, b.join_edge_id]) as edge_id from state.batches b
      where b.batch_id = any (v_batches)) o where e.edge_id = o.edge_id;
    delete from state.batches b where b.batch_id = any (v_batches);
    v_sum := v_sum + cardinality(v_batches);
  end if;
  -- Purses that pay for no turn any more.
  delete from state.budgets b where b.agent_turn_id is null and b.open_children = 0 and b.updated_at < v_before;
  delete from state.workers w where w.seen_at < v_before;
  delete from state.spending_periods p where p.ends_at < v_before;
  delete from state.account_holds a where coalesce(a.ended_at, a.until) < v_before;
  delete from state.notices n where (n.notice_id, n.channel) in (
    select o.notice_id, o.channel from state.notices o where o.created_at < v_before and o.open_tool_call_id is null
    order by o.created_at limit p_limit);
  get diagnostics v_rows = row_count;
  v_sum := v_sum + v_rows;
  delete from state.schedule_fires f where (f.project_id, f.schedule_id, f.instant, f.kind) in (
    select o.project_id, o.schedule_id, o.instant, o.kind from state.schedule_fires o where o.created_at < v_before
    order by o.created_at limit p_limit);
  get diagnostics v_rows = row_count;
  v_sum := v_sum + v_rows;
  -- A run has at most 10,000 results: one run per call.
  with gone as (
    delete from state.eval_runs r where r.run_id = (select o.run_id from state.eval_runs o
      where o.created_at < v_before and o.ended_at is not null order by o.created_at limit 1)
    returning r.run_id
  )
  delete from state.eval_results o using gone g where o.run_id = g.run_id;
  get diagnostics v_rows = row_count;
  v_sum := v_sum + v_rows;
  return v_sum;
end $$;
