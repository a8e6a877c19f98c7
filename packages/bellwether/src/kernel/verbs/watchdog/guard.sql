-- Rules of the PMO that end nothing. Each returns where to ring.

-- W2.4: dispatched and not started. Restores the turn's inbox row from the head (same turn, same epoch) and rings
-- again. Status and updated_at of the head stay unchanged: the turn was not taken over.
create or replace function state.retry_dispatched(p_retry_seconds double precision, p_limit int)
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz := state.now();
  v_quiet timestamptz := v_now - make_interval(secs => p_retry_seconds);
  v_projects text[];
  v_agents text[];
begin
  select array_agg(l.project_id), array_agg(l.agent_id) into v_projects, v_agents from (
    select h.project_id, h.agent_id from state.agent_state_head h
    where h.awake and h.active_agent_turn_id is not null and h.updated_at < v_quiet and h.status = 'dispatched'
    limit p_limit for no key update of h skip locked) l;
  if v_agents is null then return; end if;

  insert into state.interventions (kind, project_id, agent_id, agent_turn_id, turn_epoch, reason, before, after,
    created_at)
  select 'dispatched_retry', h.project_id, h.agent_id, h.active_agent_turn_id, h.turn_epoch,
    'dispatched for ' || p_retry_seconds || ' s and not started', coalesce((select jsonb_build_object('inbox', i.status,
    'turn_epoch', i.turn_epoch) from state.agent_inbox i
      where i.agent_turn_id = h.active_agent_turn_id and i.message_type in ('turn', 'ui_action')), '{}'),
    jsonb_build_object('inbox', 'pending', 'turn_epoch', h.turn_epoch), v_now
  from unnest(v_projects, v_agents) as a (project_id, agent_id)
  join state.agent_state_head h on h.project_id = a.project_id and h.agent_id = a.agent_id
  -- Recorded once per turn and epoch; the ring is repeated.
  where not exists (select from state.interventions v
    where v.agent_turn_id = h.active_agent_turn_id and v.kind = 'dispatched_retry'
      and v.turn_epoch = h.turn_epoch offset 0);

  insert into state.agent_inbox (inbox_id, project_id, agent_id, worker_target, channel_id, message_type, status,
    agent_turn_id, turn_epoch, recursion_depth, parent_step_id, payload, created_at, leased_at)
  select h.active_agent_turn_id, h.project_id, h.agent_id, h.worker_target, h.active_channel_id, 'turn', 'pending',
    h.active_agent_turn_id, h.turn_epoch, h.active_recursion_depth, h.parent_step_id,
    jsonb_build_object('context_box_id', h.context_box_id), v_now, h.leased_at
  from unnest(v_projects, v_agents) as a (project_id, agent_id)
  join state.agent_state_head h on h.project_id = a.project_id and h.agent_id = a.agent_id
  where not exists (select from state.agent_inbox i where i.agent_turn_id = h.active_agent_turn_id
    and i.message_type in ('turn', 'ui_action') offset 0)
  on conflict do nothing;

  update state.agent_inbox i set status = 'pending', turn_epoch = h.turn_epoch, worker_target = h.worker_target,
    error = null, processed_at = null, archived_at = null, claimed_by = null,
    channel_id = coalesce(h.active_channel_id, i.channel_id)
  from unnest(v_projects, v_agents) as a (project_id, agent_id)
  join state.agent_state_head h on h.project_id = a.project_id and h.agent_id = a.agent_id
  where i.agent_turn_id = h.active_agent_turn_id and i.message_type in ('turn', 'ui_action') and i.ended_at is null
    and (i.status <> 'pending' or i.turn_epoch is distinct from h.turn_epoch or i.worker_target <> h.worker_target);

  return query
  select 'retried', h.project_id, h.agent_id, h.active_agent_turn_id, h.turn_epoch, i.inbox_id, h.worker_target,
    h.active_channel_id, null::jsonb
  from unnest(v_projects, v_agents) as a (project_id, agent_id)
  join state.agent_state_head h on h.project_id = a.project_id and h.agent_id = a.agent_id
  join state.agent_inbox i on i.agent_turn_id = h.active_agent_turn_id and i.message_type in ('turn', 'ui_action')
  where i.status = 'pending';
end $$;

