-- A person decides about a call that waits. One decision counts; any later one changes nothing and returns what was
-- decided: already (by whom and when), expired (the deadline passed) or ended (the turn is over).
create or replace function state.decide_approval(p_project_id text, p_approval_id text, p_scope text, p_any text[],
  p_reason text, p_by text, p_grant_id text, p_inbox_id text, p_card_id text, p_grants_max int)
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_allows boolean := p_scope is not null;
  v_target text;
  v_waits boolean;
  a state.approvals;
begin
  select * into a from state.approvals x where x.approval_id = p_approval_id and x.project_id = p_project_id;
  if a.approval_id is null then return; end if;
  perform state.lock_heads(array[a.project_id], array[a.agent_id]);
  v_now := state.now();
  select x.* into a from state.approvals x where x.approval_id = p_approval_id for update;
  select h.worker_target, h.active_agent_turn_id is not distinct from a.agent_turn_id
    and (a.tool_call_id is null and h.status = 'running'
      or h.status = 'suspended' and exists (select from state.turn_waiting_tools w where w.project_id = a.project_id
        and w.tool_call_id = a.tool_call_id and w.turn_epoch = h.turn_epoch and w.approval = 'waiting'
        and w.wait_status = 'waiting') and not exists (select from state.agent_inbox r
        where r.agent_turn_id = a.agent_turn_id and r.correlation_id = a.tool_call_id
        and r.message_type in ('tool_result', 'timeout') offset 0))
  into v_target, v_waits from state.head(a.project_id, a.agent_id) h;

  if a.status <> 'waiting' or a.deadline <= v_now or v_waits is not true then
    return query select case when a.status in ('allowed', 'denied') then 'already'
        when a.status = 'ended' or a.status = 'waiting' and v_waits is not true then 'ended' else 'expired' end,
      a.project_id, a.agent_id, a.agent_turn_id, a.turn_epoch, null::text, null::text, null::text,
      jsonb_build_object('status', a.status, 'decided_by', a.decided_by, 'decided_at', a.decided_at,
        'deadline', a.deadline);
    return;
  end if;

  if p_scope in ('turn', 'agent') then
    if p_grants_max <= (select count(*) from state.approval_grants g where g.project_id = a.project_id
      and g.agent_id = a.agent_id and (g.agent_turn_id is null or g.agent_turn_id = a.agent_turn_id)) then
      return query select 'full', a.project_id, a.agent_id, a.agent_turn_id, a.turn_epoch, null::text, null::text,
        null::text, null::jsonb;
      return;
    end if;
    insert into state.approval_grants (grant_id, project_id, agent_id, agent_turn_id, tool_name, arguments,
      any_arguments, approval_id, granted_by, granted_at)
    values (p_grant_id, a.project_id, a.agent_id, case when p_scope = 'turn' then a.agent_turn_id end, a.tool_name,
      a.arguments - p_any, p_any, a.approval_id, p_by, v_now);
  end if;
  update state.approvals x set status = case when v_allows then 'allowed' else 'denied' end, scope = p_scope,
    decided_by = p_by, decided_at = v_now, reason = p_reason
  where x.approval_id = p_approval_id;

  if a.tool_call_id is not null and v_allows then
    -- The tool has its full time from now on. The command wakes its host.
    update state.turn_waiting_tools w set approval = 'allowed', sent_at = v_now
    where w.project_id = a.project_id and w.tool_call_id = a.tool_call_id;
    update state.agent_state_head h set
      resume_deadline = greatest(h.resume_deadline, v_now + make_interval(secs => a.run_seconds))
    where h.project_id = a.project_id and h.agent_id = a.agent_id and h.resume_deadline is not null;
    perform state.send_command(a.project_id, a.tool_call_id);
  elsif a.tool_call_id is not null then
    return query select * from state.report(json_build_array(json_build_object('project_id', a.project_id,
      'tool_call_id', a.tool_call_id, 'message_type', 'tool_result', 'status', 'failed', 'decided', true,
      'error', json_build_object('code', 'denied', 'message', 'a person denied the call' || coalesce(': ' || p_reason,
        '')), 'inbox_id', p_inbox_id, 'card_id', p_card_id)));
  end if;
  return query select 'decided', a.project_id, a.agent_id, a.agent_turn_id, a.turn_epoch, null::text, null::text,
    null::text, null::jsonb;
