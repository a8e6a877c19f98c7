-- Counts what turns use: working time, the usage that steps report, and the limits that a budget has exceeded.

-- How long a turn has worked, in milliseconds: from its start to its end or until now, without the time in which it or
-- one of its children waited for a person or for a held account, and without the time in which its processes were
-- frozen.
create or replace function state.working_ms(p_agent_turn_id text) returns bigint language sql stable as $$
  with recursive tree (budget_id, agent_turn_id) as (
    select b.budget_id, p_agent_turn_id from (select 1) one
    left join state.budgets b on b.agent_turn_id = p_agent_turn_id
    union all
    select c.budget_id, c.agent_turn_id from tree f join state.budgets c on c.parent_budget_id = f.budget_id
  )
  select greatest(0, extract(epoch from s.until - i.started_at) * 1000 - coalesce(b.paused_ms, 0) - coalesce((
    select sum(extract(epoch from upper(r) - lower(r))) * 1000 from (
      select unnest(range_agg(tstzrange(p.since, greatest(p.since, coalesce(p.until, t.ended_at, s.until))))) as r
      from tree f
      cross join lateral (
        select w.created_at as since, c.created_at as until from state.turn_waiting_tools w
        left join cards.cards c on c.card_id = w.tool_result_card_id
        where w.agent_turn_id = f.agent_turn_id and w.started_by in ('person', 'people', 'account')
        union all
        select a.asked_at, a.decided_at from state.approvals a where a.agent_turn_id = f.agent_turn_id) p
      left join lateral state.turn_row(f.agent_turn_id) t on true) waits), 0))::bigint
  from state.turn_row(p_agent_turn_id) i
  cross join lateral (select coalesce(i.ended_at, state.now()) as until) s
  left join state.budgets b on b.agent_turn_id = i.agent_turn_id
$$;

-- The limits that a turn's budget has exceeded.
create or replace function state.exceeded_keys(p_budget state.budgets) returns text[] language sql stable as $$
  select array_remove(array[
    case when p_budget.tokens_used > p_budget.token_limit then 'tokens' end,
    case when p_budget.cost_micros_used > p_budget.cost_micros_limit then 'cost_micros' end,
    case when p_budget.wall_ms_limit is not null
      and state.working_ms(p_budget.agent_turn_id) > p_budget.wall_ms_limit then 'wall_ms' end], null)
$$;

-- A reported number: not negative, and bounded, so that the sum of many fits into a bigint.
create or replace function state.amount(p_value jsonb) returns bigint language sql immutable as $$
  select case when jsonb_typeof(p_value) = 'number'
    then least(1000000000000, greatest(0, ceil(p_value::numeric)))::bigint else 0 end
$$;

-- The usage that a step's metadata reports: {usage: {input_tokens, output_tokens, cache_read_tokens,
-- cache_write_tokens, total_tokens, cost_usd}, cost_micros, frozen_ms}. A total without kinds counts as input. With
-- charged: true, reservations have already charged the usage.
create or replace function state.step_usage(p_metadata jsonb) returns state.usage language sql immutable as $$
  select case when p_metadata -> 'charged' = 'true' then row(0, 0, 0, 0, 0,
      state.amount(p_metadata -> 'frozen_ms'))::state.usage
    else row(
      greatest(state.amount(u -> 'input_tokens') + state.amount(u -> 'output_tokens')
        + state.amount(u -> 'cache_write_tokens'),
        state.amount(u -> 'total_tokens') - state.amount(u -> 'cache_read_tokens')),
      state.amount(u -> 'output_tokens'), state.amount(u -> 'cache_read_tokens'),
      state.amount(u -> 'cache_write_tokens'),
      case when jsonb_typeof(p_metadata -> 'cost_micros') = 'number' then state.amount(p_metadata -> 'cost_micros')
        when jsonb_typeof(u -> 'cost_usd') = 'number'
          then state.amount(to_jsonb(round(least((u ->> 'cost_usd')::numeric, 1000000) * 1000000)))
        else 0 end,
      state.amount(p_metadata -> 'frozen_ms'))::state.usage end
  from (select coalesce(p_metadata -> 'usage', '{}') as u) m
$$;

-- Charges the usage of a step to the budget of its turn. A step reports totals: the difference to its last report is
-- charged, so that repeating a report changes nothing. Usage above a soft slice is taken from its parent, as a
-- reservation would be.
create or replace function state.charge_step(p_agent_turn_id text, p_turn_epoch bigint, p_step_id text,
  p_usage state.usage) returns void language plpgsql as $$
