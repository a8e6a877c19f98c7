-- Spending limits per calendar day and month. A reservation or a step counts in every period that applies to it, in the
-- transaction that writes it. One lock per project orders these writes: it is taken after the turn's own budget and
-- before the budgets above it, so that no two transactions wait for each other.

-- The current periods of the limits that apply to a call, opened if they are new; null if no limit applies. The caller
-- holds the lock of the project from here on.
create or replace function state.open_periods(p_project_id text, p_agent_id text, p_model text)
returns bigint[] language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_ids bigint[];
begin
  if not exists (select from state.spending_limits l where state.limit_applies(l, p_project_id, p_agent_id, p_model))
  then
    return null;
  end if;
  perform pg_advisory_xact_lock(hashtextextended('spending ' || p_project_id, 0));
  v_now := state.now();
  insert into state.spending_periods (limit_id, project_id, starts_at, ends_at)
  select l.limit_id, p_project_id, s.starts at time zone l.time_zone,
    (s.starts + ('1 ' || l.period)::interval) at time zone l.time_zone
  from state.spending_limits l
  cross join lateral (select date_trunc(l.period, v_now at time zone l.time_zone) as begun) b
  -- Where the clock is set back over midnight, the next period begins at the second midnight.
  cross join lateral (select case when b.begun at time zone l.time_zone > v_now
    then b.begun - ('1 ' || l.period)::interval else b.begun end as starts) s
  where state.limit_applies(l, p_project_id, p_agent_id, p_model)
  on conflict do nothing;
  select array_agg(p.period_id) into v_ids from state.spending_limits l
  join state.spending_periods p on p.limit_id = l.limit_id and p.project_id = p_project_id
    and p.starts_at <= v_now and p.ends_at > v_now
  where state.limit_applies(l, p_project_id, p_agent_id, p_model);
  return v_ids;
end $$;

create or replace function state.limit_applies(p_limit state.spending_limits, p_project_id text, p_agent_id text,
  p_model text) returns boolean language sql immutable as $$
  select case p_limit.scope when 'project' then coalesce(p_limit.name, p_project_id) = p_project_id
    when 'agent' then p_limit.name = p_agent_id else p_limit.name = coalesce(p_model, '') end
$$;

-- The limit that does not cover the amounts, the one that ends last if there are several; null if all cover them.
-- until: the end of the period, or some seconds if only the reservations of other calls are in the way.
create or replace function state.short_spending(p_period_ids bigint[], p_tokens bigint, p_cost_micros bigint)
returns jsonb language sql stable as $$
  select jsonb_build_object('limit', l.limit_id, 'action', l.action, 'until',
    case when p.tokens_used + p_tokens > l.token_limit or p.cost_micros_used + p_cost_micros > l.cost_micros_limit
      then p.ends_at else least(p.ends_at, state.now() + interval '20 seconds') end,
    'tokens', greatest(0, l.token_limit - p.tokens_used - p.tokens_reserved),
    'cost_micros', greatest(0, l.cost_micros_limit - p.cost_micros_used - p.cost_micros_reserved))
  from state.spending_periods p join state.spending_limits l on l.limit_id = p.limit_id
  where p.period_id = any (p_period_ids)
    and (p.tokens_used + p.tokens_reserved + p_tokens > l.token_limit
      or p.cost_micros_used + p.cost_micros_reserved + p_cost_micros > l.cost_micros_limit)
  order by p.ends_at desc, l.limit_id limit 1
$$;

-- {spending: the limit that is used up} for a step whose usage no reservation covers, or {}. The reservations of other
-- calls do not count.
create or replace function state.used_up(p_step_id text) returns jsonb language sql stable as $$
  select coalesce((
    select jsonb_build_object('spending', jsonb_build_object('limit', l.limit_id, 'action', l.action,
      'until', p.ends_at, 'tokens', l.token_limit - l.token_limit,
      'cost_micros', l.cost_micros_limit - l.cost_micros_limit))
    from state.reservations r join state.spending_periods p on p.period_id = any (r.period_ids)
    join state.spending_limits l on l.limit_id = p.limit_id
    where r.reservation_id = 'step:' || p_step_id
      and (p.tokens_used >= l.token_limit or p.cost_micros_used >= l.cost_micros_limit)
    order by p.ends_at desc, l.limit_id limit 1), '{}')
$$;

-- Before a turn spends: if a limit applies to its agent or model, the turn gets a budget without limits of its own, so
-- that its reservations and steps count. Returns 'metered' with the limit that is used up, if one is; 'unmetered', or
-- 'stale'.
create or replace function state.meter_spending(p_project_id text, p_agent_id text, p_agent_turn_id text,
  p_turn_epoch bigint, p_budget_id text, p_model text)
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_what text := 'unmetered';
  v_periods bigint[];
begin
  if exists (select from state.spending_limits) then
    perform from state.agent_state_head h
    where h.project_id = p_project_id and h.agent_id = p_agent_id and h.active_agent_turn_id = p_agent_turn_id
      and h.turn_epoch = p_turn_epoch and h.status = 'running'
    for no key update of h;
    if not found then
      v_what := 'stale';
    else
      perform from state.budgets b where b.agent_turn_id = p_agent_turn_id for no key update;
      v_periods := state.open_periods(p_project_id, p_agent_id, p_model);
      v_now := state.now();
    end if;
    if v_periods is not null then
      v_what := 'metered';
      update state.budgets b set spends = coalesce(p_model, '')
      where b.agent_turn_id = p_agent_turn_id and b.ended_at is null;
      if not found then
        insert into state.budgets (budget_id, project_id, agent_turn_id, spends, created_at, updated_at)
        values (p_budget_id, p_project_id, p_agent_turn_id, coalesce(p_model, ''), v_now, v_now);
      end if;
      update state.agent_state_head h set holds = true
      where h.project_id = p_project_id and h.agent_id = p_agent_id and not h.holds;
    end if;
  end if;
  return query select v_what, p_project_id, p_agent_id, p_agent_turn_id, p_turn_epoch, null::text, null::text,
    null::text, state.short_spending(v_periods, 1, 1);