-- W2.7: pending for too long. Rings again and changes nothing. A row is skipped, with the reason, only if its agent
-- does not exist, or if no channel is known after a longer wait.
create or replace function state.wake_pending(p_wakeup_seconds double precision, p_skip_seconds double precision,
  p_limit int)
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz := state.now();
begin
  return query
  with lost as materialized (
    select i.inbox_id, case when h.agent_id is null then 'unknown_agent' else 'missing_channel' end as reason
    from state.queue q join state.agent_inbox i on i.inbox_id = q.inbox_id
    left join state.agent_state_head h on h.project_id = i.project_id and h.agent_id = i.agent_id
    where q.status = 'pending' and i.status = 'pending'
      and i.created_at <= v_now - make_interval(secs => p_skip_seconds)
      and (h.agent_id is null or coalesce(i.channel_id, h.active_channel_id) is null)
    limit p_limit for update of i skip locked
  ), noted as (
    insert into state.interventions (kind, project_id, agent_id, agent_turn_id, turn_epoch, reason, before, after,
      created_at)
    select 'pending_skipped', i.project_id, i.agent_id, i.agent_turn_id, i.turn_epoch, l.reason,
      jsonb_build_object('inbox', i.status),
      jsonb_build_object('inbox', 'skipped'), v_now from lost l join state.agent_inbox i on i.inbox_id = l.inbox_id
  )
  update state.agent_inbox i set status = 'skipped', watchdog_error = l.reason, watchdog_at = v_now
  from lost l where i.inbox_id = l.inbox_id and i.status = 'pending'
  returning 'skipped', i.project_id, i.agent_id, i.agent_turn_id, i.turn_epoch, i.inbox_id, null::text, null::text,
    to_jsonb(l.reason);

  return query
  with old as materialized (
    select i.project_id, i.worker_target, coalesce(i.channel_id, h.active_channel_id) as channel_id, i.inbox_id,
      i.created_at from state.queue q cross join lateral state.inbox_row(q.inbox_id) i
    join state.agent_state_head h on h.project_id = i.project_id and h.agent_id = i.agent_id
    where q.status = 'pending' and i.status = 'pending'
      and (i.created_at < v_now - make_interval(secs => p_wakeup_seconds) or i.created_at > v_now + interval '1 second')
      and coalesce(i.channel_id, h.active_channel_id) is not null
      -- Not for a row that claim will refuse (T3.2b): a worker that polls finds it.
      and i.agent_turn_id is not null and (i.message_type = 'stop'
        or (i.agent_turn_id, i.turn_epoch) is not distinct from (h.active_agent_turn_id, h.turn_epoch))
    limit p_limit
  ), noted as (
    insert into state.interventions (kind, project_id, reason, after, created_at)
    select 'pending_wakeup', null, 'pending for ' || p_wakeup_seconds
      || ' s', jsonb_build_object('worker_target', worker_target, 'rows', count(*),
      'oldest', min(created_at)), v_now from old group by worker_target
  )
  -- One ring per target and channel, not one per row.
  select distinct on (project_id, worker_target, channel_id) 'woken', project_id, null::text, null::text, null::bigint,
    inbox_id, worker_target, channel_id, null::jsonb
  from old order by project_id, worker_target, channel_id, inbox_id;
end $$;

-- W2.8: leases a queued turn whose agent is idle.
create or replace function state.sweep_queued(p_older_than_seconds double precision, p_limit int)
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz := state.now();
  v_projects text[];
  v_agents text[];