declare
  v_now timestamptz := state.now();
  v_id text := 'step:' || p_step_id;
  v_budget state.budgets;
  v_old state.reservations;
  v_tokens bigint;
  v_cost bigint;
  v_fits boolean;
  v_periods bigint[];
begin
  select * into v_budget from state.budgets b where b.agent_turn_id = p_agent_turn_id and b.ended_at is null
  for no key update;
  if v_budget.budget_id is null then return; end if;
  select * into v_old from state.reservations r where r.reservation_id = v_id;
  -- The step id of another turn is a caller's error: the step is not written either.
  if v_old.agent_turn_id <> p_agent_turn_id then return; end if;
  v_tokens := p_usage.tokens - coalesce(v_old.tokens_used, 0);
  v_cost := p_usage.cost_micros - coalesce(v_old.cost_micros_used, 0);
  if v_budget.spends is not null then
    select state.open_periods(i.project_id, i.agent_id, v_budget.spends) into v_periods
    from state.turn_row(p_agent_turn_id) i;
  end if;
  v_fits := (v_tokens > 0 or v_cost > 0)
    and state.set_aside(v_budget.budget_id, greatest(0, v_tokens), greatest(0, v_cost), false);
  insert into state.reservations as r (reservation_id, budget_id, agent_turn_id, turn_epoch, tokens, cost_micros,
    status, tokens_used, cost_micros_used, output_tokens_used, cache_read_tokens_used, cache_write_tokens_used,
    paused_ms, created_at, settled_at, period_ids)
  values (v_id, v_budget.budget_id, p_agent_turn_id, p_turn_epoch, 0, 0, 'committed', p_usage.tokens,
    p_usage.cost_micros, p_usage.output_tokens, p_usage.cache_read_tokens, p_usage.cache_write_tokens,
    p_usage.paused_ms, v_now, v_now, v_periods)
  on conflict (reservation_id) do update set tokens_used = excluded.tokens_used,
    cost_micros_used = excluded.cost_micros_used, output_tokens_used = excluded.output_tokens_used,
    cache_read_tokens_used = excluded.cache_read_tokens_used,
    cache_write_tokens_used = excluded.cache_write_tokens_used, paused_ms = excluded.paused_ms,
    settled_at = excluded.settled_at;
  update state.budgets b set tokens_used = b.tokens_used + v_tokens,
    tokens_reserved = b.tokens_reserved - case when v_fits then greatest(0, v_tokens) else 0 end,
    cost_micros_used = b.cost_micros_used + v_cost,
    cost_micros_reserved = b.cost_micros_reserved - case when v_fits then greatest(0, v_cost) else 0 end,
    output_tokens_used = b.output_tokens_used + p_usage.output_tokens - coalesce(v_old.output_tokens_used, 0),
    cache_read_tokens_used = b.cache_read_tokens_used + p_usage.cache_read_tokens
      - coalesce(v_old.cache_read_tokens_used, 0),
    cache_write_tokens_used = b.cache_write_tokens_used + p_usage.cache_write_tokens
      - coalesce(v_old.cache_write_tokens_used, 0),
    paused_ms = b.paused_ms + p_usage.paused_ms - coalesce(v_old.paused_ms, 0), updated_at = v_now
  where b.budget_id = v_budget.budget_id;
end $$;

-- What a turn may still spend; null without a budget. For a soft slice, without what its parent could add.
create or replace function state.budget_left(p_agent_turn_id text) returns jsonb language sql volatile as $$
  select jsonb_build_object('budget_id', b.budget_id,
    'tokens', b.token_limit - b.tokens_used - b.tokens_reserved - b.tokens_escrowed, 'cost_micros',
    b.cost_micros_limit - b.cost_micros_used - b.cost_micros_reserved - b.cost_micros_escrowed, 'wall_ms',
    case when b.wall_ms_limit is not null then b.wall_ms_limit - coalesce(state.working_ms(p_agent_turn_id), 0) end,
    'exceeded_keys', to_jsonb(state.exceeded_keys(b)))
  from state.budgets b where b.agent_turn_id = p_agent_turn_id
$$;

-- The limits that ended a turn with budget_exceeded.
create or replace function state.stopped_by(p_agent_turn_id text) returns jsonb language sql stable as $$
  select jsonb_build_object('exceeded_keys', coalesce((select to_jsonb(b.exceeded_keys) from state.budgets b
    where b.agent_turn_id = p_agent_turn_id), '[]'))
$$;