end $$;

-- Counts what reservations set aside and use, once per statement that writes them.
create or replace function state.count_spending() returns trigger language plpgsql as $$
#variable_conflict use_column
declare
  v_projects text[];
  v_project text;
begin
  if not exists (select from new_rows n where n.period_ids is not null) then return null; end if;
  -- A statement may settle the reservations of turns of several projects.
  v_projects := array(select distinct p.project_id from new_rows n
    join state.spending_periods p on p.period_id = any (n.period_ids) order by 1);
  foreach v_project in array v_projects loop
    perform pg_advisory_xact_lock(hashtextextended('spending ' || v_project, 0));
  end loop;
  if tg_op = 'INSERT' then
    update state.spending_periods p set tokens_reserved = p.tokens_reserved + d.tokens_open,
      cost_micros_reserved = p.cost_micros_reserved + d.cost_open, tokens_used = p.tokens_used + d.tokens,
      cost_micros_used = p.cost_micros_used + d.cost
    from (
      select i as period_id, sum(case n.status when 'open' then n.tokens else 0 end) as tokens_open,
        sum(case n.status when 'open' then n.cost_micros else 0 end) as cost_open,
        sum(coalesce(n.tokens_used, 0)) as tokens, sum(coalesce(n.cost_micros_used, 0)) as cost
      from new_rows n cross join lateral unnest(n.period_ids) i group by 1) d
    where p.period_id = d.period_id;
  else
    update state.spending_periods p set tokens_reserved = p.tokens_reserved - d.tokens_open,
      cost_micros_reserved = p.cost_micros_reserved - d.cost_open, tokens_used = p.tokens_used + d.tokens,
      cost_micros_used = p.cost_micros_used + d.cost
    from (
      select i as period_id,
        sum(case when o.status = 'open' and n.status <> 'open' then o.tokens else 0 end) as tokens_open,
        sum(case when o.status = 'open' and n.status <> 'open' then o.cost_micros else 0 end) as cost_open,
        sum(coalesce(n.tokens_used, 0) - coalesce(o.tokens_used, 0)) as tokens,
        sum(coalesce(n.cost_micros_used, 0) - coalesce(o.cost_micros_used, 0)) as cost
      from new_rows n join old_rows o on o.reservation_id = n.reservation_id
      cross join lateral unnest(n.period_ids) i group by 1) d
    where p.period_id = d.period_id;
  end if;
  return null;
end $$;

create or replace trigger spending_of_new_reservations after insert on state.reservations
  referencing new table as new_rows for each statement execute function state.count_spending();
create or replace trigger spending_of_settled_reservations after update on state.reservations
  referencing old table as old_rows new table as new_rows for each statement execute function state.count_spending();

-- Sets the limits to exactly these. If any of them changed, turns that a limit holds continue and are checked again.
-- Items: {limit_id, scope, name?, period, token_limit?, cost_micros_limit?, action, time_zone}.
create or replace function state.set_spending_limits(p_items json) returns void language plpgsql as $$
#variable_conflict use_column
declare
  v_limits state.spending_limits[] := array(
    select l from json_populate_recordset(null::state.spending_limits, p_items) l);
begin
  lock table state.spending_limits in share row exclusive mode;
  if exists ((select * from state.spending_limits except select * from unnest(v_limits))
    union all (select * from unnest(v_limits) except select * from state.spending_limits))
  then
    delete from state.spending_limits;
    insert into state.spending_limits select * from unnest(v_limits);
    update state.account_holds a set ended_at = state.now(), ended_by = 'settings'
    where a.ended_at is null and starts_with(a.account, 'spending: ');
  end if;
end $$;

-- Marks the periods whose use has reached 80 % or 100 % of a limit since the last call, once per share.
create or replace function state.claim_spending_alerts(p_limit int)
returns table (limit_id text, project_id text, starts_at timestamptz, ends_at timestamptz, percent int, action text,
  tokens_used bigint, token_limit bigint, cost_micros_used bigint, cost_micros_limit bigint)
language plpgsql as $$
#variable_conflict use_column
begin
  return query
  with due as (
    select p.period_id, l.action, l.token_limit, l.cost_micros_limit, r.percent
    from state.spending_periods p join state.spending_limits l on l.limit_id = p.limit_id
    cross join lateral (select case
      when p.tokens_used >= l.token_limit or p.cost_micros_used >= l.cost_micros_limit then 100
      when p.tokens_used >= 0.8 * l.token_limit or p.cost_micros_used >= 0.8 * l.cost_micros_limit then 80
      else 0 end as percent) r
    where p.ends_at > state.now() and r.percent > p.alerted_percent
    order by p.period_id limit p_limit for no key update of p skip locked
  )
  update state.spending_periods p set alerted_percent = d.percent from due d where p.period_id = d.period_id
  returning p.limit_id, p.project_id, p.starts_at, p.ends_at, d.percent, d.action, p.tokens_used, d.token_limit,
    p.cost_micros_used, d.cost_micros_limit;
end $$;
