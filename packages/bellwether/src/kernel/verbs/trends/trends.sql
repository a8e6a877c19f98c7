-- Counts what happened, for the Trends page. The PMO counts in the background; no turn waits for it. Every ended turn
-- has one task event, so the outbox says which turns to count, and nothing is skipped or counted twice, however
-- transactions commit (hazard 4): position and counts change in one transaction, under one lock.

-- The buckets of time in seconds, and how long each is kept. Days are kept as long as the settings say.
create or replace function state.trend_grains(p_days double precision default null)
returns table (grain int, keep interval) language sql immutable parallel safe as $$
  values (300, interval '2 days'), (3600, interval '9 days'), (86400, make_interval(secs => p_days * 86400))
$$;

create or replace function state.trend_start(p_grain int, p_at timestamptz) returns timestamptz
language sql immutable parallel safe as $$
  select date_bin(make_interval(secs => p_grain), p_at, '2000-01-01 00:00:00+00')
$$;

-- The bucket of a duration in histograms: bucket 0 is below 1 ms; each further one is 2^(1/8) times as long, so that
-- the middle of a bucket differs from every duration in it by less than 4.5 %.
create or replace function state.trend_bucket(p_ms double precision) returns int
language sql immutable parallel safe as $$
  select case when p_ms < 1 then 0 else 1 + floor(8 * ln(p_ms) / ln(2.0::double precision) + 1e-9)::int end
$$;

-- The agent whose counts contain the turn. Agents that were made for one task, for example for a case of an evaluation,
-- are counted together as NAME-*: otherwise the number of rows grows with that of the turns.
create or replace function state.trend_agent(p_agent_id text, p_agent_turn_id text) returns text
language sql immutable parallel safe as $$
  select case when right(p_agent_id, length(p_agent_turn_id) + 1) = '-' || p_agent_turn_id
    then left(p_agent_id, -length(p_agent_turn_id)) || '*' else p_agent_id end
$$;

-- Counts the turns of the next p_limit rows of the outbox, and at most p_limit interventions. Returns how many rows it
-- read, and up to when; no row if another PMO counts.
create or replace function state.count_trends(p_limit int)
returns table (events int, turns int, interventions int, until timestamptz) language plpgsql as $$
#variable_conflict use_column
declare
  p state.trend_progress;
  v_now timestamptz := state.now();
  v_until bigint;
  v_xid xid8;
  v_event_id bigint;
begin
  select * into p from state.trend_progress for no key update skip locked;
  if p.one is null then return; end if;
  interventions := state.count_interventions(p_limit);
  events := 0;
  turns := 0;
  -- Most calls find nothing new: then the locks of the writers are not read.
  if exists (select from state.outbox o where (o.xid, o.event_id) > (p.xid, p.event_id)) then
    v_until := state.readable_until();
    with page as materialized (
      select o.xid, o.event_id, o.kind, o.agent_turn_id, o.created_at from state.outbox o
      where (o.xid, o.event_id) > (p.xid, p.event_id) and (o.xid, o.event_id) <= (state.outbox_era(), v_until)
      order by o.xid, o.event_id limit p_limit
    ), ended as materialized (
      select i.project_id, state.trend_agent(i.agent_id, i.agent_turn_id) as agent_id, i.agent_turn_id, i.outcome,
        i.created_at, i.started_at, i.ended_at
      from page o cross join lateral state.turn_row(o.agent_turn_id) i where o.kind = 'task' and i.ended_at is not null
    ), used as materialized (
      select e.project_id, e.agent_id, e.ended_at, u.*,
        case when jsonb_typeof(s.metadata -> 'model') = 'string' then left(s.metadata ->> 'model', 100) else '' end
          as model
      from ended e
      cross join lateral (select * from state.agent_steps s where s.agent_turn_id = e.agent_turn_id offset 0) s
      cross join lateral state.step_usage(s.metadata - 'charged') u
    ), counted as (
      insert into state.trends as t (grain, starts_at, project_id, measure, agent_id, label, amount)
      select g.grain, state.trend_start(g.grain, c.at), c.project_id, c.measure::state.trend_measure, a.agent_id,
        c.label, sum(c.amount)
      from (
        select project_id, agent_id, ended_at as at, 'turns' as measure, outcome::text as label, 1::bigint as amount
        from ended
        union all
        select e.project_id, e.agent_id, e.ended_at, d.measure, state.trend_bucket(d.ms)::text, 1
        from ended e cross join lateral (values
          ('queue_ms', extract(epoch from e.started_at - e.created_at)::double precision * 1000),
          ('run_ms', extract(epoch from e.ended_at - e.started_at)::double precision * 1000)) as d (measure, ms)
        where e.started_at is not null
        union all
        select u.project_id, u.agent_id, u.ended_at, k.measure, k.label, k.amount
        from used u cross join lateral (values ('cost_micros', u.model, u.cost_micros),
          ('input_tokens', '', greatest(0, u.tokens - u.output_tokens - u.cache_write_tokens)),
          ('output_tokens', '', u.output_tokens), ('cache_read_tokens', '', u.cache_read_tokens),
          ('cache_write_tokens', '', u.cache_write_tokens)) as k (measure, label, amount)
        where k.amount > 0) c
      cross join lateral (values (c.agent_id), ('')) as a (agent_id)
      cross join state.trend_grains() g
      -- A backlog is counted by days: its small buckets would be removed at once.
      where g.keep is null or c.at > v_now - g.keep
      group by 1, 2, 3, 4, 5, 6
      on conflict (grain, starts_at, project_id, measure, agent_id, label)
        do update set amount = t.amount + excluded.amount
    )
    select (select count(*) from page), (select count(*) from ended), l.xid, l.event_id, l.created_at
    into events, turns, v_xid, v_event_id, until
    from (select 1) one left join lateral (
      select * from page order by xid desc, event_id desc limit 1) l on true;
    if events > 0 then
      update state.trend_progress set xid = v_xid, event_id = v_event_id;
    end if;
  end if;
  return next;
