-- Before a model call: reserves the most that the call may use. Only a free amount can be reserved, so only an answer
-- that is larger than its reservation can cross a limit. Locks the fenced head FOR SHARE (hazard 3), then the turn's
-- own budget; a soft slice that is short takes the rest from its parent, deepest first. Returns 'reserved', 'already'
-- (an in-doubt commit), 'exceeded' with what is left, and with the spending limit if one does not cover the call,
-- 'unlimited' (no budget, nothing written) or 'stale'.
create or replace function state.reserve(p_project_id text, p_agent_id text, p_agent_turn_id text, p_turn_epoch bigint,
  p_reservation_id text, p_tokens bigint, p_cost_micros bigint, p_model text default null)
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_what text;
  v_budget state.budgets;
  v_short text[];
  v_periods bigint[];
  v_over jsonb;
begin
  perform from state.agent_state_head h
  where h.project_id = p_project_id and h.agent_id = p_agent_id and h.active_agent_turn_id = p_agent_turn_id
    and h.turn_epoch = p_turn_epoch
    and h.status = 'running'
  for share of h;
  if not found then
    return query select 'stale', p_project_id, p_agent_id, p_agent_turn_id, p_turn_epoch, null::text, null::text,
      null::text, null::jsonb;
    return;
  end if;

  select * into v_budget from state.budgets b where b.agent_turn_id = p_agent_turn_id and b.ended_at is null
  for no key update;
  v_now := state.now();
  if v_budget.budget_id is null then
    v_what := 'unlimited';
  elsif exists (select from state.reservations r where r.reservation_id = p_reservation_id) then
    -- The reservation id of another turn is a caller's error and must not count as a reservation.
    v_what := case when exists (select from state.reservations r
      where r.reservation_id = p_reservation_id and r.agent_turn_id = p_agent_turn_id
      and r.turn_epoch = p_turn_epoch and r.status = 'open') then 'already' else 'stale' end;
  else
    if v_budget.spends is not null then
      v_periods := state.open_periods(p_project_id, p_agent_id, coalesce(p_model, v_budget.spends));
      v_over := state.short_spending(v_periods, p_tokens, p_cost_micros);
    end if;
    if 'wall_ms' = any (state.exceeded_keys(v_budget)) then
      v_short := '{wall_ms}';
    elsif v_over is not null then
      v_what := 'exceeded';
    elsif state.set_aside(v_budget.budget_id, p_tokens, p_cost_micros, false) then
      insert into state.reservations (reservation_id, budget_id, agent_turn_id, turn_epoch, tokens, cost_micros, status,
        created_at, period_ids)
      values (p_reservation_id, v_budget.budget_id, p_agent_turn_id, p_turn_epoch, p_tokens, p_cost_micros, 'open',
        v_now, v_periods);
      v_what := 'reserved';
    else
      v_short := array_remove(array[
        case when p_tokens > v_budget.token_limit - v_budget.tokens_used - v_budget.tokens_reserved
          - v_budget.tokens_escrowed then 'tokens' end,
        case when p_cost_micros > v_budget.cost_micros_limit - v_budget.cost_micros_used
          - v_budget.cost_micros_reserved - v_budget.cost_micros_escrowed then 'cost_micros' end], null);
    end if;
    v_what := coalesce(v_what, 'exceeded');
    -- The last refusal names the limits; a reservation after it (a smaller call) clears them.
    update state.budgets b set exceeded_keys = coalesce(v_short, '{}')
    where b.budget_id = v_budget.budget_id and b.exceeded_keys is distinct from coalesce(v_short, '{}');
  end if;
  return query select v_what, p_project_id, p_agent_id, p_agent_turn_id, p_turn_epoch, null::text, null::text,
    null::text, state.budget_left(p_agent_turn_id)
      || case when v_over is null then '{}' else jsonb_build_object('spending', v_over) end;
end $$;

-- Sets an amount aside in one budget: as a reservation, or as escrow for a child that is short. Returns false and
-- writes nothing if the amount is not free. Locks each level before the one above it.
create or replace function state.set_aside(p_budget_id text, p_tokens bigint, p_cost_micros bigint, p_escrow boolean)
returns boolean language plpgsql as $$
declare
  v_budget state.budgets;
  v_short_tokens bigint;
  v_short_cost bigint;
begin
  select * into v_budget from state.budgets b where b.budget_id = p_budget_id for no key update;
  if v_budget.closed_at is not null or (p_escrow and v_budget.ended_at is not null) then return false; end if;
  v_short_tokens := greatest(0, coalesce(p_tokens
    - (v_budget.token_limit - v_budget.tokens_used - v_budget.tokens_reserved - v_budget.tokens_escrowed), 0));
  v_short_cost := greatest(0, coalesce(p_cost_micros
    - (v_budget.cost_micros_limit - v_budget.cost_micros_used - v_budget.cost_micros_reserved
      - v_budget.cost_micros_escrowed), 0));
  if v_short_tokens > 0 or v_short_cost > 0 then
    if not v_budget.soft or not state.set_aside(v_budget.parent_budget_id, v_short_tokens, v_short_cost, true)
      then return false; end if;
  end if;
  update state.budgets b set token_limit = b.token_limit + v_short_tokens,
    cost_micros_limit = b.cost_micros_limit + v_short_cost,
    tokens_reserved = b.tokens_reserved + case when p_escrow then 0 else p_tokens end,
    tokens_escrowed = b.tokens_escrowed + case when p_escrow then p_tokens else 0 end,
    cost_micros_reserved = b.cost_micros_reserved + case when p_escrow then 0 else p_cost_micros end,
    cost_micros_escrowed = b.cost_micros_escrowed + case when p_escrow then p_cost_micros else 0 end,
    updated_at = state.now()
  where b.budget_id = p_budget_id;
  return true;
end $$;