end $$;

-- Sends the command of a call that a person has allowed.
create or replace function state.send_command(p_project_id text, p_tool_call_id text) returns void language sql as $$
  insert into state.outbox (project_id, subject, kind, payload, agent_turn_id, created_at)
  select w.project_id, 'bw.v1.' || w.project_id || '.' || h.active_channel_id || '.'
      || coalesce('cmd.sys.pmo.internal.' || w.pmo_tool, t.target_subject, 'cmd.tool.' || w.tool_name || '.call'),
    'command', jsonb_strip_nulls(jsonb_build_object('agent_id', w.agent_id, 'agent_turn_id', w.agent_turn_id,
      'turn_epoch', w.turn_epoch, 'step_id', w.step_id, 'tool_call_id', w.tool_call_id, 'tool_name', w.tool_name,
      'after_execution', w.after_execution, 'tool_call_card_id', w.tool_call_card_id,
      'traceparent', state.trace_of(i.agent_turn_id, i.traceparent))), w.agent_turn_id, state.now()
  from state.turn_waiting_tools w
  cross join lateral state.head(w.project_id, w.agent_id) h
  left join lateral state.turn_row(w.agent_turn_id) i on true
  left join resource.tools t on t.project_id = w.project_id and t.tool_name = w.tool_name
  where w.project_id = p_project_id and w.tool_call_id = p_tool_call_id
$$;

-- Closes approvals whose deadline has passed, which denies the call, and those of turns that are over. The length of
-- p_ids, which holds two ids per item, limits how many.
create or replace function state.expire_approvals(p_ids text[])
returns setof state.verdict language plpgsql as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_due text[];
begin
  v_due := array(select a.approval_id from state.approvals a cross join lateral state.head(a.project_id, a.agent_id) h
    where a.status = 'waiting'
      and (a.deadline <= state.now() or h.active_agent_turn_id is distinct from a.agent_turn_id)
    order by a.asked_at limit cardinality(p_ids) / 2);
  if v_due = '{}' then return; end if;
  perform state.lock_heads(array_agg(a.project_id), array_agg(a.agent_id)) from state.approvals a
  where a.approval_id = any (v_due);
  v_now := state.now();
  with closed as (
    update state.approvals a set status = case when h.active_agent_turn_id is distinct from a.agent_turn_id
        then 'ended' else 'expired' end, decided_at = v_now
    from state.approvals o cross join lateral state.head(o.project_id, o.agent_id) h
    where a.approval_id = any (v_due) and o.approval_id = a.approval_id and a.status = 'waiting'
      and (a.deadline <= v_now or h.active_agent_turn_id is distinct from a.agent_turn_id)
    returning a.approval_id, a.tool_call_id, a.status
  )
  select array_agg(c.approval_id order by c.approval_id) into v_due from closed c
  where c.status = 'expired' and c.tool_call_id is not null;
  if v_due is null then return; end if;
  return query select * from state.report((
    select json_agg(json_build_object('project_id', a.project_id, 'tool_call_id', a.tool_call_id, 'message_type',
      'tool_result', 'status', 'failed', 'decided', true, 'error', json_build_object('code', 'approval_expired',
      'message', 'no one allowed the call before the deadline, so it was denied'),
      'inbox_id', p_ids[2 * d.at - 1], 'card_id', p_ids[2 * d.at]))
    from unnest(v_due) with ordinality as d (id, at) join state.approvals a on a.approval_id = d.id));
end $$;
