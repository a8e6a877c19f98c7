-- Opens the budgets of turns. A budget with a parent is a slice: its limit is taken from the parent at once
-- (escrow) and returns when the slice closes. If the parent is limited and the slice has no limit of its own, it gets
-- an equal share of what is left; such a slice is soft and may take more later. Wall time is not divided: children run
-- in parallel, and none may outlast what its parent has left.
-- Items: {budget_id, project_id, agent_turn_id?, parent_budget_id?, token_limit?, cost_micros_limit?, wall_ms_limit?};
-- all items with a parent name the same one. Repeating ids changes nothing. The caller has locked the heads of the
-- turns.
create or replace function state.open_budgets(p_items json)
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_parent state.budgets;
  v_parent_id text := (select max(x.parent_budget_id) from json_to_recordset(p_items) as x (parent_budget_id text));
  v_wall_left bigint;
begin
  if v_parent_id is not null then
    select * into v_parent from state.budgets b where b.budget_id = v_parent_id for no key update;
    if v_parent.budget_id is null or v_parent.ended_at is not null
      or exists (select from json_to_recordset(p_items) as x (project_id text)
        where x.project_id <> v_parent.project_id) then
      return query select 'unknown_budget', x.project_id, null::text, x.agent_turn_id, null::bigint, null::text,
        null::text, null::text, to_jsonb(v_parent_id)
      from json_to_recordset(p_items) as x (project_id text, agent_turn_id text);
      return;
    end if;
  end if;
  v_now := state.now();
  if v_parent.wall_ms_limit is not null then
    v_wall_left := greatest(0, v_parent.wall_ms_limit - v_parent.wall_ms_used
      - coalesce(state.working_ms(v_parent.agent_turn_id), 0));
  end if;

  return query
  with requested as (
    select x.*, sum(x.token_limit) over earlier as tokens_before, sum(x.cost_micros_limit) over earlier as cost_before,
      v_parent.token_limit - v_parent.tokens_used - v_parent.tokens_reserved - v_parent.tokens_escrowed as tokens_free,
      v_parent.cost_micros_limit - v_parent.cost_micros_used - v_parent.cost_micros_reserved
        - v_parent.cost_micros_escrowed as cost_free
    from rows from (json_to_recordset(p_items) as (budget_id text, project_id text, agent_turn_id text,
      token_limit bigint, cost_micros_limit bigint, wall_ms_limit bigint)) with ordinality as x (budget_id, project_id,
      agent_turn_id, token_limit, cost_micros_limit, wall_ms_limit, ord)
    where not exists (select from state.budgets b where b.budget_id = x.budget_id offset 0)
    window earlier as (order by x.ord rows between unbounded preceding and 1 preceding)
  ), sliced as (
    -- Fixed amounts come first, in order, as far as the free part allows; the rest is divided.
    select a.*,
      case when a.tokens_free is null then a.token_limit
        when a.token_limit is not null
          then least(a.token_limit, greatest(0, a.tokens_free - coalesce(a.tokens_before, 0)))
        else greatest(0, a.tokens_free - coalesce(sum(a.token_limit) over (), 0)) / greatest(1, count(*)
          filter (where a.token_limit is null) over ()) end as tokens,
      case when a.cost_free is null then a.cost_micros_limit
        when a.cost_micros_limit is not null
          then least(a.cost_micros_limit, greatest(0, a.cost_free - coalesce(a.cost_before, 0)))
        else greatest(0, a.cost_free - coalesce(sum(a.cost_micros_limit) over (), 0)) / greatest(1, count(*)
          filter (where a.cost_micros_limit is null) over ()) end as cost
    from requested a
  ), opened as (
    insert into state.budgets (budget_id, project_id, agent_turn_id, parent_budget_id, depth, token_limit,
      cost_micros_limit, wall_ms_limit, soft, created_at, updated_at)
    select s.budget_id, s.project_id, s.agent_turn_id, v_parent.budget_id, coalesce(v_parent.depth + 1, 0), s.tokens,
      s.cost, least(s.wall_ms_limit, v_wall_left), v_parent.budget_id is not null and s.token_limit is null
        and s.cost_micros_limit is null, v_now, v_now
    from sliced s
    on conflict do nothing
    returning budget_id, project_id, agent_turn_id, token_limit, cost_micros_limit
  ), escrowed as (
    update state.budgets b set tokens_escrowed = b.tokens_escrowed + t.tokens,
      cost_micros_escrowed = b.cost_micros_escrowed + t.cost, open_children = b.open_children + t.children,
      updated_at = v_now
    from (select coalesce(sum(o.token_limit), 0) as tokens, coalesce(sum(o.cost_micros_limit), 0) as cost,
      count(*)::int as children from opened o) t
    where b.budget_id = v_parent.budget_id and t.children > 0
  )
  select 'opened', o.project_id, null::text, o.agent_turn_id, null::bigint, null::text, null::text, null::text,
    jsonb_build_object('budget_id', o.budget_id, 'token_limit', o.token_limit, 'cost_micros_limit', o.cost_micros_limit)
  from opened o;
end $$;
