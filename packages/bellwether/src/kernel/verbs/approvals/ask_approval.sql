-- Asks a person for a call. These functions run with the rights of their owner: the role of workers can ask, and cannot
-- decide. Without a decision before the deadline, nothing runs.

-- Whether a grant covers the call: the same tool, and equal arguments except those that may have any value.
create or replace function state.granted(p_project_id text, p_agent_id text, p_agent_turn_id text, p_tool_name text,
  p_arguments jsonb) returns text language sql stable as $$
  select g.grant_id from state.approval_grants g
  where g.project_id = p_project_id and g.agent_id = p_agent_id and g.tool_name = p_tool_name
    and (g.agent_turn_id is null or g.agent_turn_id = p_agent_turn_id)
    and p_arguments - g.any_arguments = g.arguments
  order by g.granted_at limit 1
$$;

create or replace function state.use_grant(p_grant_id text) returns void language sql security definer
set search_path = pg_catalog as $$
  update state.approval_grants set uses = uses + 1, last_used_at = state.now() where grant_id = p_grant_id
$$;

-- A tool call of a suspended turn waits for a person. The turn waits at least as long as the person and then the tool
-- may take. The caller holds the lock of the head.
create or replace function state.open_call_approval(p_project_id text, p_tool_call_id text, p_seconds double precision,
  p_run_seconds double precision) returns void language plpgsql security definer set search_path = pg_catalog as $$
#variable_conflict use_column
declare
  v_now timestamptz := state.now();
begin
  insert into state.approvals (approval_id, project_id, agent_id, agent_turn_id, turn_epoch, tool_call_id, tool_name,
    arguments, asked_at, deadline, run_seconds)
  select w.tool_call_card_id, w.project_id, w.agent_id, w.agent_turn_id, w.turn_epoch, w.tool_call_id, w.tool_name,
    coalesce(c.content -> 'arguments', '{}'), v_now, v_now + make_interval(secs => p_seconds), p_run_seconds
  from state.turn_waiting_tools w left join cards.cards c on c.card_id = w.tool_call_card_id
  where w.project_id = p_project_id and w.tool_call_id = p_tool_call_id
  on conflict (approval_id) do nothing;
  update state.turn_waiting_tools w set approval = 'waiting', started_by = null, started_at = null
  where w.project_id = p_project_id and w.tool_call_id = p_tool_call_id;
  update state.agent_state_head h set resume_seconds = greatest(h.resume_seconds, p_seconds + p_run_seconds),
    resume_deadline = case when h.resume_deadline is not null
      then greatest(h.resume_deadline, v_now + make_interval(secs => p_seconds + p_run_seconds)) end
  from state.turn_waiting_tools w where w.project_id = p_project_id and w.tool_call_id = p_tool_call_id
    and h.project_id = w.project_id and h.agent_id = w.agent_id;
end $$;

-- The host of a tool with approve: ask calls this before it starts a call, also of an agent on another
-- worker.
-- allowed: start it. waiting: a person decides first. gone: no turn waits for it, or another host has started it.
create or replace function state.ask_for_call(p_project_id text, p_tool_call_id text, p_host text,
  p_seconds double precision, p_run_seconds double precision)
returns table (what text) language plpgsql as $$
#variable_conflict use_column
declare
  w state.turn_waiting_tools;
  v_arguments jsonb;
  v_grant text;
begin
  perform from state.agent_state_head h
  join state.turn_waiting_tools t on t.project_id = h.project_id and t.agent_id = h.agent_id
  where t.project_id = p_project_id and t.tool_call_id = p_tool_call_id for no key update of h;
  select t.* into w from state.turn_waiting_tools t
  where t.project_id = p_project_id and t.tool_call_id = p_tool_call_id and t.wait_status = 'waiting'
    and exists (select from state.head(t.project_id, t.agent_id) h where h.status = 'suspended'
      and h.active_agent_turn_id = t.agent_turn_id and h.turn_epoch = t.turn_epoch)
    and not exists (select from state.agent_inbox r where r.agent_turn_id = t.agent_turn_id
      and r.correlation_id = t.tool_call_id and r.message_type in ('tool_result', 'timeout') offset 0);
  if w.tool_call_id is null then
    return query select 'gone';
  elsif w.approval is not null then
    return query select w.approval;
  elsif w.started_by is not null and w.started_by <> p_host and not w.idempotent then
    return query select 'gone';
  else
    select coalesce(c.content -> 'arguments', '{}') into v_arguments from cards.cards c
    where c.card_id = w.tool_call_card_id;
    v_grant := state.granted(w.project_id, w.agent_id, w.agent_turn_id, w.tool_name, v_arguments);
    if v_grant is null then
      perform state.open_call_approval(p_project_id, p_tool_call_id, p_seconds, p_run_seconds);
      return query select 'waiting';
    else
      perform state.use_grant(v_grant);
      update state.turn_waiting_tools t set approval = 'allowed'
      where t.project_id = p_project_id and t.tool_call_id = p_tool_call_id;
      return query select 'allowed';
    end if;
  end if;
