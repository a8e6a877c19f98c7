-- The verbs of tool hosts (hazard 11): a host claims a call before it acts, and beats while it acts.

-- Compare-and-set: one host starts a call. Returns 'started' to that host, also when it repeats the call; 'unknown' if
-- another host started a call that must not run twice; 'waiting' until a person has allowed the call; 'gone' if no
-- turn waits any more, or if the answer has arrived and is not applied yet.
create or replace function state.start_tool(p_project_id text, p_tool_call_id text, p_host text)
returns table (what text, agent_id text, agent_turn_id text, turn_epoch bigint, tool_name text, arguments jsonb,
  started_by text)
language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz := state.now();
begin
  -- The turn must still be waiting: the lock on its head keeps it from ending in between.
  perform from state.agent_state_head h
  join state.turn_waiting_tools w on w.project_id = h.project_id and w.agent_id = h.agent_id
  where w.project_id = p_project_id and w.tool_call_id = p_tool_call_id
    and h.active_agent_turn_id = w.agent_turn_id and h.turn_epoch = w.turn_epoch
  for share of h;

  -- Checked under the lock, which report takes too: an answered call does not start, not even for the host that
  -- answered it.
  if exists (select from state.turn_waiting_tools w join state.agent_inbox r on r.agent_turn_id = w.agent_turn_id
    and r.correlation_id = w.tool_call_id
    where w.project_id = p_project_id and w.tool_call_id = p_tool_call_id
      and r.message_type in ('tool_result', 'timeout'))
  then
    return query select 'gone', w.agent_id, w.agent_turn_id, w.turn_epoch, w.tool_name, null::jsonb, w.started_by
    from state.turn_waiting_tools w where w.project_id = p_project_id and w.tool_call_id = p_tool_call_id;
    return;
  end if;

  update state.turn_waiting_tools w set started_by = p_host, started_at = coalesce(w.started_at, v_now),
    host_beat_at = v_now
  from state.agent_state_head h
  where w.project_id = p_project_id and w.tool_call_id = p_tool_call_id and w.wait_status = 'waiting'
    and h.project_id = w.project_id and h.agent_id = w.agent_id and h.status = 'suspended'
    and h.active_agent_turn_id = w.agent_turn_id and h.turn_epoch = w.turn_epoch
    and w.approval is distinct from 'waiting'
    and (w.started_by is null or w.started_by = p_host or w.idempotent);

  return query
  select case when h.active_agent_turn_id is distinct from w.agent_turn_id or h.turn_epoch <> w.turn_epoch
    or w.wait_status <> 'waiting' then 'gone'
      when w.approval = 'waiting' then 'waiting'
      when w.started_by = p_host then 'started' else 'unknown' end,
    w.agent_id, w.agent_turn_id, w.turn_epoch, w.tool_name, c.content -> 'arguments', w.started_by
  from state.turn_waiting_tools w
  cross join lateral state.head(w.project_id, w.agent_id) h
  left join cards.cards c on c.card_id = w.tool_call_card_id
  where w.project_id = p_project_id and w.tool_call_id = p_tool_call_id;
end $$;

-- Calls of these tools that a host may start, oldest first: calls that no host started, and repeatable calls whose host
-- stopped beating. Calls that go to a special subject are not for hosts that listen to the tool's name.
create or replace function state.open_calls(p_project_id text, p_tools text[], p_silent_seconds double precision,
  p_limit int)
returns table (tool_call_id text, tool_name text, traceparent text) language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz := state.now();
begin
  return query
  select w.tool_call_id, w.tool_name, state.trace_of(i.agent_turn_id, i.traceparent)
  from unnest(p_tools) as u (tool)
  cross join lateral (
    select w.* from state.turn_waiting_tools w
    where w.project_id = p_project_id and w.tool_name = u.tool and w.wait_status = 'waiting'
      and w.approval is distinct from 'waiting'
      and (w.started_by is null or w.idempotent and w.host_beat_at < v_now - make_interval(secs => p_silent_seconds))
    order by w.wait_seq limit p_limit) w
  cross join lateral state.head(w.project_id, w.agent_id) h
  left join lateral state.turn_row(w.agent_turn_id) i on true
  left join resource.tools t on t.project_id = w.project_id and t.tool_name = w.tool_name
  where h.active_agent_turn_id = w.agent_turn_id and h.turn_epoch = w.turn_epoch and h.status = 'suspended'
    and h.resume_deadline > v_now and w.pmo_tool is null
    and coalesce(t.target_subject, 'cmd.tool.' || w.tool_name || '.call') = 'cmd.tool.' || w.tool_name || '.call'
    and not exists (select from state.agent_inbox r where r.agent_turn_id = w.agent_turn_id
      and r.correlation_id = w.tool_call_id
      and r.message_type in ('tool_result', 'timeout') offset 0)
  order by w.wait_seq limit p_limit;
end $$;

-- A host reports the calls that it works on. Returns the calls to give up: taken by another host, or no longer waited
-- for. It skips locked rows and renews them with the next beat, so that it never waits and cannot deadlock.
create or replace function state.beat_tools(p_project_id text, p_tool_call_ids text[],
  p_host text) returns setof text language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz := state.now();
begin
  update state.turn_waiting_tools w set host_beat_at = v_now
  from (
    select b.tool_call_id from state.turn_waiting_tools b
    where b.project_id = p_project_id and b.tool_call_id = any (p_tool_call_ids) and b.started_by = p_host
      and b.wait_status = 'waiting'
    for no key update skip locked) mine
  where w.project_id = p_project_id and w.tool_call_id = mine.tool_call_id;

  return query
  select c.id from unnest(p_tool_call_ids) as c (id)
  where not exists (
    select from state.turn_waiting_tools w cross join lateral state.head(w.project_id, w.agent_id) h
    where w.project_id = p_project_id and w.tool_call_id = c.id and w.started_by = p_host and w.wait_status = 'waiting'
      and h.active_agent_turn_id = w.agent_turn_id and h.turn_epoch = w.turn_epoch);
end $$;