begin
  select array_agg(l.project_id), array_agg(l.agent_id) into v_projects, v_agents from (
    -- One row per agent: a long queue that cannot be leased now (T5.3) must not hide the others.
    select h.project_id, h.agent_id from (select distinct q.project_id, q.agent_id from state.queue q
      where q.status = 'queued' and (q.created_at < v_now - make_interval(secs => p_older_than_seconds)
        or q.created_at > v_now + interval '1 second')) q
    join state.agent_state_head h on h.project_id = q.project_id and h.agent_id = q.agent_id
    where h.status = 'idle'
    limit p_limit for no key update of h skip locked) l;
  if v_agents is null then return; end if;

  -- Reads the queues of these agents from the beginning: a row that another program wrote may be older.
  update state.agent_state_head h set queued_since = null
  from unnest(v_projects, v_agents) as a (project_id, agent_id)
  cross join lateral state.head_ctid(a.project_id, a.agent_id) as at (tid)
  where h.ctid = at.tid and h.queued_since is not null;

  -- A queued row without a turn id can never run (T3.2b).
  update state.agent_inbox i set status = 'error', error = 'protocol_error: no agent_turn_id', processed_at = v_now,
    archived_at = v_now
  from unnest(v_projects, v_agents) as a (project_id, agent_id)
  join state.queue q on q.project_id = a.project_id and q.agent_id = a.agent_id and q.status = 'queued'
  where i.inbox_id = q.inbox_id and i.status = 'queued' and i.agent_turn_id is null;

  return query
  with leased as materialized (select * from state.dispatch_next(v_projects, v_agents)),
  noted as (
    insert into state.interventions (kind, project_id, agent_id, agent_turn_id, turn_epoch, reason, before, after,
      created_at)
    select 'queued_dispatch', project_id, agent_id, agent_turn_id, turn_epoch, 'queued on an idle agent',
      '{"status": "idle"}', '{"status": "dispatched"}', v_now from leased
  )
  select * from leased;
end $$;

-- Marks agents that have been idle for p_idle_seconds as not awake, so that sweeps no longer read their heads.
create or replace function state.mark_idle_agents(p_idle_seconds double precision, p_limit int) returns int
language plpgsql as $$
#variable_conflict use_column
declare
  v_before timestamptz := state.now() - make_interval(secs => p_idle_seconds);
  v_rows int;
begin
  update state.agent_state_head h set awake = false from (
    select h.ctid as tid from state.agent_state_head h
    where h.awake and h.status = 'idle' and h.updated_at < v_before
    limit p_limit for no key update of h skip locked) r
  where h.ctid = r.tid;
  get diagnostics v_rows = row_count;
  return v_rows;
end $$;

-- After the clock was set back, signs of life lie in the future and would hide silence until the clock catches up. One
-- second of tolerance covers rows that are written while this runs.
create or replace function state.reset_future_times() returns int language plpgsql as $$
declare
  v_now timestamptz := state.now();
  v_future timestamptz := v_now + interval '1 second';
  v_rows int;
begin
  perform from state.agent_state_head h where h.awake and h.active_agent_turn_id is not null and h.updated_at > v_future
  order by h.project_id, h.agent_id for no key update of h;
  -- The resume lease of such a turn might never expire; its holder, if alive, is still fenced.
  update state.turn_resume_ledger l set lease_expires_at = v_now from state.agent_state_head h
  where h.awake and h.active_agent_turn_id is not null and h.updated_at > v_future
    and l.agent_turn_id = h.active_agent_turn_id and l.status = 'processing';
  update state.agent_state_head h set updated_at = v_now,
    leased_at = least(h.leased_at, v_now),
    turn_deadline = least(h.turn_deadline, v_now + (h.turn_deadline - h.leased_at)),
    resume_deadline = case when h.resume_deadline is not null
      then least(h.resume_deadline, v_now + make_interval(secs => coalesce(h.resume_seconds, 0))) end
  where h.awake and h.active_agent_turn_id is not null and h.updated_at > v_future;
  get diagnostics v_rows = row_count;
  update state.agent_inbox i set processed_at = v_now
  from (select t.inbox_id from state.agent_state_head h cross join lateral state.turn_row(h.active_agent_turn_id) t
      where h.awake and h.active_agent_turn_id is not null
    union all select q.inbox_id from state.queue q where q.status = 'processing') p
  where i.inbox_id = p.inbox_id and i.status = 'processing' and i.processed_at > v_future;
  update state.workers w set seen_at = least(w.seen_at, v_now), last_claim_at = least(w.last_claim_at, v_now),
    live_since = least(w.live_since, v_now), shared_death_at = least(w.shared_death_at, v_now)
  where greatest(w.seen_at, w.last_claim_at, w.live_since, w.shared_death_at) > v_future;
  if v_rows > 0 then
    insert into state.interventions (kind, reason, after, created_at)
    values ('clock_set_back', 'signs of life lay in the future', jsonb_build_object('agents', v_rows), v_now);
  end if;
  return v_rows;
end $$;
