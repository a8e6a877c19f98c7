-- Enqueue for batches in which turns bring budgets: the same, and each new turn's budget is opened with it, after the inbox in the one
-- order of locks. Items as for enqueue, some with budget: {budget_id, parent_budget_id?, token_limit?, cost_micros_limit?, wall_ms_limit?}
-- whose id is also in their payload. A purse that is not there undoes the whole call.
create or replace function state.enqueue_budgeted(p_items json)
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_verdicts state.verdict[] := array(select v from state.enqueue(array(
    select x from json_populate_recordset(null::state.new_turn, p_items) x)) v);
  v_item json;
begin
  for v_item in
    select json_build_object('budget_id', b.budget_id, 'project_id', x.project_id, 'agent_turn_id', x.agent_turn_id, 'parent_budget_id', b.parent_budget_id,
      'token_limit', b.token_limit, 'cost_micros_limit', b.cost_micros_limit, 'wall_ms_limit', b.wall_ms_limit)
    from json_to_recordset(p_items) as x (inbox_id text, project_id text, agent_turn_id text, budget json)
    cross join lateral json_to_record(x.budget) as b (budget_id text, parent_budget_id text, token_limit bigint, cost_micros_limit bigint, wall_ms_limit bigint)
    where x.budget is not null and exists (select from unnest(v_verdicts) v where v.inbox_id = x.inbox_id and v.what in ('enqueued', 'leased'))
    order by b.parent_budget_id
  loop
    if exists (select from state.open_budgets(json_build_array(v_item)) o where o.what = 'unknown_budget') then
      raise exception 'there is no open budget % in this project', v_item ->> 'parent_budget_id' using errcode = 'BW003';
    end if;
  end loop;
  return query select * from unnest(v_verdicts);
end $$;