end $$;

-- A program of a running turn asks for a call. A worker that took the turn over finds what its predecessor asked: an
-- open request, or an approval that no program has used. A denial counts for the whole turn. p_approval_id repeats a
-- request whose answer was lost.
create or replace function state.ask_approval(p_project_id text, p_agent_id text, p_agent_turn_id text,
  p_turn_epoch bigint, p_approval_id text, p_tool_name text, p_arguments jsonb, p_seconds double precision,
  p_open_max int)
returns table (what text, approval_id text, reason text, decided_by text) language plpgsql security definer
set search_path = pg_catalog as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_grant text;
  v_deadline timestamptz;
  v_found state.approvals;
begin
  perform state.lock_heads(array[p_project_id], array[p_agent_id]);
  v_now := state.now();
  select least(v_now + make_interval(secs => p_seconds), h.turn_deadline) into v_deadline
  from state.head(p_project_id, p_agent_id) h
  where h.active_agent_turn_id = p_agent_turn_id and h.turn_epoch = p_turn_epoch and h.status = 'running';
  if v_deadline is null then
    return query select 'stale', null::text, null::text, null::text;
    return;
  end if;
  select a.* into v_found from state.approvals a
  where a.agent_turn_id = p_agent_turn_id and a.tool_call_id is null and a.tool_name = p_tool_name
    and a.arguments = p_arguments
    and (a.approval_id = p_approval_id or a.status = 'denied'
      or a.turn_epoch < p_turn_epoch and a.used_at is null
        and (a.status = 'allowed' or a.status = 'waiting' and a.deadline > v_now))
  order by a.approval_id = p_approval_id desc, a.status = 'denied' desc, a.asked_at limit 1;
  if v_found.approval_id is not null then
    update state.approvals a set turn_epoch = p_turn_epoch where a.approval_id = v_found.approval_id;
    return query select case when v_found.status = 'denied' then 'denied' else 'waiting' end, v_found.approval_id,
      v_found.reason, v_found.decided_by;
    return;
  end if;
  v_grant := state.granted(p_project_id, p_agent_id, p_agent_turn_id, p_tool_name, p_arguments);
  if v_grant is not null then
    perform state.use_grant(v_grant);
    return query select 'allowed', null::text, null::text, null::text;
    return;
  end if;
  if p_open_max <= (select count(*) from state.approvals a
    where a.agent_turn_id = p_agent_turn_id and a.status = 'waiting') then
    return query select 'full', null::text, null::text, null::text;
    return;
  end if;
  insert into state.approvals (approval_id, project_id, agent_id, agent_turn_id, turn_epoch, tool_name, arguments,
    asked_at, deadline)
  values (p_approval_id, p_project_id, p_agent_id, p_agent_turn_id, p_turn_epoch, p_tool_name, p_arguments, v_now,
    v_deadline);
  return query select 'waiting', p_approval_id, null::text, null::text;
end $$;

-- The decision for the program that asked: once for an approval of one call, and only for the current worker.
create or replace function state.take_decision(p_approval_id text, p_turn_epoch bigint)
returns table (what text, reason text, decided_by text) language plpgsql security definer
set search_path = pg_catalog as $$
#variable_conflict use_column
declare
  a state.approvals;
  v_now timestamptz;
begin
  -- Most looks find no decision: they take no lock.
  select * into a from state.approvals x where x.approval_id = p_approval_id;
  v_now := state.now();
  if a.status = 'waiting' and a.deadline > v_now and a.turn_epoch = p_turn_epoch then
    return query select 'waiting', null::text, null::text;
    return;
  end if;
  perform state.lock_heads(array[a.project_id], array[a.agent_id]);
  v_now := state.now();
  select x.* into a from state.approvals x
  cross join lateral state.head(x.project_id, x.agent_id) h
  where x.approval_id = p_approval_id and x.turn_epoch = p_turn_epoch and h.turn_epoch = p_turn_epoch
    and h.active_agent_turn_id = x.agent_turn_id and h.status = 'running';
  if a.approval_id is null then
    return query select 'stale', null::text, null::text;
    return;
  end if;
  if a.status = 'waiting' and a.deadline <= v_now then
    update state.approvals x set status = 'expired', decided_at = v_now where x.approval_id = p_approval_id;
    a.status := 'expired';
  end if;
  -- The same epoch may take it again: its first answer was lost on the way from the database.
  if a.status <> 'waiting' then
    update state.approvals x set used_at = v_now where x.approval_id = p_approval_id and x.used_at is null;
  end if;
  return query select a.status, a.reason, a.decided_by;
end $$;
