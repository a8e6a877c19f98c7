-- A worker applies the limits of its agent file to a running turn: the turn gets a budget, or its budget becomes
-- smaller and the difference returns to the parent. A budget never becomes larger, so that repeating the call after a
-- takeover or a resume changes nothing. Without limits the verb only returns what is left.
create or replace function state.limit_turn(p_project_id text, p_agent_id text, p_agent_turn_id text,
  p_turn_epoch bigint, p_budget_id text, p_token_limit bigint, p_cost_micros_limit bigint, p_wall_ms_limit bigint)
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_budget state.budgets;
  v_tokens bigint;
  v_cost bigint;
  v_limited boolean := num_nonnulls(p_token_limit, p_cost_micros_limit, p_wall_ms_limit) > 0;
begin
  perform from state.agent_state_head h
  where h.project_id = p_project_id and h.agent_id = p_agent_id and h.active_agent_turn_id = p_agent_turn_id
    and h.turn_epoch = p_turn_epoch and h.status = 'running'
  for no key update of h;
  if not found then
    return query select 'stale', p_project_id, p_agent_id, p_agent_turn_id, p_turn_epoch, null::text, null::text,
      null::text, null::jsonb;
    return;
  end if;

  if v_limited then
    select * into v_budget from state.budgets b where b.agent_turn_id = p_agent_turn_id for no key update;
    v_now := state.now();
    if v_budget.budget_id is null then
      insert into state.budgets (budget_id, project_id, agent_turn_id, token_limit, cost_micros_limit, wall_ms_limit,
        agent_limits, created_at, updated_at)
      values (p_budget_id, p_project_id, p_agent_turn_id, p_token_limit, p_cost_micros_limit, p_wall_ms_limit,
        array_remove(array[case when p_token_limit is not null then 'tokens' end,
          case when p_cost_micros_limit is not null then 'cost_micros' end,
          case when p_wall_ms_limit is not null then 'wall_ms' end], null), v_now, v_now);
      update state.agent_state_head h set holds = true
      where h.project_id = p_project_id and h.agent_id = p_agent_id and not h.holds;
    else
      v_tokens := least(v_budget.token_limit, p_token_limit);
      v_cost := least(v_budget.cost_micros_limit, p_cost_micros_limit);
      update state.budgets b set token_limit = v_tokens, cost_micros_limit = v_cost,
        wall_ms_limit = least(b.wall_ms_limit, p_wall_ms_limit),
        -- A repeated call lowers nothing and adds nothing.
        agent_limits = b.agent_limits || array_remove(array[
          case when p_token_limit < coalesce(b.token_limit, p_token_limit + 1) then 'tokens' end,
          case when p_cost_micros_limit < coalesce(b.cost_micros_limit, p_cost_micros_limit + 1) then 'cost_micros' end,
          case when p_wall_ms_limit < coalesce(b.wall_ms_limit, p_wall_ms_limit + 1) then 'wall_ms' end], null),
        -- Not soft any more: a soft slice could take more than the agent's own limit.
        soft = b.soft and (v_tokens, v_cost) is not distinct from (v_budget.token_limit, v_budget.cost_micros_limit)
      where b.budget_id = v_budget.budget_id;
      if v_budget.parent_budget_id is not null then
        update state.budgets b set
          tokens_escrowed = b.tokens_escrowed + coalesce(v_tokens, 0) - coalesce(v_budget.token_limit, 0),
          cost_micros_escrowed = b.cost_micros_escrowed + coalesce(v_cost, 0)
            - coalesce(v_budget.cost_micros_limit, 0), updated_at = v_now
        where b.budget_id = v_budget.parent_budget_id;
      end if;
    end if;
  end if;
  return query select 'limited', p_project_id, p_agent_id, p_agent_turn_id, p_turn_epoch, null::text, null::text,
    null::text, state.budget_left(p_agent_turn_id);
end $$;
