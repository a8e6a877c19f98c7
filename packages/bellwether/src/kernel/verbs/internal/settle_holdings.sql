-- Settles what an ending turn holds: cancels its batches (the PMO stops their children, also after a crash), charges
-- its open reservations and closes its budget. Runs in the transaction of the ending, under the head's lock, in a fixed
-- order: batches, then budgets.
create or replace function state.settle_holdings(p_turns text[]) returns void language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz := state.now();
begin
  update state.batches b set status = 'canceled', ended_at = v_now, next_look_at = v_now
  from unnest(p_turns) t where b.parent_agent_turn_id = t and b.status = 'open';
  perform state.charge_reservations(p_turns);
  perform state.close_budgets(p_turns);
end $$;

-- Charges open reservations in full, because the usage of a call is unknown when its worker is gone.
create or replace function state.charge_reservations(p_turns text[]) returns void language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz := state.now();
begin
  perform from state.budgets b join unnest(p_turns) t on b.agent_turn_id = t
  where b.tokens_reserved > 0 or b.cost_micros_reserved > 0
  order by b.depth desc, b.budget_id for no key update of b;
  with charged as (
    update state.reservations r set status = 'charged', settled_at = v_now, tokens_used = r.tokens,
      cost_micros_used = r.cost_micros
    from unnest(p_turns) t where r.agent_turn_id = t and r.status = 'open'
    returning r.budget_id, r.tokens, r.cost_micros
  )
  update state.budgets b set tokens_reserved = b.tokens_reserved - c.tokens, tokens_used = b.tokens_used + c.tokens,
    cost_micros_reserved = b.cost_micros_reserved - c.cost, cost_micros_used = b.cost_micros_used + c.cost,
    updated_at = v_now
  from (select budget_id, sum(tokens) as tokens, sum(cost_micros) as cost from charged group by 1) c
  where b.budget_id = c.budget_id;
end $$;

-- Closes the budgets of ended turns. A budget closes after its children, and what it did not use returns to its parent,
-- which may then close too. Deepest first, level by level, so that two endings never lock budgets in different orders.
create or replace function state.close_budgets(p_turns text[]) returns void language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz := state.now();
  v_todo text[];
  v_level text[];
  v_returning text[] := '{}';
  v_closed text[];
begin
  v_todo := array(select b.budget_id from unnest(p_turns) t join state.budgets b on b.agent_turn_id = t
    where b.ended_at is null);
  while v_todo <> '{}' loop
    v_level := array(
      select b.budget_id from state.budgets b
      where b.budget_id = any (v_todo) and b.depth = (select max(d.depth) from state.budgets d
        where d.budget_id = any (v_todo))
      order by b.budget_id for no key update of b);
    -- What the children one level below return.
    update state.budgets b set open_children = b.open_children - c.children,
      tokens_used = b.tokens_used + c.tokens_used, tokens_escrowed = b.tokens_escrowed - c.tokens,
      cost_micros_used = b.cost_micros_used + c.cost_used, cost_micros_escrowed = b.cost_micros_escrowed - c.cost,
      output_tokens_used = b.output_tokens_used + c.output_tokens,
      cache_read_tokens_used = b.cache_read_tokens_used + c.cache_read_tokens,
      cache_write_tokens_used = b.cache_write_tokens_used + c.cache_write_tokens,
      -- A purse adds up the time of its turns; the time of a turn already covers its children.
      wall_ms_used = b.wall_ms_used + case when b.agent_turn_id is null then c.wall_ms else 0 end, updated_at = v_now
    from (select g.parent_budget_id, count(*)::int as children, sum(g.tokens_used) as tokens_used,
      coalesce(sum(g.token_limit), 0) as tokens,
        sum(g.cost_micros_used) as cost_used, coalesce(sum(g.cost_micros_limit), 0) as cost,
        sum(g.wall_ms_used) as wall_ms, sum(g.output_tokens_used) as output_tokens,
        sum(g.cache_read_tokens_used) as cache_read_tokens, sum(g.cache_write_tokens_used) as cache_write_tokens
      from state.budgets g where g.budget_id = any (v_returning) group by 1) c
    where b.budget_id = c.parent_budget_id and b.budget_id = any (v_level);
    v_returning := array(select g.budget_id from state.budgets g
      where g.budget_id = any (v_returning) and g.parent_budget_id <> all (v_level));
    update state.budgets b set ended_at = v_now, updated_at = v_now,
      wall_ms_used = coalesce(state.working_ms(b.agent_turn_id), 0),
      exceeded_keys = coalesce(nullif(state.exceeded_keys(b), '{}'), b.exceeded_keys)
    where b.budget_id = any (v_level) and b.agent_turn_id = any (p_turns) and b.ended_at is null;
    with closed as (
      update state.budgets b set closed_at = v_now
      where b.budget_id = any (v_level) and b.ended_at is not null and b.closed_at is null and b.open_children = 0
      returning b.budget_id, b.parent_budget_id
    )
    select coalesce(array_agg(c.budget_id), '{}') into v_closed from closed c where c.parent_budget_id is not null;
    v_returning := v_returning || v_closed;
    v_todo := array(
      select t from unnest(v_todo) t where t <> all (v_level)
      union
      select g.parent_budget_id from state.budgets g where g.budget_id = any (v_returning));
  end loop;
end $$;
