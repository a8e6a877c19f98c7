-- Creates agents: project, roster row, head and output box. Repeating it changes the profile and the target, never the
-- state of the head. The absolute limit of a turn is the agent's, else the profile's (spec.turn_deadline_seconds), else
-- the default (W2.9). Its memory is the agent's, else the profile's (spec.memory), else none (T9.3).
-- Items: {project_id, agent_id, worker_target, profile_id?, status?, metadata?, box_id, turn_deadline_seconds?,
-- memory?}.
create or replace function state.put_agents(p_items json) returns void language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz;
begin
  insert into resource.projects (project_id)
  select distinct x.project_id from json_to_recordset(p_items) as x (project_id text) order by 1
  on conflict do nothing;
  perform state.check_targets(array_agg(x.project_id), array_agg(x.worker_target))
  from json_to_recordset(p_items) as x (project_id text, worker_target text);

  insert into resource.project_agents as a (project_id, agent_id, profile_id, worker_target, status, metadata, memory)
  select x.project_id, x.agent_id, x.profile_id, x.worker_target, coalesce(x.status, 'active'),
    coalesce(x.metadata, '{}'), coalesce(x.memory, state.profile_memory(x.project_id, x.profile_id))
  from json_to_recordset(p_items) as x (project_id text, agent_id text, profile_id text, worker_target text,
    status text, metadata jsonb, memory text)
  order by x.project_id, x.agent_id
  on conflict (project_id, agent_id) do update set profile_id = excluded.profile_id, memory = excluded.memory,
    worker_target = excluded.worker_target, status = excluded.status, metadata = excluded.metadata;

  v_now := state.now();
  with new_heads as (
    -- This call has locked the roster rows: no other session creates these heads.
    insert into state.agent_state_head (project_id, agent_id, profile_id, worker_target, output_box_id, home_box_id,
      turn_deadline_seconds, updated_at, awake)
    select x.project_id, x.agent_id, x.profile_id, x.worker_target, x.box_id, x.box_id,
      coalesce(x.turn_deadline_seconds, (
      select state.seconds(f.spec -> 'turn_deadline_seconds') from resource.profiles f
      where f.project_id = x.project_id and f.profile_id = x.profile_id)), v_now, false
    from json_to_recordset(p_items) as x (project_id text, agent_id text, profile_id text, worker_target text,
      box_id text, turn_deadline_seconds double precision)
    where not exists (select from state.head(x.project_id, x.agent_id))
    order by x.project_id, x.agent_id
    returning project_id, agent_id, output_box_id
  )
  insert into cards.boxes (box_id, project_id, kind, agent_id, created_at)
  select output_box_id, project_id, 'output', agent_id, v_now from new_heads where output_box_id is not null;

  -- The head of a known agent follows its roster row; queued and pending work moves to the new target.
  perform from state.agent_state_head h
  join json_to_recordset(p_items) as x (project_id text, agent_id text) on h.project_id = x.project_id
    and h.agent_id = x.agent_id
  order by h.project_id, h.agent_id for no key update of h;
  update state.agent_inbox i set worker_target = x.worker_target
  from json_to_recordset(p_items) as x (project_id text, agent_id text, worker_target text)
  join state.agent_state_head h on h.project_id = x.project_id and h.agent_id = x.agent_id
    and h.worker_target <> x.worker_target
  where i.inbox_id in (
    select q.inbox_id from state.queue q where q.project_id = x.project_id and q.agent_id = x.agent_id
      and q.status = 'queued'
    union all
    select q.inbox_id from state.agent_inbox q where q.agent_turn_id = h.active_agent_turn_id
      and q.message_type in ('turn', 'ui_action') and q.status in ('pending', 'processing')
    union all
    select q.inbox_id from state.agent_inbox q where q.agent_turn_id = h.active_agent_turn_id
      and q.message_type in ('tool_result', 'timeout') and q.status = 'pending');
  update state.agent_state_head h set worker_target = x.worker_target, profile_id = x.profile_id,
    turn_deadline_seconds = x.seconds
  from (
    select y.project_id, y.agent_id, y.worker_target, y.profile_id, coalesce(y.turn_deadline_seconds, (
      select state.seconds(f.spec -> 'turn_deadline_seconds') from resource.profiles f
      where f.project_id = y.project_id and f.profile_id = y.profile_id)) as seconds
    from json_to_recordset(p_items) as y (project_id text, agent_id text, worker_target text, profile_id text,
      turn_deadline_seconds double precision)) x
  where h.project_id = x.project_id and h.agent_id = x.agent_id
    and (h.worker_target, h.profile_id, h.turn_deadline_seconds) is distinct from (x.worker_target, x.profile_id,
      x.seconds);