end $$;

-- Interventions are counted by a mark on their rows: they may commit in another order than their ids.
create or replace function state.count_interventions(p_limit int) returns int language plpgsql as $$
declare
  v_rows int;
begin
  with marked as (
    update state.interventions v set counted = true where v.intervention_id = any (array(
      select n.intervention_id from state.interventions n where not n.counted order by n.intervention_id limit p_limit))
    returning v.project_id, state.trend_agent(v.agent_id, v.agent_turn_id) as agent_id, v.kind, v.created_at
  ), added as (
    insert into state.trends as t (grain, starts_at, project_id, measure, agent_id, label, amount)
    select g.grain, state.trend_start(g.grain, m.created_at), m.project_id, 'interventions', a.agent_id, m.kind,
      count(*)
    from marked m cross join lateral (values (m.agent_id), ('')) as a (agent_id) cross join state.trend_grains() g
    where m.project_id is not null and a.agent_id is not null
    group by 1, 2, 3, 5, 6
    on conflict (grain, starts_at, project_id, measure, agent_id, label)
      do update set amount = t.amount + excluded.amount
  )
  select count(*) into v_rows from marked;
  return v_rows;
end $$;

-- Takes the sample of this minute, if no PMO has taken it. The queue is counted up to p_depth_max turns.
create or replace function state.sample_trends(p_worker_gone_seconds double precision, p_depth_max int)
returns boolean language plpgsql as $$
declare
  v_minute timestamptz := date_trunc('minute', state.now());
  p state.trend_progress;
begin
  select * into p from state.trend_progress for no key update skip locked;
  -- A sample that is further ahead was taken while the clock was wrong: it stops no other.
  if p.one is null or (p.sampled_at >= v_minute and p.sampled_at < v_minute + interval '2 minutes') then
    return false;
  end if;
  update state.trend_progress set sampled_at = v_minute;
  insert into state.trend_gauges as t (grain, starts_at, gauge, name, total, highest)
  select g.grain, state.trend_start(g.grain, v_minute), s.gauge::state.trend_gauge, s.name, s.value, s.value
  from (
    select 'samples' as gauge, '' as name, 1::bigint as value
    union all
    select 'queued', q.project_id, count(*) from (
      select project_id from state.queue where status = 'queued' limit p_depth_max) q group by q.project_id
    union all
    select k.gauge, w.worker_target, sum(k.value)
    from state.workers w cross join lateral (values ('slots', w.concurrency),
      ('busy', greatest(0, w.concurrency - w.free))) as k (gauge, value)
    where w.seen_at > state.now() - make_interval(secs => p_worker_gone_seconds) and k.value is not null
    group by 1, 2) s
  cross join state.trend_grains() g
  on conflict (grain, starts_at, gauge, name)
    do update set total = t.total + excluded.total, highest = greatest(t.highest, excluded.highest);
  return true;
end $$;

-- Whether a turn that ended before p_before is not counted yet: retention must not remove it.
create or replace function state.has_uncounted(p_before timestamptz) returns boolean language sql stable as $$
  select exists (select from state.trend_progress p cross join lateral (
      select o.created_at from state.outbox o where (o.xid, o.event_id) > (p.xid, p.event_id)
      order by o.xid, o.event_id limit 1) o
    where o.created_at < p_before)
$$;

-- Removes buckets that are older than their grain is kept, a bounded number per call, and returns how many.
create or replace function state.prune_trends(p_days double precision, p_limit int) returns int language plpgsql as $$
declare
  v_now timestamptz := state.now();
  v_rows int;
  v_sum int := 0;
begin
  delete from state.trends t where t.ctid = any (array(
    select o.ctid from state.trend_grains(p_days) g cross join lateral (
      select b.ctid from state.trends b where b.grain = g.grain and b.starts_at < v_now - g.keep limit p_limit) o
    limit p_limit));
  get diagnostics v_sum = row_count;
  delete from state.trend_gauges t where t.ctid = any (array(
    select o.ctid from state.trend_grains(p_days) g cross join lateral (
      select b.ctid from state.trend_gauges b where b.grain = g.grain and b.starts_at < v_now - g.keep limit p_limit) o
    limit p_limit));
  get diagnostics v_rows = row_count;
  return v_sum + v_rows;
end $$;