end $$;

-- Rejects worker targets that a project may not use. The lock keeps the list of the project as it is until the roster
-- row is committed (see set_targets).
create or replace function state.check_targets(p_projects text[], p_targets text[]) returns void language plpgsql as $$
declare
  v_project text;
  v_target text;
begin
  perform from resource.projects p where p.project_id = any (p_projects) order by p.project_id for share;
  select x.project_id, x.target into v_project, v_target
  from unnest(p_projects, p_targets) as x (project_id, target) join resource.projects p using (project_id)
  where x.target <> all (p.worker_targets) limit 1;
  if found then
    raise exception 'project "%" may not use worker target "%"', v_project, v_target
      using errcode = 'check_violation', constraint = 'project_may_use_target';
  end if;
end $$;

-- Sets the worker targets that a project may use; null allows all. Returns the agents and profiles that have another
-- target: if there are any, nothing is changed.
create or replace function state.set_targets(p_project text, p_targets text[])
returns table (kind text, name text, worker_target text) language plpgsql as $$
#variable_conflict use_column
begin
  insert into resource.projects as p (project_id) values (p_project) on conflict do nothing;
  -- Waits for the roster rows that other sessions write now.
  perform from resource.projects p where p.project_id = p_project for update;
  return query
  select * from (
    -- Retired agents too: a batch may clone them.
    select 'agent', a.agent_id, a.worker_target from resource.project_agents a where a.project_id = p_project
    union all
    select 'profile', f.profile_id, f.worker_target from resource.profiles f where f.project_id = p_project) x (kind,
    name, worker_target)
  where x.worker_target <> all (p_targets) order by 1, 2 limit 10;
  if found then return; end if;
  update resource.projects p set worker_targets = p_targets where p.project_id = p_project;
end $$;

-- A worker signs in, or reports that it is still alive. If it was not seen for p_gap_seconds, it was dead or frozen:
-- live_since is set to now, and waiting turns get a full timeout from now on (W2.5, W2.6).
create or replace function state.sign_in(p_worker text, p_target text, p_concurrency int,
  p_free int default null, p_gap_seconds double precision default 15) returns void language sql as $$
  insert into state.workers as w (worker_id, worker_target, started_at, seen_at, live_since, concurrency, free)
  values (p_worker, p_target, state.now(), state.now(), state.now(), p_concurrency, p_free)
  on conflict (worker_id) do update set seen_at = excluded.seen_at, concurrency = excluded.concurrency,
    free = excluded.free, drained_at = null, live_since = case
      when w.seen_at < excluded.seen_at - make_interval(secs => p_gap_seconds) then excluded.seen_at
      else coalesce(w.live_since, excluded.seen_at) end
$$;

-- A worker begins to shut down: no death is charged to the turns that it leaves behind.
create or replace function state.sign_out(p_worker text) returns void language sql as $$
  update state.workers w set drained_at = state.now(), free = 0 where w.worker_id = p_worker
$$;

-- The memory of agents of a profile that state none of their own.
create or replace function state.profile_memory(p_project_id text, p_profile_id text)
returns text language sql stable as $$
  select coalesce((select f.spec ->> 'memory' from resource.profiles f
    where f.project_id = p_project_id and f.profile_id = p_profile_id
      and f.spec ->> 'memory' in ('session', 'box')), 'none')
$$;
